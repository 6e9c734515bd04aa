//! The controller's pages under a mapping.

use crate::{ListPage, MAX_TRANSFER_BYTES, MemError};
use alloc::boxed::Box;
use nvme_proto::{BusAddr, PageSize, prp};
use ugds_hal::Mapping;

/// The controller's pages under a mapping.
///
/// # Invariants
///
/// Page `i` holds the bytes from `i * page - lead` on, as far as they belong to the mapping.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) page: PageSize,
    shift: u32,
    /// How far the first byte lies from the start of its page.
    pub(crate) lead: u64,
    addresses: Addresses,
    count: usize,
}

#[derive(Debug)]
enum Addresses {
    /// All pages in a row, from this one on.
    Run(BusAddr),
    Table(Box<[BusAddr]>),
}

impl Pages {
    pub(crate) fn new(mapping: &Mapping, page: PageSize) -> Result<Self, MemError> {
        let extents = mapping.extents();
        let Some(first) = extents.first() else {
            return Err(MemError::Length { len_bytes: 0, max_bytes: MAX_TRANSFER_BYTES.into() });
        };
        let lead = first.addr.offset_in(page);
        check(mapping, page, lead)?;
        let count = prp::pages(page, lead, mapping.len_bytes()) as usize;
        let addresses = match extents {
            [only] => Addresses::Run(BusAddr(only.addr.0 - lead)),
            _ => Addresses::Table(table(mapping, page, lead)),
        };
        Ok(Self { page, shift: page.shift(), lead, addresses, count })
    }

    /// No pages, where nothing is told by them.
    pub(crate) fn none() -> Self {
        let page = PageSize::MIN;
        Self { page, shift: page.shift(), lead: 0, addresses: Addresses::Run(BusAddr(0)), count: 0 }
    }

    /// Writes the addresses of `count` pages from page `first` on to `list`, fewer where the mapping ends.
    pub(crate) fn write(&self, first: usize, count: u32, list: &ListPage) -> Result<(), MemError> {
        let first = first.min(self.count);
        let count = (count as usize).min(self.count - first);
        match &self.addresses {
            Addresses::Run(_) => list.write_run(self.get(first), self.page, count as u32),
            Addresses::Table(table) => list.write(table[first..][..count].iter().map(|addr| addr.0)),
        }
    }

    /// The number of pages.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The page that holds the byte at `offset`.
    #[inline]
    pub(crate) fn index(&self, offset: u64) -> usize {
        ((offset + self.lead) >> self.shift) as usize
    }

    /// The bus address of page `index`, 0 beyond the end.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> BusAddr {
        match &self.addresses {
            Addresses::Run(first) => BusAddr(first.0 + ((index as u64) << self.shift)),
            Addresses::Table(table) => table.get(index).copied().unwrap_or_default(),
        }
    }
}

/// Refuses runs that do not meet the controller's pages: each but the first begins at a page boundary of both the
/// bus and the region, each but the last ends at one.
fn check(mapping: &Mapping, page: PageSize, lead: u64) -> Result<(), MemError> {
    let mut position = lead;
    for extent in mapping.extents() {
        let offset = position - lead;
        let begins_inside = offset != 0 && position & page.mask() != 0;
        if begins_inside || extent.addr.offset_in(page) != position & page.mask() || extent.addr.0 & 3 != 0 {
            return Err(MemError::Pages { offset, addr: extent.addr, page });
        }
        position += extent.len_bytes;
    }
    Ok(())
}

fn table(mapping: &Mapping, page: PageSize, lead: u64) -> Box<[BusAddr]> {
    let mut before = lead;
    let mut pages = alloc::vec::Vec::new();
    for extent in mapping.extents() {
        // Only the first extent can begin inside a page.
        let begin = extent.addr.0 - (before & page.mask());
        let count = prp::pages(page, before & page.mask(), extent.len_bytes);
        pages.extend((0..count).map(|i| BusAddr(begin + (i << page.shift()))));
        before += extent.len_bytes;
    }
    pages.into_boxed_slice()
}
