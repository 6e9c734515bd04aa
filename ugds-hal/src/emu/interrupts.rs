//! Interrupt vectors, as descriptors that somebody may wait for.

use super::stats::{self, Counters};
use crate::Event;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;

#[derive(Debug)]
pub(super) struct Interrupts {
    vectors: Box<[Event]>,
    /// The first 32 vectors that are masked by `INTMS`, when interrupts are not MSI-X.
    mask: AtomicU32,
    /// The masked vectors that would have been signalled.
    pending: AtomicU32,
    msix: bool,
}

impl Interrupts {
    pub(super) fn new(vectors: u16, msix: bool) -> io::Result<Self> {
        let vectors = (0..vectors).map(|_| Event::new()).collect::<io::Result<_>>()?;
        Ok(Self { vectors, mask: AtomicU32::new(0), pending: AtomicU32::new(0), msix })
    }

    pub(super) fn event(&self, vector: u16) -> Option<&Event> {
        self.vectors.get(usize::from(vector))
    }

    pub(super) fn exists(&self, vector: u16) -> bool {
        usize::from(vector) < self.vectors.len()
    }

    /// Signals a vector, now or when it is unmasked.
    pub(super) fn raise(&self, vector: u16, counters: &Counters) {
        let bit = if self.msix { 0 } else { 1_u32.checked_shl(vector.into()).unwrap_or(0) };
        if bit != 0 {
            // SeqCst, here and in `unmask`: either we see the cleared mask, or `unmask` sees the pending bit.
            self.pending.fetch_or(bit, Ordering::SeqCst);
            if self.mask.load(Ordering::SeqCst) & bit != 0 {
                return;
            }
            self.pending.fetch_and(!bit, Ordering::SeqCst);
        }
        self.signal(vector, counters);
    }

    pub(super) fn mask(&self) -> u32 {
        self.mask.load(Ordering::SeqCst)
    }

    pub(super) fn set_mask(&self, bits: u32) {
        if !self.msix {
            self.mask.fetch_or(bits, Ordering::SeqCst);
        }
    }

    pub(super) fn clear_mask(&self, bits: u32, counters: &Counters) {
        self.mask.fetch_and(!bits, Ordering::SeqCst);
        let due = self.pending.fetch_and(!bits, Ordering::SeqCst) & bits;
        for vector in (0..32).filter(|vector| due & 1 << vector != 0) {
            self.signal(vector, counters);
        }
    }

    pub(super) fn reset(&self) {
        self.mask.store(0, Ordering::SeqCst);
        self.pending.store(0, Ordering::SeqCst);
    }

    fn signal(&self, vector: u16, counters: &Counters) {
        if let Some(event) = self.event(vector) {
            stats::add(&counters.interrupts, 1);
            event.signal();
        }
    }
}
