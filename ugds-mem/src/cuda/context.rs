//! The context that calls about some memory are made in. None is ever made here.
//!
//! UNSAFETY: makes an application's context current, and its own again after.

#![allow(unsafe_code)]

use super::table::Handle;
use super::{Cuda, GpuError, Pointer, describe};
use core::ptr::null_mut;
use std::sync::Arc;

/// A context of the application.
///
/// # Invariants
///
/// `handle` is a context that is there for as long as this value is: the promise of whoever registered memory in it, or
/// a reference of our own to the device's primary context.
#[derive(Debug)]
pub(super) struct Context {
    cuda: Arc<Cuda>,
    handle: Handle,
    /// The device whose primary context was retained.
    retained: Option<i32>,
}

// SAFETY: a context may be made current on any thread, and on several at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The context of the memory; if it belongs to none, the caller's current one on that GPU, else the GPU's primary
    /// one if the application has made it.
    pub(super) fn of(cuda: Arc<Cuda>, pointer: &Pointer) -> Result<Self, GpuError> {
        if pointer.context != 0 {
            // INVARIANT: promised by whoever registered the memory.
            let handle = core::ptr::with_exposed_provenance_mut(pointer.context);
            return Ok(Self { cuda, handle, retained: None });
        }
        let device = describe::device(&cuda, pointer.ordinal)?;
        if let Some(handle) = current(&cuda, device)? {
            // INVARIANT: promised by whoever registered the memory.
            return Ok(Self { cuda, handle, retained: None });
        }
        let (mut flags, mut active) = (0, 0);
        // SAFETY: it writes two integers.
        let code = unsafe { (cuda.api.cuDevicePrimaryCtxGetState)(device, &raw mut flags, &raw mut active) };
        cuda.said("cuDevicePrimaryCtxGetState", code)?;
        if active == 0 {
            return Err(GpuError::NoContext { ordinal: pointer.ordinal });
        }
        let mut handle = null_mut();
        // SAFETY: it writes a handle, and counts one more user of a context that is there.
        let code = unsafe { (cuda.api.cuDevicePrimaryCtxRetain)(&raw mut handle, device) };
        cuda.said("cuDevicePrimaryCtxRetain", code)?;
        // INVARIANT: retained.
        Ok(Self { cuda, handle, retained: Some(device) })
    }

    /// Runs `f` with the context current, and then the caller's again.
    pub(super) fn within<T>(&self, f: impl FnOnce(&Cuda) -> Result<T, GpuError>) -> Result<T, GpuError> {
        // SAFETY: the context is there (type invariant).
        let code = unsafe { (self.cuda.api.cuCtxPushCurrent_v2)(self.handle) };
        self.cuda.said("cuCtxPushCurrent", code)?;
        let _popped = Popped(&self.cuda);
        f(&self.cuda)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(device) = self.retained {
            // SAFETY: retained once (type invariant), and released once.
            let _ = unsafe { (self.cuda.api.cuDevicePrimaryCtxRelease_v2)(device) };
        }
    }
}

/// Takes the context off the thread's stack again, also when a panic goes by.
struct Popped<'a>(&'a Cuda);

impl Drop for Popped<'_> {
    fn drop(&mut self) {
        let mut handle = null_mut();
        // SAFETY: it writes a handle. What was pushed is on top: nothing in between pushes without popping.
        let _ = unsafe { (self.0.api.cuCtxPopCurrent_v2)(&raw mut handle) };
    }
}

/// The calling thread's current context, if it is one of `device`.
fn current(cuda: &Cuda, device: i32) -> Result<Option<Handle>, GpuError> {
    let mut handle = null_mut();
    // SAFETY: it writes a handle, null when there is none.
    cuda.said("cuCtxGetCurrent", unsafe { (cuda.api.cuCtxGetCurrent)(&raw mut handle) })?;
    if handle.is_null() {
        return Ok(None);
    }
    let mut of = 0;
    // SAFETY: it writes an integer; a context is current.
    cuda.said("cuCtxGetDevice", unsafe { (cuda.api.cuCtxGetDevice)(&raw mut of) })?;
    Ok((of == device).then_some(handle))
}
