//! Registrations of buffers that nobody registered, for calls that are over when they return.
//!
//! UNSAFETY: takes addresses from callers, who promise that the memory lasts for a call.

#![allow(unsafe_code)]

use super::{GpuError, How, Pointer, Registration, Vendor};
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::Vec;

/// Registers whole allocations as they are used, and keeps the last few.
///
/// An allocation is known by where it begins and by its buffer id, which is asked for each time: memory that was freed
/// and given out again at the same address is another allocation, and is registered anew. Where the driver has no such
/// id, nothing is kept.
///
/// A registration that is kept with a DMA-buf keeps the memory behind it in use even when its owner frees it, until it is
/// the one least recently used, or [`clear`](Self::clear) is called. [`How::Staged`] keeps nothing in use.
#[derive(Debug)]
pub struct OnTheFly {
    vendor: Arc<dyn Vendor>,
    most: usize,
    how: How,
    /// The one used last is at the end.
    kept: Mutex<Vec<Arc<Registration>>>,
}

/// A registration, and where in it the memory is that was asked for.
#[derive(Debug)]
pub struct Found {
    /// Of the whole allocation.
    pub registration: Arc<Registration>,
    /// In bytes.
    pub offset: usize,
}

impl OnTheFly {
    /// Keeps up to `most` registrations, made in the way `how`.
    #[must_use]
    pub fn new(vendor: Arc<dyn Vendor>, most: usize, how: How) -> Self {
        Self { vendor, most, how, kept: Mutex::default() }
    }

    /// Finds, or makes, the registration of the allocation that holds `len_bytes` at `address`.
    ///
    /// # Errors
    ///
    /// As [`Registration::new`].
    ///
    /// # Safety
    ///
    /// As of [`Registration::new`], but until the returned registration is dropped: what is kept here is not used before
    /// the driver said that the allocation is there again. The context that the memory belongs to is there until
    /// [`clear`](Self::clear) is called or this value is dropped.
    pub unsafe fn find(&self, address: u64, len_bytes: usize) -> Result<Found, GpuError> {
        let pointer = self.vendor.describe(address)?;
        if !pointer.kind.is_gpu() {
            return Err(GpuError::NotGpu { address, kind: pointer.kind });
        }
        if len_bytes == 0 || !pointer.holds(len_bytes as u64) {
            return Err(GpuError::Range {
                address,
                len_bytes: len_bytes as u64,
                limit_address: pointer.base,
                limit_bytes: pointer.len_bytes,
            });
        }
        let offset = (address - pointer.base) as usize;
        if let Some(registration) = self.known(&pointer) {
            return Ok(Found { registration, offset });
        }
        let (base, len) = (pointer.base, pointer.len_bytes as usize);
        // SAFETY: the caller's promise holds for the allocation, which is freed as a whole.
        let registration = unsafe { Registration::new(&self.vendor, base, len, self.how.clone()) }?;
        self.keep(&registration);
        Ok(Found { registration, offset })
    }

    /// How many are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        let gone = core::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        // Outside of the lock: descriptors are closed, and streams destroyed.
        drop(gone);
    }

    fn known(&self, pointer: &Pointer) -> Option<Arc<Registration>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|known| same(known.pointer(), pointer))?;
        let found = kept.remove(at);
        kept.push(Arc::clone(&found));
        Some(found)
    }

    fn keep(&self, new: &Arc<Registration>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // What lies where the new one is was freed.
        let (mut gone, mut stay): (Vec<_>, Vec<_>) =
            kept.drain(..).partition(|known| overlap(known.pointer(), new.pointer()));
        if new.pointer().buffer_id != 0 && self.most > 0 {
            let surplus = (stay.len() + 1).saturating_sub(self.most);
            gone.extend(stay.drain(..surplus));
            stay.push(Arc::clone(new));
        }
        *kept = stay;
        drop(kept);
        // Outside of the lock, as above.
        drop(gone);
    }
}

/// Whether both are the same allocation. Without a number it can't be known.
fn same(known: &Pointer, now: &Pointer) -> bool {
    known.buffer_id != 0
        && (known.base, known.len_bytes, known.buffer_id) == (now.base, now.len_bytes, now.buffer_id)
}

fn overlap(a: &Pointer, b: &Pointer) -> bool {
    a.base < b.base.saturating_add(b.len_bytes) && b.base < a.base.saturating_add(a.len_bytes)
}
