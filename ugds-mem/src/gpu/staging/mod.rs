//! The staged way: a ring of pinned chunks, and the copies between them and a GPU.
//!
//! A caller takes a chunk, lets an SSD fill it, begins the copy to the GPU, and takes the next: the SSD fills that one
//! while the copy is under way. Writes go the other way round.

mod chunk;
mod merge;
mod ring;

pub use chunk::{Chunk, CopyError, Copying};

use super::{GpuError, Registration};
use crate::Region;
use ring::Ring;
use std::sync::Arc;

/// Chunks of pinned host memory, and a stream that copies between them and one GPU. Clones are the same ring.
///
/// # Examples
///
/// How a read of `len` bytes goes, with `read` for the way from the SSD:
///
/// ```no_run
/// # use std::{collections::VecDeque, ops::Range, sync::Arc};
/// # use ugds_mem::{Region, gpu::{GpuError, Piece, Registration, Staging}};
/// # fn read(_: &Region, _: Range<usize>) {}
/// # fn all(staging: &Staging, gpu: &Arc<Registration>, len: usize) -> Result<(), GpuError> {
/// let mut copying = VecDeque::new();
/// for offset in (0..len).step_by(staging.chunk_bytes()) {
///     let chunk = match staging.take() {
///         Some(chunk) => chunk,
///         // All are on their way: the oldest comes back first.
///         None => {
///             let oldest: ugds_mem::gpu::Copying = copying.pop_front().expect("the ring is not empty");
///             oldest.finish()?
///         }
///     };
///     let len_bytes = staging.chunk_bytes().min(len - offset);
///     let start = chunk.range().start;
///     read(staging.memory(), start..start + len_bytes);
///     copying.push_back(chunk.begin_copy_in(gpu, &[Piece { chunk_offset: 0, offset, len_bytes }])?);
/// }
/// for copy in copying {
///     copy.finish()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Staging {
    ring: Arc<Ring>,
}

/// How many chunks there are, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingOptions {
    /// The bytes of a chunk, a multiple of 4096.
    pub chunk_bytes: usize,
    /// How many there are, 1 to 4096. Two let an SSD and the copies work at once; more let either be late.
    pub chunks: usize,
}

impl Default for StagingOptions {
    /// Eight chunks of 4 MiB: at that size a copy's fixed cost is less than a tenth of it.
    fn default() -> Self {
        Self { chunk_bytes: 4 << 20, chunks: 8 }
    }
}

/// A piece of a chunk, and the place in GPU memory that it is copied to or from. Offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the chunk.
    pub chunk_offset: usize,
    /// Where in the registration.
    pub offset: usize,
    /// How much.
    pub len_bytes: usize,
}

impl Staging {
    /// Makes a ring for copies with the GPU, and in the context, that `near` belongs to. It keeps `near`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Option`], or what the driver answers.
    pub fn new(near: &Arc<Registration>, options: StagingOptions) -> Result<Self, GpuError> {
        Ok(Self { ring: Ring::new(near, Some(Arc::clone(near)), options)? })
    }

    /// The same for a ring that is dropped before `near`.
    pub(super) fn within(near: &Registration, options: StagingOptions) -> Result<Self, GpuError> {
        Ok(Self { ring: Ring::new(near, None, options)? })
    }

    /// The pinned memory of all chunks, to be mapped for the SSD: an ordinary region of the host.
    #[must_use]
    pub fn memory(&self) -> &Region {
        self.ring.memory()
    }

    /// The bytes of a chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> usize {
        self.ring.chunk_bytes()
    }

    /// Takes a chunk that nothing uses. `None` when all are taken, or their copies not done.
    #[must_use]
    pub fn take(&self) -> Option<Chunk> {
        self.ring.take().map(|index| Chunk::new(Arc::clone(&self.ring), index))
    }

    /// Why no copy can be made any more, if a failure left the GPU's doings unknown.
    #[must_use]
    pub fn broken(&self) -> Option<GpuError> {
        self.ring.broken()
    }

    pub(super) fn take_or_fail(&self) -> Result<Chunk, GpuError> {
        self.take().ok_or_else(|| {
            let reason = "no chunk of the ring has come back";
            self.broken().unwrap_or_else(|| GpuError::Broken { reason: reason.into() })
        })
    }
}
