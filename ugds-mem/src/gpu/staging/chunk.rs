//! A chunk, and a chunk that is being copied: each a permit that moves.
//!
//! UNSAFETY: hands addresses to a copy engine, and keeps the memory behind them until it is done.

#![allow(unsafe_code)]

use super::merge::merged;
use super::ring::Ring;
use super::{GpuError, Piece, Registration};
use crate::gpu::GpuCopy;
use core::ops::Range;
use std::sync::Arc;
use std::vec::Vec;

/// A chunk in the caller's hands. Dropping it puts it back.
#[derive(Debug)]
#[must_use = "a chunk that is dropped goes back to the ring"]
pub struct Chunk {
    ring: Arc<Ring>,
    /// Its number, and of its event. Nobody else has it.
    index: usize,
    end: End,
}

/// What becomes of a chunk's number in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It goes back: nothing uses the chunk.
    Free,
    /// It is parked: a copy may be under way.
    Parked,
}

impl Chunk {
    pub(super) fn new(ring: Arc<Ring>, index: usize) -> Self {
        Self { ring, index, end: End::Free }
    }

    /// Its place in [`Staging::memory`](super::Staging::memory), in bytes.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.ring.range(self.index)
    }

    /// Copies bytes at `offset` of the chunk to `to`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Range`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), GpuError> {
        self.ring.read(self.index, offset, to)
    }

    /// Copies `from` into the chunk at `offset`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Range`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), GpuError> {
        self.ring.write(self.index, offset, from)
    }

    /// Begins to copy pieces of the chunk to a GPU, in order; neighbours are made one copy.
    ///
    /// # Errors
    ///
    /// [`CopyError`], with the chunk if nothing is done with it any more.
    pub fn begin_copy_in(self, to: &Arc<Registration>, pieces: &[Piece]) -> Result<Copying, CopyError> {
        self.begin(to, pieces, |gpu, host, len_bytes| GpuCopy::In { gpu, host, len_bytes })
    }

    /// Begins to copy pieces of a GPU's memory into the chunk.
    ///
    /// # Errors
    ///
    /// As [`begin_copy_in`](Self::begin_copy_in).
    pub fn begin_copy_out(self, from: &Arc<Registration>, pieces: &[Piece]) -> Result<Copying, CopyError> {
        self.begin(from, pieces, |gpu, host, len_bytes| GpuCopy::Out { host, gpu, len_bytes })
    }

    fn begin(
        self,
        gpu: &Arc<Registration>,
        pieces: &[Piece],
        copy: impl Fn(u64, *mut u8, usize) -> GpuCopy,
    ) -> Result<Copying, CopyError> {
        if let Err(error) = self.allows(gpu, pieces) {
            return Err(CopyError { error, chunk: Some(self) });
        }
        let host = self.ring.ptr(self.index);
        let copies: Vec<GpuCopy> = merged(pieces)
            .map(|piece| {
                let gpu = gpu.address() + piece.offset as u64;
                copy(gpu, host.wrapping_add(piece.chunk_offset), piece.len_bytes)
            })
            .collect();
        // SAFETY:
        // - `allows` put every piece inside of the chunk and inside of the registration;
        // - the chunk is this value's alone, and it becomes a `Copying`, which lets go of it when the event has come; the
        //   ring keeps its memory as long as a copy may be under way;
        // - `gpu` goes along with it, and the registration's invariant keeps its memory and context.
        match unsafe { self.ring.lane().enqueue(&copies, self.index) } {
            Ok(()) => Ok(Copying::new(self, gpu)),
            Err(error) => match self.ring.lane().drain() {
                Ok(()) => Err(CopyError { error, chunk: Some(self) }),
                Err(_) => {
                    Copying::new(self, gpu).quarantine(&error);
                    Err(CopyError { error, chunk: None })
                }
            },
        }
    }

    fn allows(&self, gpu: &Arc<Registration>, pieces: &[Piece]) -> Result<(), GpuError> {
        if let Some(broken) = self.ring.broken() {
            return Err(broken);
        }
        if !Arc::ptr_eq(gpu.vendor(), self.ring.vendor()) {
            return Err(GpuError::ForeignVendor);
        }
        pieces.iter().try_for_each(|piece| {
            self.ring.check(self.index, piece.chunk_offset, piece.len_bytes)?;
            gpu.check(piece.offset, piece.len_bytes)
        })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.end == End::Free {
            self.ring.give_back(self.index);
        }
    }
}

/// A copy that did not begin, and the chunk unless it is lost to what the GPU may still do.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct CopyError {
    /// Why not.
    pub error: GpuError,
    /// The chunk.
    pub chunk: Option<Chunk>,
}

impl From<CopyError> for GpuError {
    fn from(failed: CopyError) -> Self {
        failed.error
    }
}

/// A chunk that is being copied. Dropping it does not end the copy: the ring takes the chunk back when it is done.
#[derive(Debug)]
#[must_use = "a copy is done only when it says so"]
pub struct Copying {
    /// Both taken at the end, whichever it is.
    chunk: Option<(Chunk, Arc<Registration>)>,
}

impl Copying {
    fn new(chunk: Chunk, gpu: &Arc<Registration>) -> Self {
        Self { chunk: Some((chunk, Arc::clone(gpu))) }
    }

    /// Whether it is done. The data is where it should be then.
    ///
    /// # Errors
    ///
    /// What the driver answers; the ring can't be used any more then.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        let Some((chunk, _)) = &self.chunk else { return Ok(true) };
        chunk.ring.lane().is_done(chunk.index).inspect_err(|error| chunk.ring.breaks(error))
    }

    /// Waits for it, and returns the chunk.
    ///
    /// # Errors
    ///
    /// What the driver answers; the chunk is lost, and the ring can't be used any more.
    pub fn finish(mut self) -> Result<Chunk, GpuError> {
        let Some((chunk, gpu)) = self.chunk.take() else {
            return Err(GpuError::Broken { reason: "the copy had ended".into() });
        };
        match chunk.ring.lane().wait(chunk.index) {
            Ok(()) => Ok(chunk),
            Err(error) => {
                Self { chunk: Some((chunk, gpu)) }.quarantine(&error);
                Err(error)
            }
        }
    }

    /// Lets nothing be freed or used again that the GPU may still read or write.
    fn quarantine(self, error: &GpuError) {
        if let Some((chunk, _)) = &self.chunk {
            chunk.ring.breaks(error);
        }
        // The ring takes it when `self` is dropped, and keeps it.
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        if let Some((mut chunk, gpu)) = self.chunk.take() {
            chunk.end = End::Parked;
            chunk.ring.park(chunk.index, gpu);
        }
    }
}
