//! The submission and completion ring of one queue pair.
//!
//! UNSAFETY: reads and writes ring entries by raw pointers, so that the hot path has no bounds check.

#![allow(unsafe_code)]

use super::doorbell::Bell;
use super::{Doorbell, ShadowPages};
use crate::order;
use crate::{Command, Dma, Port, Violation};
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use nvme_proto::register::DoorbellKind;
use nvme_proto::{Cid, Cqe, Qid, Sqe};
use zerocopy::little_endian::{U16, U32};

/// A queue pair whose rings lie in memory: the port of every local controller.
///
/// Dropping it leaks the rings, since the device may still write to them; `close` of whoever opened it frees them.
#[derive(Debug)]
pub struct PciePort<D> {
    submission: Submission<D>,
    completion: CompletionRing<D>,
    qid: Qid,
    entries: u16,
}

/// # Invariants
///
/// `base` points to `mask + 1` entries, a power of two, in `memory`, aligned to a page.
#[derive(Debug)]
#[repr(align(64))]
struct Submission<D> {
    base: NonNull<Sqe>,
    mask: u16,
    /// Free-running; the position in the ring is `tail & mask`.
    tail: u16,
    /// The tail that the device was last told.
    rung: u16,
    /// The last head that the device reported and we believed.
    head: u16,
    bell: Bell<D>,
    memory: ManuallyDrop<Dma>,
}

/// # Invariants
///
/// As for [`Submission`], with completion entries.
#[derive(Debug)]
#[repr(align(64))]
struct CompletionRing<D> {
    base: NonNull<[AtomicU32; 4]>,
    mask: u16,
    /// Free-running; the bit above the mask tells the lap and so the phase tag.
    head: u16,
    /// The head that the device was last told.
    rung: u16,
    /// `SQHD` of the last completion taken.
    reported: u16,
    bell: Bell<D>,
    memory: ManuallyDrop<Dma>,
}

// SAFETY: the rings are owned by this value alone on our side, and their memory belongs to no thread.
unsafe impl<D: Send> Send for PciePort<D> {}

/// The rings of a port that is being opened.
pub(super) struct Rings {
    pub(super) submission: Dma,
    pub(super) completion: Dma,
}

impl<D: Doorbell> PciePort<D> {
    /// Joins rings of `entries` entries with their doorbells. `None` when the memory is too small or misaligned,
    /// or `entries` is no power of two of at most 32,768.
    pub(super) fn new(
        rings: Rings,
        entries: u16,
        qid: Qid,
        bells: [D; 2],
        shadow: Option<Arc<ShadowPages>>,
    ) -> Option<Self> {
        let fits = |memory: &Dma, entry: usize| {
            memory.shared().len_bytes() >= usize::from(entries) * entry
                && memory.shared().as_ptr().addr().get().is_multiple_of(align_of::<Sqe>())
        };
        let sound = entries.is_power_of_two()
            && fits(&rings.submission, size_of::<Sqe>())
            && fits(&rings.completion, size_of::<Cqe>());
        if !sound {
            return None;
        }
        let [submission_bell, completion_bell] = bells;
        let submission_bell = Bell::new(submission_bell, shadow.clone(), qid, DoorbellKind::SubmissionTail);
        let completion_bell = Bell::new(completion_bell, shadow, qid, DoorbellKind::CompletionHead);
        // INVARIANT (both rings): length, alignment and power of two were just tested.
        Some(Self {
            submission: Submission {
                base: rings.submission.shared().as_ptr().cast(),
                mask: entries - 1,
                tail: 0,
                rung: 0,
                head: 0,
                bell: submission_bell,
                memory: ManuallyDrop::new(rings.submission),
            },
            completion: CompletionRing {
                base: rings.completion.shared().as_ptr().cast(),
                mask: entries - 1,
                head: 0,
                rung: 0,
                reported: 0,
                bell: completion_bell,
                memory: ManuallyDrop::new(rings.completion),
            },
            qid,
            entries,
        })
    }

    /// The identifier of both queues.
    #[must_use]
    pub fn qid(&self) -> Qid {
        self.qid
    }

