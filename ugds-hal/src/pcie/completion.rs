//! The completion ring: written by the device, read by us.
//!
//! UNSAFETY: reads entries by raw pointers, so that the hot path has no bounds check.

#![allow(unsafe_code)]

use super::Doorbell;
use super::doorbell::Bell;
use super::ring::fits;
use crate::{Dma, Reaped, order, port};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use nvme_proto::Cqe;
use zerocopy::little_endian::{U16, U32};

/// # Invariants
///
/// `base` points to a power of two of entries in `memory`; `end` lies behind the last, and `next` is one of them.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct CompletionRing<D> {
    next: NonNull<Entry>,
    end: NonNull<Entry>,
    /// The most bytes of one pass.
    pass_bytes: usize,
    /// The phase tag of entries that are filled in this lap, in its place in DW3.
    lap: u32,
    /// `SQHD` of the last completion that [`next`](Self::next) took, until it is given back.
    reported: Option<u16>,
    base: NonNull<Entry>,
    bell: Bell<D>,
    memory: ManuallyDrop<Dma>,
}

/// A completion queue entry as this side sees it: changed by the device, so read by atomics only.
#[derive(Debug)]
#[repr(C, align(16))]
struct Entry {
    /// DW0 and DW1, the result.
    result: [AtomicU32; 2],
    /// DW2: SQHD in the lower half.
    queue: AtomicU32,
    /// DW3: the phase tag in bit 16, the status above, CID below.
    last: AtomicU32,
}

static_assertions::const_assert_eq!(size_of::<Entry>(), size_of::<Cqe>());

// SAFETY: the ring is owned by this value alone on our side, and its memory belongs to no thread.
unsafe impl<D: Send> Send for CompletionRing<D> {}

impl<D: Doorbell> CompletionRing<D> {
    pub(super) fn new(memory: Dma, entries: u16, bell: Bell<D>) -> Option<Self> {
        if !fits(&memory, entries, size_of::<Entry>()) {
            return None;
        }
        let base = memory.shared().as_ptr().cast::<Entry>();
        // INVARIANT: length and alignment were just tested, and a ring has at least one entry.
        Some(Self {
            next: base,
            // SAFETY: the memory has `entries` entries.
            end: unsafe { base.add(usize::from(entries)) },
            pass_bytes: usize::from(port::pass_limit(entries)) * size_of::<Entry>(),
            lap: PHASE,
            reported: None,
            base,
            bell,
            memory: ManuallyDrop::new(memory),
        })
    }

    pub(super) fn free(self) {
        drop(ManuallyDrop::into_inner(self.memory));
    }

