//! Where whoever reaps leaves the outcomes of a batch's commands for the thread that collects them.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use nvme_proto::Status;

/// A ring of outcomes: any reaper puts one in, the batch's owner takes them out, and nobody waits for anybody.
///
/// It has room for every command that the batch may have outstanding, so it never overflows.
#[derive(Debug)]
pub(crate) struct Landing {
    slots: Box<[AtomicU64]>,
    tail: Tail,
}

/// Written by reapers only, so on a line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Tail(AtomicU32);

/// The owner's end of the ring.
#[derive(Debug, Default)]
pub(crate) struct Head(u32);

/// That a slot is full; the status lies above it, the token below.
const FULL: u64 = 1 << 32;
const STATUS_SHIFT: u32 = 33;

impl Landing {
    /// Room for `commands` outcomes.
    pub(super) fn new(commands: usize) -> Self {
        let slots = (0..commands.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
        Self { slots, tail: Tail(AtomicU32::new(0)) }
    }

    /// Puts the outcome of the command `token` in.
    #[inline]
    pub(super) fn land(&self, token: u32, status: Status) {
        // AcqRel: whoever takes a slot that was used before sees that it was emptied, through those who took the slots
        // between.
        let at = self.tail.0.fetch_add(1, Ordering::AcqRel);
        let word = u64::from(status.to_field(false)) << STATUS_SHIFT | FULL | u64::from(token);
        // Release: who takes the outcome also sees the data, which the reaper acquired with the phase tag.
        self.slots[at as usize & (self.slots.len() - 1)].store(word, Ordering::Release);
    }

    /// Takes the next outcome out.
    #[inline]
    pub(super) fn take(&self, head: &mut Head) -> Option<(u32, Status)> {
        let slot = &self.slots[head.0 as usize & (self.slots.len() - 1)];
        // Acquire: pairs with `land`.
        let word = slot.load(Ordering::Acquire);
        if word == 0 {
            return None;
        }
        // Relaxed: `land` gets to this slot again only after commands were launched behind this store, under a lock.
        slot.store(0, Ordering::Relaxed);
        head.0 = head.0.wrapping_add(1);
        Some((word as u32, Status::from_field((word >> STATUS_SHIFT) as u16)))
    }

    /// Whether there is more than was taken up to `head`.
    #[inline]
    pub(super) fn is_ahead_of(&self, head: u32) -> bool {
        // Acquire: pairs with `land`.
        self.tail.0.load(Ordering::Acquire) != head
    }
}

impl Head {
    /// The number of outcomes that were taken.
    pub(super) fn taken(&self) -> u32 {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_out_once_and_in_order() {
        let (landing, mut head) = (Landing::new(3), Head::default());
        let bad = Status::new(2, 0x81).with_do_not_retry();
        for round in 0..10 {
            assert_eq!(landing.take(&mut head), None);
            assert!(!landing.is_ahead_of(head.taken()));
            landing.land(round, bad);
            landing.land(u32::MAX - round, Status::SUCCESS);
            assert!(landing.is_ahead_of(head.taken()));
            assert_eq!(landing.take(&mut head), Some((round, bad)));
            assert_eq!(landing.take(&mut head), Some((u32::MAX - round, Status::SUCCESS)));
        }
    }
}
