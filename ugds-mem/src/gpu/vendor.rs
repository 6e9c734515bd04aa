//! What a vendor's driver is asked.
//!
//! UNSAFETY: declares the calls whose callers must keep memory valid.

#![allow(unsafe_code)]

use super::{GpuError, Pointer, WhyStaged};
use crate::Memory;
use crate::dmabuf::Dmabuf;
use core::fmt;
use std::boxed::Box;

/// Whose driver it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VendorName {
    /// NVIDIA's, through the CUDA driver library.
    Cuda,
    /// AMD's, through the HIP and HSA libraries.
    Hip,
}

impl fmt::Display for VendorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "CUDA",
            Self::Hip => "HIP",
        })
    }
}

/// A vendor's driver.
///
/// Calls may come from any thread. They are made in the context that the memory belongs to, and leave the caller's
/// current context as it was. All of them are for setup; none is on the way of a request that needs no copy.
pub trait Vendor: fmt::Debug + Send + Sync + 'static {
    /// Whose it is.
    fn name(&self) -> VendorName;

    /// The driver's version, for people to read.
    fn version(&self) -> std::string::String;

    /// Asks the driver about an address. One that it does not know is a [`Pointer`] of
    /// [`Kind::Unknown`](super::Kind::Unknown), and no error.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`], [`GpuError::Nonsense`].
    fn describe(&self, address: u64) -> Result<Pointer, GpuError>;

    /// Exports `len_bytes` from the address of `pointer` on as a DMA-buf, and sees to it that the GPU's own synchronous
    /// operations on them are synchronous.
    ///
    /// # Errors
    ///
    /// Why the memory can't be reached directly.
    fn export(&self, pointer: &Pointer, len_bytes: u64) -> Result<Dmabuf, WhyStaged>;

    /// How writes of another device become visible to the GPU that `pointer` belongs to.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    fn peer_writes(&self, pointer: &Pointer) -> Result<PeerWrites, GpuError>;

    /// Makes what peers wrote visible to the GPU that `pointer` belongs to.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`], [`GpuError::Symbol`].
    fn flush_peer_writes(&self, pointer: &Pointer) -> Result<(), GpuError>;

    /// Allocates host memory that the copy engine of the GPU behind `near` reaches.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`], [`GpuError::Pinned`], [`GpuError::NoContext`].
    fn pin(&self, near: &Pointer, len_bytes: usize) -> Result<Memory, GpuError>;

    /// Opens a stream, with `events` events, on the GPU behind `near`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`], [`GpuError::NoContext`].
    fn lane(&self, near: &Pointer, events: usize) -> Result<Box<dyn Lane>, GpuError>;
}

/// How writes of another device become visible to a GPU's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerWrites {
    /// The GPU sees them in order; nothing has to be done.
    InOrder,
    /// They are visible after [`Vendor::flush_peer_writes`].
    AfterFlush,
    /// The driver names no way.
    Unproven,
}

/// One copy between host memory and a GPU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuCopy {
    /// To the GPU.
    In {
        /// The GPU's address.
        gpu: u64,
        /// The host's.
        host: *const u8,
        /// How many bytes.
        len_bytes: usize,
    },
    /// From the GPU.
    Out {
        /// The host's address.
        host: *mut u8,
        /// The GPU's.
        gpu: u64,
        /// How many bytes.
        len_bytes: usize,
    },
}

/// A stream of our own on one GPU, with events that tell how far it is.
///
/// # Implementation safety
///
/// `Ok(true)` of [`is_done`](Self::is_done), and `Ok` of [`wait`](Self::wait) and [`drain`](Self::drain), are said only
/// when the GPU is done with the memory of the copies they speak of.
pub trait Lane: fmt::Debug + Send + Sync {
    /// Enqueues copies one after the other, then marks their end by event number `event`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`]; then some may have been enqueued.
    ///
    /// # Safety
    ///
    /// Until the event has come, or [`drain`](Self::drain) returned `Ok`, all memory stays allocated, and nothing else
    /// accesses it unless a race is acceptable. It is never referenced.
    unsafe fn enqueue(&self, copies: &[GpuCopy], event: usize) -> Result<(), GpuError>;

    /// Whether everything before the event is done.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    fn is_done(&self, event: usize) -> Result<bool, GpuError>;

    /// Waits for the event.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    fn wait(&self, event: usize) -> Result<(), GpuError>;

    /// Waits for everything on the stream.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    fn drain(&self) -> Result<(), GpuError>;
}
