//! The host's side: laying the entries of a PRP list over list pages.

use super::ENTRY_BYTES;
use crate::types::{BusAddr, PageSize};

/// One slot of a PRP list: which list page, and which 8-byte slot of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The index of the list page in the slice that was given.
    pub list_page: u32,
    /// The slot, counted from the start of the page (not from the list's offset in it).
    pub index: u32,
}

/// Why a PRP list cannot be laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// There is room for fewer entries than wanted.
    #[error("{given} list pages given, {needed} needed")]
    TooFewPages {
        /// The number of list pages that the entries need.
        needed: u32,
        /// The number of list pages that were given.
        given: u32,
    },
    /// The list begins at an address that is no multiple of 8, or a further list page is not page aligned.
    #[error("list page {index} at {addr} is not aligned to {align_bytes} bytes")]
    UnalignedPage {
        /// The index of the list page.
        index: u32,
        /// Its address.
        addr: BusAddr,
        /// The alignment that it should have, in bytes.
        align_bytes: u64,
    },
    /// A data page does not begin at a page boundary, as all but the first must.
    #[error("entry {index} is {addr}, which has an offset in its page")]
    EntryOffset {
        /// The index of the entry.
        index: u32,
        /// Its address.
        addr: BusAddr,
    },
}

/// Writes the `count` entries of a PRP list, `data(0)` to `data(count - 1)`, and the pointers that chain its pages.
///
/// The list begins at `pages[0]`, which may lie anywhere at a multiple of 8; it runs to the end of that page and
/// on over the other pages, which are page aligned. Each entry goes to `sink` with its slot, in ascending order.
/// The last slot of a page is a pointer to the next page only where more than one entry remains; where exactly
/// one remains, it is that entry. Returns the number of list pages used.
///
/// # Errors
///
/// [`ListError`]; `sink` may have been called before an [`EntryOffset`](ListError::EntryOffset) is found.
pub fn lay_list(
    page: PageSize,
    pages: &[BusAddr],
    count: u32,
    mut data: impl FnMut(u32) -> BusAddr,
    mut sink: impl FnMut(Slot, BusAddr),
) -> Result<u32, ListError> {
    if count == 0 {
        return Ok(0);
    }
    let pages = checked_pages(page, pages, count)?;
    let mut next = 0;
    for (list_page, addr) in (0..).zip(pages) {
        let first = (addr.offset_in(page) / ENTRY_BYTES) as u32;
        let here = data_slots(slots(page, *addr), count - next);
        for index in first..first + here {
            sink(Slot { list_page, index }, entry(page, next, &mut data)?);
            next += 1;
        }
        if let Some(chain) = pages.get(list_page as usize + 1) {
            sink(Slot { list_page, index: first + here }, *chain);
        }
    }
    Ok(pages.len() as u32)
}

/// The number of list pages for `count` entries when the list begins at `start`, an address or an offset in a page.
#[must_use]
pub const fn list_pages(page: PageSize, start: u64, count: u32) -> u32 {
    let first = slots(page, BusAddr(start));
    if count <= first {
        return (count != 0) as u32;
    }
    // Each page but the last gives one slot to the chain pointer.
    let whole = (page.bytes() / ENTRY_BYTES) as u32;
    let rest = count - (first - 1);
    if rest <= whole { 2 } else { 2 + (rest - whole).div_ceil(whole - 1) }
}

/// The pages that the list will use, once their number and alignment are known to be right.
fn checked_pages(page: PageSize, pages: &[BusAddr], count: u32) -> Result<&[BusAddr], ListError> {
    let start = pages.first().map_or(0, |first| first.0);
    let needed = list_pages(page, start, count);
    let given = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    let used = pages.get(..needed as usize).ok_or(ListError::TooFewPages { needed, given })?;
    for (index, &addr) in (0..).zip(used) {
        let align_bytes = if index == 0 { ENTRY_BYTES } else { page.bytes() };
        if !addr.0.is_multiple_of(align_bytes) {
            return Err(ListError::UnalignedPage { index, addr, align_bytes });
        }
    }
    Ok(used)
}

/// The number of slots from `start` to the end of its page.
const fn slots(page: PageSize, start: BusAddr) -> u32 {
    ((page.bytes() - start.offset_in(page)) / ENTRY_BYTES) as u32
}

