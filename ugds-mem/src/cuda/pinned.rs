//! Host memory that a GPU's copy engine reaches at full speed.
//!
//! UNSAFETY: takes memory from the driver, and gives it back.

#![allow(unsafe_code)]

use super::context::Context;
use super::{Cuda, GpuError, Pointer};
use crate::Memory;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::boxed::Box;
use std::sync::Arc;

/// Allocates pinned memory (`cuMemHostAlloc`), which all contexts see as such.
pub(super) fn allocate(cuda: &Arc<Cuda>, near: &Pointer, len_bytes: usize) -> Result<Memory, GpuError> {
    let context = Context::of(Arc::clone(cuda), near)?;
    let ptr = context.within(|cuda| {
        let mut ptr: *mut c_void = null_mut();
        // SAFETY: it writes a pointer, and a context is current.
        cuda.said("cuMemHostAlloc", unsafe { (cuda.api.cuMemHostAlloc)(&raw mut ptr, len_bytes, PORTABLE) })?;
        NonNull::new(ptr)
            .ok_or(GpuError::Nonsense { call: "cuMemHostAlloc", what: "success without memory".into() })
    })?;
    // INVARIANT: just allocated.
    let owner = Pinned { context, ptr };
    // SAFETY: the driver allocated so many bytes, they stay until `owner` is dropped, and nobody else knows them.
    Ok(unsafe { Memory::owned(ptr.cast(), len_bytes, Box::new(owner)) })
}

/// Memory of the driver.
///
/// # Invariants
///
/// `ptr` came from `cuMemHostAlloc` and belongs to this value alone.
#[derive(Debug)]
struct Pinned {
    context: Context,
    ptr: NonNull<c_void>,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Pinned {}
// SAFETY: nothing is reached through a shared reference.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.context.within(|cuda| {
            // SAFETY: type invariant; whoever used the memory is done, or it would have kept its owner.
            cuda.said("cuMemFreeHost", unsafe { (cuda.api.cuMemFreeHost)(self.ptr.as_ptr()) })
        });
    }
}

/// `CU_MEMHOSTALLOC_PORTABLE`.
const PORTABLE: u32 = 1;
