//! A region as one device sees it.

use crate::domain::Index;
use crate::lists::{Lists, entry_in_row};
use crate::pages::Pages;
use crate::region::Memory;
use crate::transfer::{MAX_TRANSFER_BYTES, Transfer};
use crate::{ListPage, MemError};
use alloc::sync::Arc;
use nvme_proto::prp::{self, Shape};
use nvme_proto::{BusAddr, DataPointer};
use ugds_hal::{Direction, DomainId, Mapping};

/// Memory mapped for one device, with everything that a transfer needs worked out beforehand.
#[derive(Debug)]
pub struct Mapped {
    /// The length, where everything is told by PRPs that follow from `base` and `first_list`, for transfers either way:
    /// what most memory is, and the shortest way. Otherwise 0.
    run_bytes: u64,
    /// The same wherever the lists are.
    row_bytes: u64,
    len_bytes: u64,
    told: Told,
    direction: Direction,
    index: Index,
    domain: DomainId,
    /// The bus address of the first byte, where all of them are in a row.
    base: BusAddr,
    /// The bus address of the first list page, where all of them are in a row.
    first_list: BusAddr,
    pages: Pages,
    lists: Lists,
    // In this order: the mapping goes, then the memory.
    _mapping: Arc<Mapping>,
    _memory: Option<Arc<Memory>>,
}

/// How a piece of the memory is told to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// By PRPs.
    Pages,
    /// By one SGL descriptor.
    Descriptor,
}

impl Mapped {
    pub(crate) fn new(
        mapping: Arc<Mapping>,
        memory: Option<Arc<Memory>>,
        described: Described,
        index: Index,
    ) -> Self {
        let (contiguous, both) = (mapping.contiguous(), mapping.direction() == Direction::Both);
        let (told, pages, lists) = match described {
            Described::Descriptor => (Told::Descriptor, Pages::none(), Lists::none()),
            Described::Prp(pages, lists) => (Told::Pages, pages, lists),
        };
        let is_row = told == Told::Pages && contiguous.is_some() && both;
        let row_bytes = if is_row { mapping.len_bytes() } else { 0 };
        let listed = pages.count() <= 2 || lists.first().is_some();
        Self {
            run_bytes: if listed { row_bytes } else { 0 },
            row_bytes,
            len_bytes: mapping.len_bytes(),
            told,
            direction: mapping.direction(),
            index,
            domain: mapping.domain(),
            base: contiguous.unwrap_or_default(),
            first_list: lists.first().unwrap_or_default(),
            pages,
            lists,
            _mapping: mapping,
            _memory: memory,
        }
    }

