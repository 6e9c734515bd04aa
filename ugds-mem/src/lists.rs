//! PRP lists that are built once, when memory is mapped, and serve every transfer in it.

use crate::MemError;
use crate::mapped::Pages;
use alloc::boxed::Box;
use alloc::vec::Vec;
use nvme_proto::{BusAddr, PageSize, prp};
use ugds_hal::{Backend, Direction, Dma, Layout};

/// The longest run of list entries that lies within one list page wherever it starts.
pub(crate) const ENTRIES_PER_RUN: usize = 256;

/// All PRP entries of one mapping, laid out so that no transfer ever needs a chain.
///
/// List page `p` holds the addresses of pages `256 p` to `256 p + 511`: neighbours overlap by half. So any run of up
/// to [`ENTRIES_PER_RUN`] entries lies within the page that its first entry selects by a shift, and its last entry
/// is never mistaken for a chain pointer. The device may only read the lists.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The bus address of each list page.
    pages: Box<[BusAddr]>,
    /// Empty where no transfer needs a list.
    _memory: Option<Dma>,
}

impl Lists {
    pub(crate) fn build<B: Backend + ?Sized>(backend: &B, pages: &Pages) -> Result<Self, MemError> {
        // Up to two pages go into the command itself.
        if pages.count() <= 2 {
            return Ok(Self::none());
        }
        let count = pages.count().div_ceil(ENTRIES_PER_RUN);
        let layout = Layout {
            len_bytes: count * LIST_BYTES,
            align_bytes: LIST_BYTES,
            direction: Direction::DeviceReads,
        };
        let memory = backend.memory(layout)?;
        for list in 0..count {
            memory.shared().copy_in(list * LIST_BYTES, &list_page(pages, list))?;
        }
        let pages = addresses(&memory, count);
        if pages.len() != count {
            let addr = pages.last().copied().unwrap_or_default();
            return Err(MemError::Pages {
                offset: (pages.len() * LIST_BYTES) as u64,
                addr,
                page: PageSize::MIN,
            });
        }
        Ok(Self { pages, _memory: Some(memory) })
    }

    /// No lists, for memory within one or two pages.
    pub(crate) fn none() -> Self {
        Self { pages: Box::default(), _memory: None }
    }

    /// The bus address of the list entry that holds page `index`. It means something only where there are lists and the
    /// page is one of them.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> BusAddr {
        let list = self.pages.get(index / ENTRIES_PER_RUN).copied().unwrap_or_default();
        BusAddr(list.0 + (index % ENTRIES_PER_RUN) as u64 * prp::ENTRY_BYTES)
    }
}

/// The bytes of list page `list`. Entries beyond the last page stay zero; no transfer reaches them.
fn list_page(pages: &Pages, list: usize) -> Vec<u8> {
    let first = list * ENTRIES_PER_RUN;
    let last = pages.count().min(first + ENTRIES_PER_LIST);
    let mut bytes: Vec<u8> = (first..last).flat_map(|page| pages.get(page).0.to_le_bytes()).collect();
    bytes.resize(LIST_BYTES, 0);
    bytes
}

/// Where each list page of `memory` is on the bus. Extents of mapped memory are multiples of a page, so a list page
/// never lies across two.
fn addresses(memory: &Dma, count: usize) -> Box<[BusAddr]> {
    memory
        .mapping()
        .extents()
        .iter()
        .flat_map(|extent| {
            (0..extent.len_bytes / LIST_BYTES as u64).map(move |i| extent.addr.0 + i * LIST_BYTES as u64)
        })
        .map(BusAddr)
        .take(count)
        .collect()
}

const ENTRIES_PER_LIST: usize = 2 * ENTRIES_PER_RUN;
/// 4 KiB: the smallest controller page, and a divisor of every larger one.
const LIST_BYTES: usize = ENTRIES_PER_LIST * prp::ENTRY_BYTES as usize;
