//! Host memory that a GPU's copy engine reaches at full speed.
//!
//! UNSAFETY: takes memory from HIP, and gives it back.

#![allow(unsafe_code)]

use super::{GpuError, Hip, Pointer, device};
use crate::Memory;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::boxed::Box;
use std::sync::Arc;

/// Allocates pinned memory (`hipHostMalloc`), which all devices see as such.
pub(super) fn allocate(hip: &Arc<Hip>, near: &Pointer, len_bytes: usize) -> Result<Memory, GpuError> {
    let ptr = device::within(hip, near.ordinal, |hip| {
        let mut ptr: *mut c_void = null_mut();
        // SAFETY: it writes a pointer.
        hip.said("hipHostMalloc", unsafe { (hip.api.hipHostMalloc)(&raw mut ptr, len_bytes, PORTABLE) })?;
        NonNull::new(ptr)
            .ok_or(GpuError::Nonsense { call: "hipHostMalloc", what: "success without memory".into() })
    })?;
    // INVARIANT: just allocated.
    let owner = Pinned { hip: Arc::clone(hip), ptr };
    // SAFETY: HIP allocated so many bytes, they stay until `owner` is dropped, and nobody else knows them.
    Ok(unsafe { Memory::owned(ptr.cast(), len_bytes, Box::new(owner)) })
}

/// Memory of HIP.
///
/// # Invariants
///
/// `ptr` came from `hipHostMalloc` and belongs to this value alone.
#[derive(Debug)]
struct Pinned {
    hip: Arc<Hip>,
    ptr: NonNull<c_void>,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Pinned {}
// SAFETY: nothing is reached through a shared reference.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: type invariant; whoever used the memory is done, or it would have kept its owner.
        let _ = unsafe { (self.hip.api.hipHostFree)(self.ptr.as_ptr()) };
    }
}

/// `hipHostMallocPortable`.
const PORTABLE: u32 = 1;
