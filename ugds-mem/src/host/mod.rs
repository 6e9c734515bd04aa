//! Host memory from the operating system.
//!
//! UNSAFETY: maps and unmaps anonymous memory.

#![allow(unsafe_code)]

use crate::{MemError, Memory, Region};
use alloc::boxed::Box;
use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// Allocates a zeroed region of `len_bytes`, page-aligned, and aligned to a huge page when it is as large as one.
///
/// # Errors
///
/// [`MemError::RegionLength`] for an empty one, [`MemError::Allocate`] with the operating system's reason.
pub fn allocate(len_bytes: usize) -> Result<Region, MemError> {
    let pages = Anonymous::map(len_bytes)?;
    let start = pages.start;
    // SAFETY: the memory stays mapped until `pages`, its owner, is dropped, and no reference to it is ever made.
    Region::new(unsafe { Memory::owned(start, len_bytes, Box::new(pages)) })
}

/// An anonymous mapping, unmapped on drop.
///
/// # Invariants
///
/// `base` and `mapped_bytes` are those of one `mmap` that belongs to this value alone; `start` lies in it.
struct Anonymous {
    base: NonNull<c_void>,
    mapped_bytes: usize,
    start: NonNull<u8>,
}

// SAFETY: the mapping belongs to no thread, and this value is used only to unmap it.
unsafe impl Send for Anonymous {}
// SAFETY: as above; nothing is reached through `&self`.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    fn map(len_bytes: usize) -> Result<Self, MemError> {
        let align = if len_bytes >= HUGE_PAGE { HUGE_PAGE } else { 1 };
        let mapped = len_bytes.checked_add(align - 1).and_then(NonZeroUsize::new);
        let (Some(length), true) = (mapped, len_bytes > 0) else {
            return Err(MemError::RegionLength { len_bytes });
        };
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE) }
            .map_err(|errno| MemError::Allocate { len_bytes, reason: errno.desc() })?;
        // SAFETY: rounding up to `align` moves by less than the `align - 1` bytes mapped on top.
        let start = unsafe { base.cast::<u8>().byte_add(base.cast::<u8>().align_offset(align)) };
        if align == HUGE_PAGE {
            // SAFETY: advice about our own mapping. It may be refused, and then pages are small.
            let _ = unsafe { madvise(base, length.get(), MmapAdvise::MADV_HUGEPAGE) };
        }
        Ok(Self { base, mapped_bytes: length.get(), start })
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped (type invariant), and nobody uses it any more: the region, its mappings
        // and so the device's access are gone before the owner is dropped.
        let unmapped = unsafe { munmap(self.base, self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping failed");
    }
}

const HUGE_PAGE: usize = 2 << 20;
