//! Memory of a GPU that somebody promised to keep.
//!
//! UNSAFETY: takes addresses from callers, who promise that the memory lasts.

#![allow(unsafe_code)]

use super::path::refusal;
use super::{GpuError, Path, Piece, Pointer, Staging, StagingOptions, Vendor, WhyStaged};
use std::format;
use std::string::String;
use std::sync::{Arc, Mutex, PoisonError};

/// GPU memory, and the way that data takes to it.
///
/// # Invariants
///
/// The `len_bytes` at `pointer.address` are allocated on a GPU that `vendor` drives, and so is the context they belong
/// to, for as long as this value lives.
#[derive(Debug)]
pub struct Registration {
    // Dropped first: its stream is in the memory's context.
    bounce: Mutex<Option<Staging>>,
    path: Path,
    pointer: Pointer,
    len_bytes: usize,
    vendor: Arc<dyn Vendor>,
}

/// Which way is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// Directly if the driver exports the memory, else staged.
    #[default]
    Best,
    /// Staged, for this reason.
    Staged(WhyStaged),
}

impl Registration {
    /// Registers `len_bytes` at `address`.
    ///
    /// # Errors
    ///
    /// [`GpuError::NotGpu`] for memory of the host; [`GpuError::Range`] when they are not all of one allocation, or
    /// none; what the driver answers. Memory that can't be reached directly is no error: see
    /// [`path`](Self::path).
    ///
    /// # Safety
    ///
    /// Until the last clone of the returned value is gone, which each region of it and each copy under way keeps:
    ///
    /// - the memory stays allocated, and so does the context in which it was allocated, or which is current now if
    ///   it belongs to none;
    /// - whoever else accesses the memory does it while neither a copy nor a transfer of it is under way, or puts
    ///   up with bytes of before and after in any mixture.
    pub unsafe fn new(
        vendor: &Arc<dyn Vendor>,
        address: u64,
        len_bytes: usize,
        how: How,
    ) -> Result<Arc<Self>, GpuError> {
        let pointer = vendor.describe(address)?;
        if !pointer.kind.is_gpu() {
            return Err(GpuError::NotGpu { address, kind: pointer.kind });
        }
        let len = len_bytes as u64;
        if len == 0 || !pointer.holds(len) {
            return Err(out_of(address, len, pointer.base, pointer.len_bytes));
        }
        let path = match how {
            How::Staged(why) => Path::Staged(why),
            How::Best => match refusal(&pointer) {
                Some(why) => Path::Staged(why),
                None => vendor.export(&pointer, len).map_or_else(Path::Staged, Path::Direct),
            },
        };
        let vendor = Arc::clone(vendor);
        // INVARIANT: the driver says that it is GPU memory, all of one allocation, and the caller keeps it.
        Ok(Arc::new(Self { bounce: Mutex::default(), path, pointer, len_bytes, vendor }))
    }

    /// What the driver said when it was registered.
    #[must_use]
    pub fn pointer(&self) -> &Pointer {
        &self.pointer
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.pointer.address
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The way that data takes, and why not a better one.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The driver that knows it.
    #[must_use]
    pub fn vendor(&self) -> &Arc<dyn Vendor> {
        &self.vendor
    }

    /// Copies from the GPU's memory at `offset` to `to`, and waits for it. Slow, for tests and for setup; see
    /// [`Staging`] for more.
    ///
    /// # Errors
    ///
    /// [`GpuError::Range`], or what the driver answers; then part of `to` may be written.
    pub fn copy_out(self: &Arc<Self>, offset: usize, to: &mut [u8]) -> Result<(), GpuError> {
        self.check(offset, to.len())?;
        self.bounce(|staging| {
            let mut at = offset;
            for piece in to.chunks_mut(staging.chunk_bytes()) {
                let copy = [Piece { chunk_offset: 0, offset: at, len_bytes: piece.len() }];
                let chunk = staging.take_or_fail()?.begin_copy_out(self, &copy)?.finish()?;
                chunk.read(0, piece)?;
                at += piece.len();
            }
            Ok(())
        })
    }

    /// Copies `from` to the GPU's memory at `offset`, and waits for it.
    ///
    /// # Errors
    ///
    /// [`GpuError::Range`], or what the driver answers; then part may be copied.
    pub fn copy_in(self: &Arc<Self>, offset: usize, from: &[u8]) -> Result<(), GpuError> {
        self.check(offset, from.len())?;
        self.bounce(|staging| {
            let mut at = offset;
            for piece in from.chunks(staging.chunk_bytes()) {
                let chunk = staging.take_or_fail()?;
                chunk.write(0, piece)?;
                let copy = [Piece { chunk_offset: 0, offset: at, len_bytes: piece.len() }];
                drop(chunk.begin_copy_in(self, &copy)?.finish()?);
                at += piece.len();
            }
            Ok(())
        })
    }

    pub(crate) fn check(&self, offset: usize, len_bytes: usize) -> Result<(), GpuError> {
        match offset.checked_add(len_bytes) {
            Some(end) if end <= self.len_bytes => Ok(()),
            _ => {
                let address = self.address().saturating_add(offset as u64);
                Err(out_of(address, len_bytes as u64, self.address(), self.len_bytes as u64))
            }
        }
    }

    fn bounce(&self, f: impl FnOnce(&Staging) -> Result<(), GpuError>) -> Result<(), GpuError> {
        let mut bounce = self.bounce.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *bounce {
            Some(staging) => staging,
            empty => empty.insert(Staging::within(self, BOUNCE)?),
        };
        f(staging)
    }

    /// The path as a sentence, for people.
    #[must_use]
    pub fn path_text(&self) -> String {
        format!("{}", self.path)
    }
}

fn out_of(address: u64, len_bytes: u64, limit_address: u64, limit_bytes: u64) -> GpuError {
    GpuError::Range { address, len_bytes, limit_address, limit_bytes }
}

/// One chunk: what is copied this way waits for each anyway.
const BOUNCE: StagingOptions = StagingOptions { chunk_bytes: 256 << 10, chunks: 1 };
