//! The submission ring: written by us, read by the device.
//!
//! UNSAFETY: writes entries by raw pointers, so that the hot path has no bounds check.

#![allow(unsafe_code)]

use super::Doorbell;
use super::doorbell::Bell;
use super::ring::fits;
use crate::Dma;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use nvme_proto::Sqe;

/// # Invariants
///
/// - `base` points to a power of two of entries in `memory`, aligned to one.
/// - `tail_bytes` is the offset of an entry, and `mask_bytes` all bits of such an offset and of those within an entry.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct SubmissionRing<D> {
    base: NonNull<[u64; 8]>,
    tail_bytes: u32,
    mask_bytes: u32,
    /// The tail that the device was last told.
    rung: u16,
    /// The last head that the device reported and we believed.
    head: u16,
    bell: Bell<D>,
    memory: ManuallyDrop<Dma>,
}

// SAFETY: the ring is owned by this value alone on our side, and its memory belongs to no thread.
unsafe impl<D: Send> Send for SubmissionRing<D> {}

impl<D: Doorbell> SubmissionRing<D> {
    pub(super) fn new(memory: Dma, entries: u16, bell: Bell<D>) -> Option<Self> {
        if !fits(&memory, entries, size_of::<Sqe>()) {
            return None;
        }
        // INVARIANT: length, alignment and power of two were just tested.
        Some(Self {
            base: memory.shared().as_ptr().cast(),
            tail_bytes: 0,
            mask_bytes: u32::from(entries) * ENTRY_BYTES - 1,
            rung: 0,
            head: 0,
            bell,
            memory: ManuallyDrop::new(memory),
        })
    }

    pub(super) fn free(self) {
        drop(ManuallyDrop::into_inner(self.memory));
    }

    #[inline]
    pub(super) fn stage(&mut self, words: [u64; 8]) {
        // SAFETY:
        // - the offset is that of an entry in the ring (type invariant);
        // - only this value writes the ring, and the device reads an entry only between its doorbell and its completion:
        //   with fewer commands outstanding than entries, which is the caller's duty, this one is not being read.
        let entry = unsafe { self.base.byte_add(self.tail_bytes as usize) }.cast::<u64>();
        let [w0, w1, w2, w3, w4, w5, w6, w7] = words;
        // Word by word: an array would be put together in memory first.
        // SAFETY: as above; an entry has eight words.
        unsafe {
            entry.write(w0);
            entry.add(1).write(w1);
            entry.add(2).write(w2);
            entry.add(3).write(w3);
            entry.add(4).write(w4);
            entry.add(5).write(w5);
            entry.add(6).write(w6);
            entry.add(7).write(w7);
        }
        // INVARIANT: the next entry, or the first one behind the last.
        self.tail_bytes = (self.tail_bytes + ENTRY_BYTES) & self.mask_bytes;
    }

    #[inline(always)]
    pub(super) fn publish(&mut self) -> bool {
        let tail = (self.tail_bytes / ENTRY_BYTES) as u16;
        if tail == self.rung {
            return false;
        }
        self.rung = tail;
        self.bell.write(tail);
        true
    }

    /// Takes over the head that the device reports, where `completed` is the position up to which commands would have
    /// been fetched had they been completed in order. The error holds the bounds that it was not within.
    ///
    /// That everything was fetched is always right, and what most passes see.
    #[inline]
    pub(super) fn accept_head(&mut self, reported: u16, completed: u16) -> Result<(), [u16; 2]> {
        if reported != self.rung && !self.may_be_head(reported, completed) {
            return Err([self.head, self.rung]);
        }
        self.head = reported;
        Ok(())
    }

    /// Whether `reported` lies between the last head and what was submitted, and not before what was completed: a
    /// command that was not fetched can't be.
    #[cold]
    #[inline(never)]
    fn may_be_head(&self, reported: u16, completed: u16) -> bool {
        let mask = (self.mask_bytes / ENTRY_BYTES) as u16;
        let within = |from: u16| reported.wrapping_sub(from) & mask <= self.rung.wrapping_sub(from) & mask;
        reported <= mask && within(self.head) && within(completed)
    }
}

const ENTRY_BYTES: u32 = size_of::<Sqe>() as u32;
