//! PRP lists that are built once, when memory is mapped, and serve every transfer in it.

use crate::MemError;
use crate::pages::Pages;
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
    /// That of the first, where they are all in a row.
    first: Option<BusAddr>,
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
        Ok(Self { pages, first: memory.mapping().contiguous(), _memory: Some(memory) })
    }

    /// No lists, for memory within one or two pages.
    pub(crate) fn none() -> Self {
        Self { pages: Box::default(), first: None, _memory: None }
    }

    /// The bus address of the first list page, where they are all in a row.
    pub(crate) fn first(&self) -> Option<BusAddr> {
        self.first
    }

    /// The bus address of the list entry that holds page `index`, where there is such a list.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Option<BusAddr> {
        let list = self.pages.get(index / ENTRIES_PER_RUN)?;
        Some(BusAddr(list.0 + (index % ENTRIES_PER_RUN) as u64 * prp::ENTRY_BYTES))
    }
}

/// [`Lists::entry`] where all list pages are in a row from `first` on: each page begins half a page further than the
/// entries before it would fill.
#[inline]
pub(crate) fn entry_in_row(first: BusAddr, index: u64) -> BusAddr {
    let at = index * prp::ENTRY_BYTES;
    BusAddr(first.0 + at + (at & !(RUN_BYTES - 1)))
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
pub(crate) fn addresses(memory: &Dma, count: usize) -> Box<[BusAddr]> {
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

const RUN_BYTES: u64 = ENTRIES_PER_RUN as u64 * prp::ENTRY_BYTES;
pub(crate) const ENTRIES_PER_LIST: usize = 2 * ENTRIES_PER_RUN;
/// 4 KiB: the smallest controller page, and a divisor of every larger one.
pub(crate) const LIST_BYTES: usize = ENTRIES_PER_LIST * prp::ENTRY_BYTES as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_row_the_address_follows_from_the_index() {
        let first = BusAddr(0x7_0000_1000);
        let lists = Lists {
            pages: (0..40).map(|page| BusAddr(first.0 + page * LIST_BYTES as u64)).collect(),
            first: Some(first),
            _memory: None,
        };
        for index in 0..40 * ENTRIES_PER_RUN {
            assert_eq!(Some(entry_in_row(first, index as u64)), lists.entry(index), "{index}");
        }
    }
}
