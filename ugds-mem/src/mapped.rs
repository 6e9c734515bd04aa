//! A region as one device sees it.

use crate::MemError;
use crate::domain::Index;
use crate::lists::Lists;
use crate::region::Memory;
use crate::transfer::{MAX_TRANSFER_BYTES, Transfer};
use alloc::boxed::Box;
use alloc::sync::Arc;
use nvme_proto::prp::{self, Shape};
use nvme_proto::{BusAddr, DataPointer, PageSize};
use ugds_hal::{Direction, DomainId, Mapping};

/// Memory mapped for one device, with everything that a transfer needs worked out beforehand.
#[derive(Debug)]
pub struct Mapped {
    prp: Option<(Pages, Lists)>,
    /// The start of the memory, where one SGL descriptor tells it.
    descriptor: Option<BusAddr>,
    len_bytes: u64,
    index: Index,
    // In this order: the mapping goes, then the memory.
    mapping: Arc<Mapping>,
    _memory: Option<Arc<Memory>>,
}

impl Mapped {
    pub(crate) fn new(
        mapping: Arc<Mapping>,
        memory: Option<Arc<Memory>>,
        prp: Option<(Pages, Lists)>,
        descriptor: Option<BusAddr>,
        index: Index,
    ) -> Self {
        Self { prp, descriptor, len_bytes: mapping.len_bytes(), index, mapping, _memory: memory }
    }

    /// The device's address domain.
    #[inline]
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.mapping.domain()
    }

    /// The length in bytes.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The number of this mapping in this process: small, dense, and used again once the mapping is gone.
    #[inline]
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index.get()
    }

    /// Whether transfers are told by one SGL descriptor.
    #[must_use]
    pub fn uses_sgl(&self) -> bool {
        self.descriptor.is_some()
    }

    /// Describes `len_bytes` from `offset` on for one command.
    ///
    /// # Errors
    ///
    /// [`MemError::Range`], [`MemError::Dword`], [`MemError::Length`] or [`MemError::Direction`].
    #[inline]
    pub fn transfer<'a>(
        self: &'a Arc<Self>,
        offset: u64,
        len_bytes: u32,
        used: Direction,
    ) -> Result<Transfer<'a>, MemError> {
        if !self.fits(offset, len_bytes, used) {
            return Err(self.refusal(offset, len_bytes, used));
        }
        Ok(Transfer::new(self, self.data_pointer(offset, len_bytes), len_bytes, used))
    }

    #[inline]
    fn fits(&self, offset: u64, len_bytes: u32, used: Direction) -> bool {
        let len = u64::from(len_bytes);
        // The first comparison keeps the subtraction from wrapping.
        len <= self.len_bytes
            && offset <= self.len_bytes - len
            && (offset | len) & 3 == 0
            && len_bytes.wrapping_sub(1) < MAX_TRANSFER_BYTES
            && self.mapping.direction().allows(used)
    }

    #[inline]
    fn data_pointer(&self, offset: u64, len_bytes: u32) -> DataPointer {
        if let Some(base) = self.descriptor {
            return DataPointer::sgl_data_block(BusAddr(base.0 + offset), len_bytes);
        }
        let Some((pages, lists)) = &self.prp else {
            // `Domain::describe` gives each mapping one or the other.
            return DataPointer::NONE;
        };
        let start = offset + pages.lead;
        let first = (start >> pages.page.shift()) as usize;
        let prp1 = BusAddr(pages.get(first).0 + (start & pages.page.mask()));
        let shape = prp::shape(pages.page, start, u64::from(len_bytes));
        let prp2 = match shape {
            Shape::One => BusAddr(0),
            Shape::Two => pages.get(first + 1),
            Shape::List { .. } => lists.entry(first + 1),
        };
        shape.data_pointer(prp1, prp2)
    }

    #[cold]
    fn refusal(&self, offset: u64, len_bytes: u32, used: Direction) -> MemError {
        let len = u64::from(len_bytes);
        if offset.checked_add(len).is_none_or(|end| end > self.len_bytes) {
            MemError::Range { offset, len_bytes: len, region_bytes: self.len_bytes }
        } else if offset & 3 != 0 {
            MemError::Dword { what: "offset", value: offset }
        } else if len == 0 || len > u64::from(MAX_TRANSFER_BYTES) {
            MemError::Length { len_bytes: len, max_bytes: MAX_TRANSFER_BYTES.into() }
        } else if len & 3 != 0 {
            MemError::Dword { what: "length", value: len }
        } else {
            MemError::Direction { mapped: self.mapping.direction(), used }
        }
    }
}

/// The controller's pages under a mapping.
///
/// # Invariants
///
/// Page `i` holds the bytes from `i * page - lead` on, as far as they belong to the mapping.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) page: PageSize,
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
        Ok(Self { page, lead, addresses, count })
    }

    /// The number of pages.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The bus address of page `index`, 0 beyond the end.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> BusAddr {
        match &self.addresses {
            Addresses::Run(first) => BusAddr(first.0 + ((index as u64) << self.page.shift())),
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
