//! A stream of our own.
//!
//! UNSAFETY: enqueues copies, whose memory the caller keeps.

#![allow(unsafe_code)]

use super::context::Context;
use super::table::Handle;
use super::{Cuda, GpuError, Pointer};
use crate::gpu::{Code, GpuCopy, Lane};
use core::ptr::null_mut;
use std::sync::Arc;
use std::vec::Vec;

/// A stream that waits for no other, and its events.
///
/// # Invariants
///
/// All handles are of `context`, and belong to this value alone.
#[derive(Debug)]
pub(super) struct Stream {
    context: Context,
    stream: Handle,
    events: Vec<Handle>,
}

// SAFETY: the driver takes a stream and an event from any thread, and from several at once.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn open(cuda: Arc<Cuda>, near: &Pointer, events: usize) -> Result<Self, GpuError> {
        let context = Context::of(cuda, near)?;
        let mut stream = null_mut();
        context.within(|cuda| {
            // SAFETY: it writes a handle, and a context is current.
            cuda.said("cuStreamCreate", unsafe { (cuda.api.cuStreamCreate)(&raw mut stream, NON_BLOCKING) })
        })?;
        // INVARIANT: just made. From here on, a drop destroys what there is.
        let mut this = Self { context, stream, events: Vec::new() };
        for _ in 0..events {
            let event = this.context.within(|cuda| {
                let mut event = null_mut();
                // SAFETY: as above.
                let code = unsafe { (cuda.api.cuEventCreate)(&raw mut event, DISABLE_TIMING) };
                cuda.said("cuEventCreate", code)?;
                Ok(event)
            })?;
            this.events.push(event);
        }
        Ok(this)
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
        self.context.within(|cuda| {
            for copy in copies {
                match *copy {
                    GpuCopy::In { gpu, host, len_bytes } => {
                        // SAFETY: the caller keeps both until the event, or until everything is done.
                        let code = unsafe {
                            (cuda.api.cuMemcpyHtoDAsync_v2)(gpu, host.cast(), len_bytes, self.stream)
                        };
                        cuda.said("cuMemcpyHtoDAsync", code)?;
                    }
                    GpuCopy::Out { host, gpu, len_bytes } => {
                        // SAFETY: as above.
                        let code = unsafe {
                            (cuda.api.cuMemcpyDtoHAsync_v2)(host.cast(), gpu, len_bytes, self.stream)
                        };
                        cuda.said("cuMemcpyDtoHAsync", code)?;
                    }
                }
            }
            // SAFETY: both handles are of this context (type invariant).
            cuda.said("cuEventRecord", unsafe { (cuda.api.cuEventRecord)(event, self.stream) })
        })
    }

    fn is_done(&self, event: usize) -> Result<bool, GpuError> {
        let event = self.event(event)?;
        self.context.within(|cuda| {
            // SAFETY: the handle is of this context (type invariant).
            match unsafe { (cuda.api.cuEventQuery)(event) } {
                code if Code(code) == Code::NOT_READY => Ok(false),
                code => cuda.said("cuEventQuery", code).map(|()| true),
            }
        })
    }

    fn wait(&self, event: usize) -> Result<(), GpuError> {
        let event = self.event(event)?;
        self.context.within(|cuda| {
            // SAFETY: the handle is of this context (type invariant).
            cuda.said("cuEventSynchronize", unsafe { (cuda.api.cuEventSynchronize)(event) })
        })
    }

    fn drain(&self) -> Result<(), GpuError> {
        self.context.within(|cuda| {
            // SAFETY: the handle is of this context (type invariant).
            cuda.said("cuStreamSynchronize", unsafe { (cuda.api.cuStreamSynchronize)(self.stream) })
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What fails here can't be mended; the driver frees the rest with the context.
        let _ = self.context.within(|cuda| {
            for event in &self.events {
                // SAFETY: ours alone, and destroyed once.
                let _ = unsafe { (cuda.api.cuEventDestroy_v2)(*event) };
            }
            // SAFETY: as above.
            cuda.said("cuStreamDestroy", unsafe { (cuda.api.cuStreamDestroy_v2)(self.stream) })
        });
    }
}

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;
