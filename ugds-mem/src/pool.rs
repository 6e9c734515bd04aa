//! List pages for transfers of memory that has no lists of its own.

use crate::bits::Bits;
use crate::lists::{ENTRIES_PER_LIST, LIST_BYTES, addresses};
use crate::{Domain, MAX_TRANSFER_BYTES, MemError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use nvme_proto::{BusAddr, PageSize};
use ugds_hal::{Backend, Direction, Dma, DomainId, Layout};

/// Pages that PRP lists are written to just before a command is given to the device.
///
/// Lists that were built beforehand serve every transfer and cost nothing per command, but 16 bytes for each 4 KiB of
/// memory. Memory that is used a few times only, or too large for that, takes its lists from here. Clones are the same
/// pool; each page goes back to it when its [`ListPage`] is dropped.
#[derive(Clone, Debug)]
pub struct ListPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    memory: Dma,
    addresses: Box<[BusAddr]>,
    domain: DomainId,
    free: Bits,
}

impl<B: Backend> Domain<B> {
    /// Allocates a pool of `pages` list pages, 4 KiB each.
    ///
    /// # Errors
    ///
    /// [`MemError::PoolSize`], or the backend's.
    pub fn list_pool(&self, pages: usize) -> Result<ListPool, MemError> {
        if pages == 0 || pages > MAX_PAGES {
            return Err(MemError::PoolSize { pages });
        }
        let layout = Layout {
            len_bytes: pages * LIST_BYTES,
            align_bytes: LIST_BYTES,
            direction: Direction::DeviceReads,
        };
        let memory = self.backend().memory(layout)?;
        let addresses = addresses(&memory, pages);
        if addresses.len() != pages {
            let addr = addresses.last().copied().unwrap_or_default();
            let offset = (addresses.len() * LIST_BYTES) as u64;
            return Err(MemError::Pages { offset, addr, page: PageSize::MIN });
        }
        Ok(ListPool {
            shared: Arc::new(Shared { memory, addresses, domain: self.id(), free: Bits::set(pages) }),
        })
    }
}

impl ListPool {
    /// Takes a page. `None` when all are in use.
    #[must_use]
    #[inline]
    pub fn take(&self) -> Option<ListPage> {
        let index = self.shared.free.take()?;
        Some(ListPage { shared: Arc::clone(&self.shared), index })
    }
}

/// A page of a [`ListPool`], with room for the longest transfer. A queue keeps it for as long as the device may
/// read it.
#[derive(Debug)]
pub struct ListPage {
    shared: Arc<Shared>,
    index: usize,
}

impl ListPage {
    #[inline]
    pub(crate) fn domain(&self) -> DomainId {
        self.shared.domain
    }

    #[inline]
    pub(crate) fn addr(&self) -> BusAddr {
        self.shared.addresses.get(self.index).copied().unwrap_or_default()
    }

    /// Writes a list of `count` pages in a row from `first` on.
    #[inline]
    pub(crate) fn write_run(&self, first: BusAddr, page: PageSize, count: u32) -> Result<(), MemError> {
        let (mut next, step) = (first.0, page.bytes());
        // 32 bits, since ranges of 64 do not know their length.
        self.write((0..count).map(|_| {
            let entry = next;
            next = next.wrapping_add(step);
            entry
        }))
    }

    /// Writes the entries of a list.
    #[inline]
    pub(crate) fn write(&self, entries: impl ExactSizeIterator<Item = u64>) -> Result<(), MemError> {
        // No transfer is that long, and the next page is somebody else's.
        if entries.len() > ENTRIES_PER_LIST {
            let len_bytes = (entries.len() as u64) << PageSize::MIN.shift();
            return Err(MemError::Length { len_bytes, max_bytes: MAX_TRANSFER_BYTES.into() });
        }
        Ok(self.shared.memory.shared().copy_in_words(self.index * LIST_BYTES, entries.map(u64::to_le))?)
    }
}

impl Drop for ListPage {
    #[inline]
    fn drop(&mut self) {
        self.shared.free.give_back(self.index);
    }
}

const MAX_PAGES: usize = u16::MAX as usize;