    /// Takes the next completion, if it is there.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Cqe> {
        let lap = self.lap;
        // SAFETY: `next` is an entry (type invariant), and all accesses to entries are atomic.
        let entry = unsafe { self.next.as_ref() };
        let last = entry.look(lap)?;
        let (queue, result) = (entry.queue(), Reaped::new(&entry.result, last).result());
        self.reported = Some(queue as u16);
        // SAFETY: behind an entry is another or the end.
        unsafe { self.advance(self.next.add(1)) };
        Some(Cqe {
            dw0: U32::new(result as u32),
            dw1: U32::new((result >> 32) as u32),
            sqhd: U16::new(queue as u16),
            sqid: U16::new((queue >> 16) as u16),
            cid: U16::new(last as u16),
            status: U16::new(((last ^ lap) >> 16) as u16),
        })
    }

    /// Takes `SQHD` of the last completion that [`next`](Self::next) took and that was not given back.
    #[inline]
    pub(super) fn take_reported(&mut self) -> Option<u16> {
        self.reported.take()
    }

    /// Hands out what is there, and returns how many completions that were, and `SQHD` of the last or the error that
    /// `each` ended with.
    ///
    /// All in one loop, whose state lies in registers. It ends at the end of the ring, up to which the phase tag
    /// expected does not change.
    #[inline]
    pub(super) fn pass<E>(
        &mut self,
        mut each: impl FnMut(Reaped<'_>) -> Result<(), E>,
    ) -> (usize, Result<u16, E>) {
        debug_assert!(self.reported.is_none(), "what `next` took is retired first");
        let (start, lap) = (self.next, self.lap);
        let room_bytes = self.end.addr().get() - start.addr().get();
        // SAFETY: at most the end, by a multiple of an entry.
        let stop = unsafe { start.byte_add(room_bytes.min(self.pass_bytes)) };
        let mut at = start;
        while at != stop {
            // SAFETY: `at` goes from an entry up to before `stop`, and all accesses to entries are atomic.
            let entry = unsafe { at.as_ref() };
            let Some(last) = entry.look(lap) else { break };
            if let Err(error) = each(Reaped::new(&entry.result, last)) {
                return (self.break_off(at), Err(error));
            }
            // SAFETY: at most `stop`.
            at = unsafe { at.add(1) };
        }
        if at == start {
            return (0, Ok(0));
        }
        // SAFETY: `at` lies behind `start`, so the one before it is an entry.
        let reported = unsafe { at.sub(1).as_ref() }.queue() as u16;
        // SAFETY: an entry, or the end.
        unsafe { self.advance(at) };
        // SAFETY: both lie in the ring or at its end.
        (unsafe { at.offset_from_unsigned(start) }, Ok(reported))
    }

    /// Ends a pass at an entry that could not be handed out, which is not tried again either. Returns how many were.
    #[cold]
    #[inline(never)]
    fn break_off(&mut self, at: NonNull<Entry>) -> usize {
        // SAFETY: `at` is an entry not before `next`.
        let count = unsafe { at.offset_from_unsigned(self.next) };
        // SAFETY: behind an entry is another or the end.
        unsafe { self.advance(at.add(1)) };
        count
    }

    /// Hands out the next completion if it is there, and returns its `SQHD`.
    #[inline(always)]
    pub(super) fn one<E>(
        &mut self,
        each: impl FnOnce(Reaped<'_>) -> Result<(), E>,
    ) -> Result<Option<u16>, E> {
        debug_assert!(self.reported.is_none(), "what `next` took is retired first");
        // Once, since what `each` changes could be this, for all the compiler knows.
        let next = self.next;
        // SAFETY: `next` is an entry (type invariant), and all accesses to entries are atomic.
        let entry = unsafe { next.as_ref() };
        let Some(last) = entry.look(self.lap) else { return Ok(None) };
        let reported = entry.queue() as u16;
        let reaped = Reaped::new(&entry.result, last);
        // Before `each`, so that a completion is not found again should that panic. The device gets the entry back later.
        // SAFETY: behind an entry is another or the end.
        unsafe { self.advance(next.add(1)) };
        each(reaped)?;
        Ok(Some(reported))
    }

    /// The position of the next entry, in entries.
    #[inline]
    pub(super) fn position(&self) -> u16 {
        // SAFETY: both are entries of the ring.
        unsafe { self.next.offset_from_unsigned(self.base) as u16 }
    }

    /// Gives the device all entries back that were taken, which are those up to `position`.
    #[inline]
    pub(super) fn give_back(&mut self, position: u16) {
        self.bell.write(position);
    }

    /// # Safety
    ///
    /// `next` is an entry or the end.
    #[inline]
    unsafe fn advance(&mut self, next: NonNull<Entry>) {
        // INVARIANT: an entry, the first one in place of the end.
        self.next = if next == self.end { self.turn() } else { next };
    }

    /// Begins another lap, with the first entry.
    #[cold]
    #[inline(never)]
    fn turn(&mut self) -> NonNull<Entry> {
        self.lap ^= PHASE;
        self.base
    }
}

impl Entry {
    /// DW3 without its phase tag, if this entry was filled in the lap with the phase tag `lap`.
    #[inline]
    fn look(&self, lap: u32) -> Option<u32> {
        // Relaxed: `after_phase` orders the other words behind this load.
        let last = u32::from_le(self.last.load(Ordering::Relaxed)) ^ lap;
        if last & PHASE != 0 {
            return None;
        }
        order::after_phase();
        Some(last)
    }

    #[inline]
    fn queue(&self) -> u32 {
        // Relaxed: called after `look`.
        u32::from_le(self.queue.load(Ordering::Relaxed))
    }
}

/// Where DW3 has the phase tag.
const PHASE: u32 = 1 << 16;