    /// Frees the rings.
    ///
    /// The caller knows that the device has let go of them: it confirmed the deletion, or was proved to have
    /// stopped. It is a mistake, though not memory-unsafe for this process, to call it earlier: an access by the
    /// device would then miss its mapping.
    pub(super) fn free(self) {
        drop(ManuallyDrop::into_inner(self.submission.memory));
        drop(ManuallyDrop::into_inner(self.completion.memory));
    }
}

impl<D: Doorbell> Port for PciePort<D> {
    #[inline]
    fn entries(&self) -> u16 {
        self.entries
    }

    #[inline]
    fn stage(&mut self, cid: Cid, command: &Command<'_>) {
        let ring = &mut self.submission;
        let sqe = command.sqe().with_cid(cid);
        // SAFETY:
        // - the index is masked, so the entry lies in the ring (type invariant), aligned to 64;
        // - only this value writes the ring, and the device reads an entry only after the doorbell.
        unsafe { ring.base.add(usize::from(ring.tail & ring.mask)).write(sqe) };
        ring.tail = ring.tail.wrapping_add(1);
    }

    #[inline]
    fn publish(&mut self) {
        let ring = &mut self.submission;
        if ring.rung != ring.tail {
            ring.rung = ring.tail;
            ring.bell.write(ring.tail & ring.mask);
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Cqe> {
        let ring = &mut self.completion;
        // SAFETY: the index is masked, so the entry lies in the ring (type invariant), aligned to 16; all accesses
        // to completion entries are atomic.
        let entry = unsafe { ring.base.add(usize::from(ring.head & ring.mask)).as_ref() };
        // Relaxed: `after_phase` orders the other words behind this load.
        let last = u32::from_le(entry[3].load(Ordering::Relaxed));
        // The first lap has phase 1; the bit above the mask is 0 then.
        let expected = ring.head & (ring.mask + 1) == 0;
        if (last >> 16 & 1 != 0) != expected {
            return None;
        }
        order::after_phase();
        let queue = u32::from_le(entry[2].load(Ordering::Relaxed));
        ring.head = ring.head.wrapping_add(1);
        ring.reported = queue as u16;
        Some(Cqe {
            dw0: U32::from_bytes(entry[0].load(Ordering::Relaxed).to_ne_bytes()),
            dw1: U32::from_bytes(entry[1].load(Ordering::Relaxed).to_ne_bytes()),
            sqhd: U16::new(queue as u16),
            sqid: U16::new((queue >> 16) as u16),
            cid: U16::new(last as u16),
            status: U16::new((last >> 16) as u16),
        })
    }

    #[inline]
    fn retire(&mut self) -> Result<(), Violation> {
        let ring = &mut self.completion;
        if ring.rung == ring.head {
            return Ok(());
        }
        self.submission.accept_head(ring.reported, ring.head, self.qid)?;
        ring.rung = ring.head;
        ring.bell.write(ring.head & ring.mask);
        Ok(())
    }
}

impl<D> Submission<D> {
    /// Takes over the head that the device reports, if it lies between the last one and what was submitted, and not
    /// before what was completed: a command that was not fetched can't be.
    ///
    /// Both counts run freely from the same start, so `completed` is also the position up to which commands would
    /// have been fetched, had they been completed in order. With nothing outstanding the head is the tail.
    #[inline]
    fn accept_head(&mut self, reported: u16, completed: u16, qid: Qid) -> Result<(), Violation> {
        let submitted = self.rung.wrapping_sub(self.head);
        let advance = reported.wrapping_sub(self.head) & self.mask;
        let head = self.head.wrapping_add(advance);
        if reported > self.mask || advance > submitted || (head.wrapping_sub(completed) as i16) < 0 {
            return Err(self.violation(reported, qid));
        }
        self.head = head;
        Ok(())
    }

    #[cold]
    fn violation(&self, sqhd: u16, qid: Qid) -> Violation {
        let (head, tail) = (self.head & self.mask, self.rung & self.mask);
        Violation::SubmissionHead { qid, sqhd, head, tail }
    }
}
