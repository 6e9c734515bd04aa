//! Memory of an opened device.

use crate::device::Inner;
use crate::drain::Drain;
use crate::error::Error;
use std::fmt;
use std::sync::Arc;
use ugds_mem::dmabuf::Export;
use ugds_mem::{Mapped, Token};

/// Memory that data moves to and from. Clones are the same region.
///
/// The bytes are reached by copying only: while the device writes, no reference to them could be sound.
#[derive(Clone)]
pub struct Region {
    inner: Arc<Registered>,
}

/// One region at one device. Dropping it takes the mapping from the device's queues.
struct Registered {
    memory: ugds_mem::Region,
    mapped: Arc<Mapped>,
    device: Arc<Inner>,
}

impl Region {
    pub(crate) fn new(memory: ugds_mem::Region, mapped: Arc<Mapped>, device: Arc<Inner>) -> Self {
        Self { inner: Arc::new(Registered { memory, mapped, device }) }
    }

    /// The length in bytes.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.inner.memory.len_bytes()
    }

    /// The registration's identity, which is never used again.
    #[must_use]
    pub fn token(&self) -> Token {
        self.inner.memory.token()
    }

    /// The way that data takes to this memory, and why not a better one.
    #[must_use]
    pub fn path(&self) -> &'static str {
        match (self.inner.memory.gpu().is_some(), self.inner.mapped.uses_sgl()) {
            (false, true) => "direct: host memory, one SGL descriptor per command",
            (false, false) => "direct: host memory, prebuilt PRP lists",
            (true, true) => "direct: GPU memory through a DMA-buf, one SGL descriptor per command",
            (true, false) => "direct: GPU memory through a DMA-buf, prebuilt PRP lists",
        }
    }

    /// Copies bytes at `offset` out to `to`.
    ///
    /// Bytes that the device writes at the same time come out as before or after, in any mixture.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] when they do not lie within the region.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        Ok(self.inner.memory.copy_out(offset, to)?)
    }

    /// Copies `from` in at `offset`.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] when it does not fit into the region.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        Ok(self.inner.memory.copy_in(offset, from)?)
    }

    /// Gives a copy of the DMA-buf of a GPU's memory out. The region is busy until it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] for memory without one.
    pub fn export_dmabuf(&self) -> Result<Export, Error> {
        Ok(self.inner.memory.export_dmabuf()?)
    }

    /// Takes the region from the device, so that its memory may be freed.
    ///
    /// # Errors
    ///
    /// The region and [`Error::Busy`] while a command that moves it is outstanding, [`Error::Cloned`] while another
    /// clone exists, [`Error::Exported`] while an export or an RDMA registration of it does, or [`Error::Forked`].
    pub fn release(self) -> Result<(), (Self, Error)> {
        self.release_with(Drain::Check)
    }

    /// The same, waiting for commands that move the region, or ending them, as `drain` says.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    pub fn release_with(self, drain: Drain) -> Result<(), (Self, Error)> {
        let mut registered = match Arc::try_unwrap(self.inner) {
            Ok(registered) => registered,
            Err(inner) => {
                let clones = Arc::strong_count(&inner) - 1;
                return Err((Self { inner }, Error::Cloned { clones }));
            }
        };
        // Nobody else has the region, so no export can begin from here on.
        let released = match registered.memory.holds() {
            0 => registered.detach(drain),
            uses => Err(Error::Exported { uses }),
        };
        match released {
            Ok(()) => Ok(()),
            Err(error) => Err((Self { inner: Arc::new(registered) }, error)),
        }
    }

    #[inline]
    pub(crate) fn mapped(&self) -> &Arc<Mapped> {
        &self.inner.mapped
    }

    #[inline]
    pub(crate) fn is_of(&self, device: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.inner.device, device)
    }

    pub(crate) fn memory(&self) -> &ugds_mem::Region {
        &self.inner.memory
    }
}

impl Registered {
    fn detach(&mut self, drain: Drain) -> Result<(), Error> {
        self.device.engine().detach(&self.mapped, drain)?;
        // So that the mapping goes with this region, even where another device's still has the memory.
        self.memory.detach(self.mapped.domain());
        Ok(())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Where a command is outstanding, the queue keeps the mapping, and the mapping keeps the memory.
        let _ = self.detach(Drain::Check);
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("len_bytes", &self.len_bytes())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