/// How many of `slots` hold data when `remaining` entries are to come: the last one chains if they do not all fit.
const fn data_slots(slots: u32, remaining: u32) -> u32 {
    if remaining <= slots { remaining } else { slots - 1 }
}

fn entry(page: PageSize, index: u32, data: &mut impl FnMut(u32) -> BusAddr) -> Result<BusAddr, ListError> {
    let addr = data(index);
    if addr.offset_in(page) == 0 { Ok(addr) } else { Err(ListError::EntryOffset { index, addr }) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const PAGE: PageSize = PageSize::MIN;
    const DATA: u64 = 0x10_0000_0000;

    fn lay(pages: &[u64], count: u32) -> Result<Vec<(Slot, BusAddr)>, ListError> {
        let pages: Vec<_> = pages.iter().copied().map(BusAddr).collect();
        let mut out = Vec::new();
        let data = |i| BusAddr(DATA + u64::from(i) * 4096);
        lay_list(PAGE, &pages, count, data, |slot, entry| out.push((slot, entry)))?;
        Ok(out)
    }

    /// Linux ebefac5647, bhyve a7761d19 and libvfn c2acee3 each got this wrong in one direction.
    #[test]
    fn an_exactly_full_page_has_data_in_its_last_slot() {
        let full = lay(&[0x8000], 512).unwrap();
        assert_eq!(full.len(), 512);
        assert_eq!(full[511], (Slot { list_page: 0, index: 511 }, BusAddr(DATA + 511 * 4096)));

        let over = lay(&[0x8000, 0xa000], 513).unwrap();
        assert_eq!(over[511], (Slot { list_page: 0, index: 511 }, BusAddr(0xa000)));
        assert_eq!(over[512], (Slot { list_page: 1, index: 0 }, BusAddr(DATA + 511 * 4096)));
        assert_eq!(over[513], (Slot { list_page: 1, index: 1 }, BusAddr(DATA + 512 * 4096)));
        assert_eq!(over.len(), 514);
    }

    #[test]
    fn a_list_in_the_last_slot_of_its_page_chains_at_once() {
        assert_eq!(lay(&[0x8ff8], 1).unwrap(), [(Slot { list_page: 0, index: 511 }, BusAddr(DATA))]);
        let two = lay(&[0x8ff8, 0xa000], 2).unwrap();
        assert_eq!(two[0], (Slot { list_page: 0, index: 511 }, BusAddr(0xa000)));
        assert_eq!(two[1], (Slot { list_page: 1, index: 0 }, BusAddr(DATA)));
    }

    #[test]
    fn page_counts_by_table() {
        let cases = [
            (0, 0, 0),
            (0, 1, 1),
            (0, 512, 1),
            (0, 513, 2),
            (0, 511 + 512, 2),
            (0, 511 + 513, 3),
            (0, 511 * 2 + 512, 3),
            (4088, 1, 1),
            (4088, 2, 2),
            (4088, 512, 2),
            (4088, 513, 3),
            (2048, 256, 1),
            (2048, 257, 2),
            (0, u32::MAX, 8_405_025),
        ];
        for (start, count, pages) in cases {
            assert_eq!(list_pages(PAGE, start, count), pages, "{start} {count}");
        }
    }

    #[test]
    fn what_cannot_be_laid_is_refused_with_the_value() {
        assert_eq!(lay(&[], 1), Err(ListError::TooFewPages { needed: 1, given: 0 }));
        assert_eq!(lay(&[0x8000], 513), Err(ListError::TooFewPages { needed: 2, given: 1 }));
        let unaligned = |index, addr, align_bytes| {
            Err(ListError::UnalignedPage { index, addr: BusAddr(addr), align_bytes })
        };
        assert_eq!(lay(&[0x8004], 1), unaligned(0, 0x8004, 8));
        assert_eq!(lay(&[0x8000, 0xa008], 513), unaligned(1, 0xa008, 4096));
        let refused = lay_list(PAGE, &[BusAddr(0)], 1, |_| BusAddr(8), |_, _| {});
        assert_eq!(refused, Err(ListError::EntryOffset { index: 0, addr: BusAddr(8) }));
        assert_eq!(lay(&[], 0), Ok(Vec::new()));
    }
}
