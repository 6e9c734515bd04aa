//! A stream of our own.
//!
//! UNSAFETY: enqueues copies, whose memory the caller keeps.

#![allow(unsafe_code)]

use super::table::Handle;
use super::{Code, GpuError, Hip, Pointer, device};
use crate::gpu::{GpuCopy, Lane};
use core::ffi::c_void;
use core::ptr::null_mut;
use std::sync::Arc;
use std::vec::Vec;

/// A stream that waits for no other, and its events.
///
/// # Invariants
///
/// All handles are of `device`, and belong to this value alone.
#[derive(Debug)]
pub(super) struct Stream {
    hip: Arc<Hip>,
    device: i32,
    stream: Handle,
    events: Vec<Handle>,
}

// SAFETY: HIP takes a stream and an event from any thread, and from several at once.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn open(hip: Arc<Hip>, near: &Pointer, events: usize) -> Result<Self, GpuError> {
        let device = near.ordinal;
        let stream = device::within(&hip, device, |hip| {
            let mut stream = null_mut();
            // SAFETY: it writes a handle.
            let code = unsafe { (hip.api.hipStreamCreateWithFlags)(&raw mut stream, NON_BLOCKING) };
            hip.said("hipStreamCreateWithFlags", code).map(|()| stream)
        })?;
        // INVARIANT: just made. From here on, a drop destroys what there is.
        let mut this = Self { hip, device, stream, events: Vec::new() };
        for _ in 0..events {
            let event = this.within(|hip| {
                let mut event = null_mut();
                // SAFETY: it writes a handle.
                let code = unsafe { (hip.api.hipEventCreateWithFlags)(&raw mut event, DISABLE_TIMING) };
                hip.said("hipEventCreateWithFlags", code).map(|()| event)
            })?;
            this.events.push(event);
        }
        Ok(this)
    }

    fn within<T>(&self, f: impl FnOnce(&Hip) -> Result<T, GpuError>) -> Result<T, GpuError> {
        device::within(&self.hip, self.device, f)
    }

    fn event(&self, number: usize) -> Result<Handle, GpuError> {
        let event = self.events.get(number).copied();
        event.ok_or(GpuError::Option {
            what: "an event of number",
            value: number as u64,
            accepted: "a number below that of the events",
        })
    }
}

impl Lane for Stream {
    unsafe fn enqueue(&self, copies: &[GpuCopy], event: usize) -> Result<(), GpuError> {
        let event = self.event(event)?;
        self.within(|hip| {
            for copy in copies {
                let (to, from, len_bytes, kind): (*mut c_void, *const c_void, usize, i32) = match *copy {
                    GpuCopy::In { gpu, host, len_bytes } => (at(gpu), host.cast(), len_bytes, HOST_TO_DEVICE),
                    GpuCopy::Out { host, gpu, len_bytes } => {
                        (host.cast(), at(gpu), len_bytes, DEVICE_TO_HOST)
                    }
                };
                // SAFETY: the caller keeps both until the event, or until everything is done.
                let code = unsafe { (hip.api.hipMemcpyAsync)(to, from, len_bytes, kind, self.stream) };
                hip.said("hipMemcpyAsync", code)?;
            }
            // SAFETY: both handles are of this device (type invariant).
            hip.said("hipEventRecord", unsafe { (hip.api.hipEventRecord)(event, self.stream) })
        })
    }

    fn is_done(&self, event: usize) -> Result<bool, GpuError> {
        let event = self.event(event)?;
        self.within(|hip| {
            // SAFETY: the handle is of this device (type invariant).
            match unsafe { (hip.api.hipEventQuery)(event) } {
                code if Code(code) == Code::NOT_READY => Ok(false),
                code => hip.said("hipEventQuery", code).map(|()| true),
            }
        })
    }

    fn wait(&self, event: usize) -> Result<(), GpuError> {
        let event = self.event(event)?;
        self.within(|hip| {
            // SAFETY: the handle is of this device (type invariant).
            hip.said("hipEventSynchronize", unsafe { (hip.api.hipEventSynchronize)(event) })
        })
    }

    fn drain(&self) -> Result<(), GpuError> {
        self.within(|hip| {
            // SAFETY: the handle is of this device (type invariant).
            hip.said("hipStreamSynchronize", unsafe { (hip.api.hipStreamSynchronize)(self.stream) })
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What fails here can't be mended; HIP frees the rest with the process.
        let _ = self.within(|hip| {
            for event in &self.events {
                // SAFETY: ours alone, and destroyed once.
                let _ = unsafe { (hip.api.hipEventDestroy)(*event) };
            }
            // SAFETY: as above.
            hip.said("hipStreamDestroy", unsafe { (hip.api.hipStreamDestroy)(self.stream) })
        });
    }
}

/// A GPU's address, as HIP takes it. It is never followed here.
fn at(gpu: u64) -> *mut c_void {
    core::ptr::without_provenance_mut(gpu as usize)
}

/// `hipStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;
/// `hipEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;
/// `hipMemcpyHostToDevice`.
const HOST_TO_DEVICE: i32 = 1;
/// `hipMemcpyDeviceToHost`.
const DEVICE_TO_HOST: i32 = 2;