    /// The device's address domain.
    #[inline]
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
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
        self.told == Told::Descriptor
    }

    /// Describes `len_bytes` from `offset` on for one command.
    ///
    /// # Errors
    ///
    /// [`MemError::Range`], [`MemError::Dword`], [`MemError::Length`] or [`MemError::Direction`].
    #[inline(always)]
    pub fn transfer<'a>(
        self: &'a Arc<Self>,
        offset: u64,
        len_bytes: u32,
        used: Direction,
    ) -> Result<Transfer<'a>, MemError> {
        match self.run_transfer(offset, len_bytes, used) {
            Some(transfer) => Ok(transfer),
            None => Ok(Transfer::new(self, self.other(offset, len_bytes, used)?, len_bytes, used)),
        }
    }

    /// The same, the shortest way. `None` where that does not lead, or nothing does: then [`transfer`](Self::transfer)
    /// knows more.
    #[inline(always)]
    pub(crate) fn run_transfer<'a>(
        self: &'a Arc<Self>,
        offset: u64,
        len_bytes: u32,
        used: Direction,
    ) -> Option<Transfer<'a>> {
        if !holds(self.run_bytes, offset, len_bytes) {
            return None;
        }
        let (prp1, prp2) = self.run(offset, len_bytes);
        Some(Transfer::new(self, DataPointer::prp(prp1, prp2), len_bytes, used))
    }

    /// The same, with the list in `page` instead of one that was built beforehand.
    ///
    /// # Errors
    ///
    /// As [`transfer`](Self::transfer), and [`MemError::ForeignList`].
    #[inline]
    pub(crate) fn transfer_by<'a>(
        self: &'a Arc<Self>,
        page: &'a ListPage,
        offset: u64,
        len_bytes: u32,
        used: Direction,
    ) -> Result<Transfer<'a>, MemError> {
        if page.domain() != self.domain {
            return Err(MemError::ForeignList { list: page.domain(), memory: self.domain });
        }
        let pointer = if holds(self.row_bytes, offset, len_bytes) {
            self.row_by(page, offset, len_bytes)?
        } else {
            self.other_by(page, offset, len_bytes, used)?
        };
        Ok(Transfer::new(self, pointer, len_bytes, used))
    }

    /// Memory whose pages are in a row.
    #[inline]
    fn row_by(&self, list: &ListPage, offset: u64, len_bytes: u32) -> Result<DataPointer, MemError> {
        let page = self.pages.page;
        let prp1 = BusAddr(self.base.0 + offset);
        let second = BusAddr((prp1.0 | page.mask()).wrapping_add(1));
        Ok(match prp::shape(page, prp1.0, len_bytes) {
            Shape::One => DataPointer::prp(prp1, BusAddr(0)),
            Shape::Two => DataPointer::prp(prp1, second),
            Shape::List { entries } => {
                list.write_run(second, page, entries)?;
                DataPointer::prp(prp1, list.addr())
            }
        })
    }

    #[inline(never)]
    fn other_by(
        &self,
        list: &ListPage,
        offset: u64,
        len_bytes: u32,
        used: Direction,
    ) -> Result<DataPointer, MemError> {
        self.fits(offset, len_bytes, used)?;
        match self.told {
            Told::Descriptor => Ok(self.descriptor(offset, len_bytes)),
            Told::Pages => match self.scattered(offset, len_bytes) {
                Scattered::InCommand(pointer) => Ok(pointer),
                Scattered::List { prp1, first, entries } => {
                    self.pages.write(first, entries, list)?;
                    Ok(DataPointer::prp(prp1, list.addr()))
                }
            },
        }
    }

    /// PRP1 and PRP2 for memory whose pages are in a row, congruent with it: everything follows from the address.
    #[inline(always)]
    fn run(&self, offset: u64, len_bytes: u32) -> (BusAddr, BusAddr) {
        let page = self.pages.page;
        let prp1 = BusAddr(self.base.0 + offset);
        let prp2 = match prp::shape(page, prp1.0, len_bytes) {
            Shape::One => BusAddr(0),
            Shape::Two => BusAddr((prp1.0 | page.mask()).wrapping_add(1)),
            Shape::List { .. } => entry_in_row(self.first_list, self.pages.index(offset) as u64 + 1),
        };
        (prp1, prp2)
    }

    /// Whatever is not told as a run, and what is wrong. Out of line, so that the way of a run has all registers.
    #[cold]
    #[inline(never)]
    fn other(&self, offset: u64, len_bytes: u32, used: Direction) -> Result<DataPointer, MemError> {
        self.fits(offset, len_bytes, used)?;
        match self.told {
            Told::Descriptor => Ok(self.descriptor(offset, len_bytes)),
            Told::Pages => match self.scattered(offset, len_bytes) {
                Scattered::InCommand(pointer) => Ok(pointer),
                Scattered::List { prp1, first, entries } => match self.lists.entry(first) {
                    Some(prp2) => Ok(DataPointer::prp(prp1, prp2)),
                    None => Err(MemError::NoList { len_bytes, pages: entries + 1 }),
                },
            },
        }
    }

    fn fits(&self, offset: u64, len_bytes: u32, used: Direction) -> Result<(), MemError> {
        let fits = holds(self.len_bytes, offset, len_bytes) && self.direction.allows(used);
        if fits { Ok(()) } else { Err(self.refusal(offset, len_bytes, used)) }
    }

    fn descriptor(&self, offset: u64, len_bytes: u32) -> DataPointer {
        DataPointer::sgl_data_block(BusAddr(self.base.0 + offset), len_bytes)
    }

    /// What the pages say about a transfer that fits.
    fn scattered(&self, offset: u64, len_bytes: u32) -> Scattered {
        let pages = &self.pages;
        let first = pages.index(offset);
        let start = offset + pages.lead;
        let prp1 = BusAddr(pages.get(first).0 + (start & pages.page.mask()));
        match prp::shape(pages.page, start, len_bytes) {
            Shape::One => Scattered::InCommand(DataPointer::prp(prp1, BusAddr(0))),
            Shape::Two => Scattered::InCommand(DataPointer::prp(prp1, pages.get(first + 1))),
            Shape::List { entries } => Scattered::List { prp1, first: first + 1, entries },
        }
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
            MemError::Direction { mapped: self.direction, used }
        }
    }
}

/// Whether a transfer lies within `bytes`, made of dwords, and is one that a command may have.
#[inline]
fn holds(bytes: u64, offset: u64, len_bytes: u32) -> bool {
    // The bit that would let the sum wrap is refused with those that make no dword.
    (offset | u64::from(len_bytes)) & (3 | 1 << 63) == 0
        && len_bytes.wrapping_sub(1) < MAX_TRANSFER_BYTES
        && offset + u64::from(len_bytes) <= bytes
}

/// A transfer told by PRPs.
enum Scattered {
    /// Both words are known.
    InCommand(DataPointer),
    /// PRP2 is to point to a list of so many pages from page `first` on.
    List { prp1: BusAddr, first: usize, entries: u32 },
}

/// What a transfer in a mapping is made from.
pub(crate) enum Described {
    /// One SGL descriptor for any piece of a contiguous mapping.
    Descriptor,
    /// Pages, and the lists of them.
    Prp(Pages, Lists),
}
