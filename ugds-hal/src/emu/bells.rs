//! The doorbell registers. A write takes no lock: it checks the value, stores it, and wakes whoever serves the queue.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use nvme_proto::Qid;
use nvme_proto::register::DoorbellKind;

/// One doorbell, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Bell {
    /// The entries of the queue, 0 when there is none.
    entries: AtomicU32,
    /// The last valid value: a submission tail, or a completion head.
    value: AtomicU32,
    /// The device's end: the submission head, or the completion tail.
    device: AtomicU32,
    /// Of a completion queue: completions wait for room.
    waiting: AtomicBool,
    /// The last wrong value in the shadow, plus one: it is polled many times and reported once.
    complained: AtomicU32,
}

/// Why a doorbell write was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ignored {
    NoQueue,
    Value,
}

impl Bell {
    /// Makes the doorbell belong to a new queue of `entries`.
    pub(super) fn open(&self, entries: u32) {
        self.value.store(0, Ordering::Relaxed);
        self.device.store(0, Ordering::Relaxed);
        self.waiting.store(false, Ordering::Relaxed);
        self.complained.store(0, Ordering::Relaxed);
        // Release: whoever sees the queue sees its zeroes.
        self.entries.store(entries, Ordering::Release);
    }

    pub(super) fn close(&self) {
        self.entries.store(0, Ordering::Release);
    }

    /// Takes a value from the host. It must be new, and must not run past the device's end.
    ///
    /// The host knows the device's end only from completions, which are posted after it moved; so an end that is
    /// read too early here can't refuse a value that is right.
    pub(super) fn ring(&self, kind: DoorbellKind, value: u32) -> Result<(), Ignored> {
        let entries = self.entries.load(Ordering::Acquire);
        if entries == 0 {
            return Err(Ignored::NoQueue);
        }
        let last = self.value.load(Ordering::Relaxed);
        if value >= entries || value == last || self.added(kind, entries, last, value) {
            return Err(Ignored::Value);
        }
        // Release: whoever fetches sees the entries. The user's fence orders it before the look at who sleeps.
        self.value.store(value, Ordering::Release);
        Ok(())
    }

    /// Whether moving on from `last` to `value` adds or frees more entries than there are.
    fn added(&self, kind: DoorbellKind, entries: u32, last: u32, value: u32) -> bool {
        let device = self.device.load(Ordering::Acquire);
        let step = distance(last, value, entries);
        let room = match kind {
            DoorbellKind::SubmissionTail => entries - 1 - distance(device, last, entries),
            DoorbellKind::CompletionHead => distance(last, device, entries),
        };
        step > room
    }

    /// Takes a value that was polled from a shadow. `None` when it can't be right.
    pub(super) fn poll(&self, kind: DoorbellKind, value: u32) -> Option<bool> {
        let last = self.value.load(Ordering::Relaxed);
        if value == last {
            return Some(false);
        }
        self.ring(kind, value).ok().map(|()| true)
    }

    /// Whether a wrong value in the shadow is a new one.
    pub(super) fn complain(&self, value: u32) -> bool {
        let mark = value.wrapping_add(1);
        self.complained.swap(mark, Ordering::Relaxed) != mark
    }

    pub(super) fn value(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    /// Moves the device's end. Before the completion that tells the host.
    pub(super) fn set_device(&self, position: u32) {
        self.device.store(position, Ordering::Release);
    }

    pub(super) fn set_waiting(&self, waiting: bool) {
        // SeqCst: paired with `is_waiting`, and with the host's store of the value.
        self.waiting.store(waiting, Ordering::SeqCst);
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst)
    }
}

/// The doorbells of all queues that the controller has.
#[derive(Debug)]
pub(super) struct Bells {
    pairs: Box<[[Bell; 2]]>,
}

impl Bells {
    /// Doorbells for the admin queue and `queues` more.
    pub(super) fn new(queues: u16) -> Self {
        Self { pairs: (0..=queues).map(|_| Default::default()).collect() }
    }

    pub(super) fn get(&self, qid: Qid, kind: DoorbellKind) -> Option<&Bell> {
        let pair = self.pairs.get(usize::from(qid.0))?;
        Some(match kind {
            DoorbellKind::SubmissionTail => &pair[0],
            DoorbellKind::CompletionHead => &pair[1],
        })
    }

    /// The doorbell of a queue that exists, and so lies within the table.
    pub(super) fn of(&self, qid: Qid, kind: DoorbellKind) -> &Bell {
        self.get(qid, kind).expect("queues are created only up to the number of doorbells")
    }

    pub(super) fn close_all(&self) {
        self.pairs.iter().flatten().for_each(Bell::close);
    }
}

/// Steps from `from` forward to `to` in a ring.
pub(super) fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { entries - from + to }
}

#[cfg(test)]
mod tests {
    use super::DoorbellKind::{CompletionHead, SubmissionTail};
    use super::*;

    #[test]
    fn values_out_of_range_repeated_or_past_the_end_are_ignored() {
        let bell = Bell::default();
        assert_eq!(bell.ring(SubmissionTail, 0), Err(Ignored::NoQueue));
        bell.open(4);
        assert_eq!(bell.ring(SubmissionTail, 4), Err(Ignored::Value));
        assert_eq!(bell.ring(SubmissionTail, 0), Err(Ignored::Value));
        assert_eq!(bell.ring(SubmissionTail, 3), Ok(()));
        assert_eq!(bell.ring(SubmissionTail, 0), Err(Ignored::Value), "the queue is full");
        bell.set_device(2);
        assert_eq!(bell.ring(SubmissionTail, 1), Ok(()));
        assert_eq!(bell.ring(SubmissionTail, 2), Err(Ignored::Value));
        assert_eq!(bell.value(), 1);
    }

    #[test]
    fn a_completion_head_does_not_pass_the_tail() {
        let bell = Bell::default();
        bell.open(4);
        assert_eq!(bell.ring(CompletionHead, 1), Err(Ignored::Value));
        bell.set_device(2);
        assert_eq!(bell.ring(CompletionHead, 3), Err(Ignored::Value));
        assert_eq!(bell.ring(CompletionHead, 2), Ok(()));
        assert_eq!(bell.poll(CompletionHead, 2), Some(false));
        assert_eq!(bell.poll(CompletionHead, 3), None);
    }
}
