//! The controller's side: from PRP1 and PRP2 to the pieces of the host's buffer.

use super::{ENTRY_BYTES, pages};
use crate::status::{Status, generic};
use crate::types::{BusAddr, PageSize};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// Walks the `len_bytes` that `prp1` and `prp2` describe, as an iterator over contiguous pieces.
///
/// `read` copies host memory from an address into the bytes given: a batch of at most 64 list entries, never past
/// the end of their list page and never more than the transfer needs.
pub fn walk<R, E>(page: PageSize, prp1: BusAddr, prp2: BusAddr, len_bytes: u64, read: R) -> Walk<R>
where
    R: FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
{
    let entries = pages(page, prp1.0, len_bytes).saturating_sub(1);
    Walk { page, next: Next::First(prp1), prp2, remaining: len_bytes, list: List::new(prp2, entries), read }
}

/// An iterator over the pieces of a transfer: each an address and a length in bytes within one page.
///
/// After an error it ends. It always ends: a list whose chain runs in circles is followed only as far as the
/// length of the transfer needs.
#[derive(Debug)]
#[must_use = "a walk does nothing until it is iterated"]
pub struct Walk<R> {
    page: PageSize,
    next: Next,
    prp2: BusAddr,
    /// The bytes that no piece covers yet.
    remaining: u64,
    list: List,
    read: R,
}

/// Where the next page comes from.
#[derive(Clone, Copy, Debug)]
enum Next {
    First(BusAddr),
    Second,
    Listed,
}

/// Which PRP a [`WalkError::Offset`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// PRP1, which must be a multiple of 4.
    Prp1,
    /// PRP2 as the second page, which must be page aligned.
    Prp2,
    /// PRP2 as the list pointer, which must be a multiple of 8.
    ListPointer,
    /// An entry of a list, for data or for the next list page, which must be page aligned.
    Entry,
}

/// Why a walk ended before the end of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError<E> {
    /// A PRP has an offset that its position does not allow.
    #[error("{position:?} is {addr}, whose offset is not allowed there")]
    Offset {
        /// The PRP's place.
        position: Position,
        /// Its value.
        addr: BusAddr,
    },
    /// The list could not be read.
    #[error("list at {addr} could not be read")]
    Read {
        /// The address that was to be read.
        addr: BusAddr,
        /// What the reader said.
        error: E,
    },
}

impl<E> WalkError<E> {
    /// The status that the command completes with: PRP Offset Invalid, or Data Transfer Error.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Offset { .. } => generic::PRP_OFFSET_INVALID.with_do_not_retry(),
            Self::Read { .. } => generic::DATA_TRANSFER_ERROR,
        }
    }
}

impl<R, E> Iterator for Walk<R>
where
    R: FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
{
    type Item = Result<(BusAddr, u64), WalkError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        let addr = match self.next_page() {
            Ok(addr) => addr,
            Err(error) => {
                self.remaining = 0;
                return Some(Err(error));
            }
        };
        let len = self.remaining.min(self.page.bytes() - addr.offset_in(self.page));
        self.remaining -= len;
        Some(Ok((addr, len)))
    }
}

impl<R, E> Walk<R>
where
    R: FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
{
    fn next_page(&mut self) -> Result<BusAddr, WalkError<E>> {
        match self.next {
            Next::First(prp1) => {
                self.next = if self.list.entries == 1 { Next::Second } else { Next::Listed };
                aligned(prp1, 4, Position::Prp1)
            }
            Next::Second => aligned(self.prp2, self.page.bytes(), Position::Prp2),
            Next::Listed => self.list.next_data(self.page, &mut self.read),
        }
    }
}

/// The part of the list that has been read and not used.
#[derive(Debug)]
struct List {
    /// The address of the next slot to use.
    at: BusAddr,
    /// The data entries not used yet.
    entries: u64,
    batch: [U64; BATCH],
    used: usize,
    filled: usize,
}

impl List {
    fn new(at: BusAddr, entries: u64) -> Self {
        Self { at, entries, batch: [U64::ZERO; BATCH], used: 0, filled: 0 }
    }

    /// The next data page, following at most one chain pointer.
    fn next_data<E>(
        &mut self,
        page: PageSize,
        read: &mut impl FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
    ) -> Result<BusAddr, WalkError<E>> {
        aligned(self.at, ENTRY_BYTES, Position::ListPointer)?;
        if self.slots_left(page) == 1 && self.entries > 1 {
            self.at = self.next_entry(page, read)?;
        }
        self.entries = self.entries.saturating_sub(1);
        self.next_entry(page, read)
    }

    fn next_entry<E>(
        &mut self,
        page: PageSize,
        read: &mut impl FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
    ) -> Result<BusAddr, WalkError<E>> {
        if self.used == self.filled {
            self.fill(page, read)?;
        }
        let entry = BusAddr(self.batch[self.used].get());
        self.used += 1;
        // The last slot of the address space is the last of its page too, and after that one `at` is set anew.
        self.at = BusAddr(self.at.0.wrapping_add(ENTRY_BYTES));
        aligned(entry, page.bytes(), Position::Entry)
    }

    fn fill<E>(
        &mut self,
        page: PageSize,
        read: &mut impl FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), WalkError<E>> {
        // `next_data` has counted the entry that it fetches as used, so one more than `entries` is needed.
        let wanted = self.slots_left(page).min(self.entries.saturating_add(1));
        self.filled = (wanted as usize).min(BATCH);
        self.used = 0;
        let bytes = self.batch[..self.filled].as_mut_bytes();
        read(self.at, bytes).map_err(|error| WalkError::Read { addr: self.at, error })
    }

    const fn slots_left(&self, page: PageSize) -> u64 {
        (page.bytes() - self.at.offset_in(page)) / ENTRY_BYTES
    }
}

fn aligned<E>(addr: BusAddr, align_bytes: u64, position: Position) -> Result<BusAddr, WalkError<E>> {
    if addr.0.is_multiple_of(align_bytes) { Ok(addr) } else { Err(WalkError::Offset { position, addr }) }
}

/// The number of list entries that are read at once.
const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const PAGE: PageSize = PageSize::MIN;
    const LIST: u64 = 0x8000;

    type Pieces = Result<Vec<(u64, u64)>, WalkError<()>>;

    /// Walks with a list page at 8000h whose slots hold `slots` from the one that `prp2` points to.
    fn pieces(prp1: u64, prp2: u64, len: u64, slots: &[u64]) -> Pieces {
        let read = |addr: BusAddr, out: &mut [u8]| {
            let from = addr.0.checked_sub(prp2).ok_or(())? as usize / 8;
            for (i, entry) in out.chunks_exact_mut(8).enumerate() {
                entry.copy_from_slice(&slots.get(from + i).ok_or(())?.to_le_bytes());
            }
            Ok(())
        };
        walk(PAGE, BusAddr(prp1), BusAddr(prp2), len, read).map(|p| p.map(|(a, l)| (a.0, l))).collect()
    }

    fn offset(position: Position, addr: u64) -> Pieces {
        Err(WalkError::Offset { position, addr: BusAddr(addr) })
    }

    #[test]
    fn walks_by_table() {
        assert_eq!(pieces(0x1004, 0x9999, 0, &[]), Ok([].to_vec()));
        assert_eq!(pieces(0x1004, 0x9999, 16, &[]), Ok([(0x1004, 16)].to_vec()));
        assert_eq!(pieces(0x1004, 0x9999, 4092, &[]), Ok([(0x1004, 4092)].to_vec()));
        assert_eq!(pieces(0x1004, 0x5000, 4096, &[]), Ok([(0x1004, 4092), (0x5000, 4)].to_vec()));
        let three = [(0x1004, 4092), (0x5000, 4096), (0x3000, 4)].to_vec();
        assert_eq!(pieces(0x1004, LIST, 8192, &[0x5000, 0x3000]), Ok(three.clone()));
        assert_eq!(pieces(0x1004, LIST + 8, 8192, &[0x5000, 0x3000]), Ok(three.clone()));
        assert_eq!(pieces(0x1004, 0x8ff8, 8192, &[0x9000, 0x5000, 0x3000]), Ok(three));
    }

    #[test]
    fn offsets_are_refused_where_they_do_not_belong() {
        assert_eq!(pieces(0x1002, 0, 16, &[]), offset(Position::Prp1, 0x1002));
        assert_eq!(pieces(0x1004, 0x5004, 4096, &[]), offset(Position::Prp2, 0x5004));
        assert_eq!(pieces(0x1004, LIST + 4, 8192, &[]), offset(Position::ListPointer, LIST + 4));
        assert_eq!(pieces(0x1004, LIST, 8192, &[0x5000, 0x3008]), offset(Position::Entry, 0x3008));
        assert_eq!(pieces(0x1004, 0x8ff8, 8192, &[0x9008]), offset(Position::Entry, 0x9008));
    }

    #[test]
    fn errors_name_their_status() {
        let refused = pieces(0x1002, 0, 16, &[]).unwrap_err();
        assert_eq!(refused.status(), generic::PRP_OFFSET_INVALID.with_do_not_retry());
        let unread = pieces(0x1000, LIST, 3 * 4096, &[]).unwrap_err();
        assert_eq!(unread, WalkError::Read { addr: BusAddr(LIST), error: () });
        assert_eq!(unread.status(), generic::DATA_TRANSFER_ERROR);
    }

    #[test]
    fn a_walk_ends_after_its_error() {
        let mut walk = walk(PAGE, BusAddr(2), BusAddr(0), 8192, |_, _: &mut [u8]| Ok::<(), ()>(()));
        assert!(walk.next().unwrap().is_err());
        assert!(walk.next().is_none());
    }

    #[test]
    fn a_chain_that_points_to_itself_ends_with_the_transfer() {
        let read = |_: BusAddr, out: &mut [u8]| {
            out.chunks_exact_mut(8).for_each(|entry| entry.copy_from_slice(&LIST.to_le_bytes()));
            Ok::<(), ()>(())
        };
        assert_eq!(walk(PAGE, BusAddr(0), BusAddr(0x8ff8), 4096 * 5000, read).count(), 5000);
    }

    #[test]
    fn the_top_of_the_address_space_does_not_overflow() {
        let top = 0xffff_ffff_ffff_f000_u64;
        let read = |_: BusAddr, out: &mut [u8]| {
            out.chunks_exact_mut(8).for_each(|entry| entry.copy_from_slice(&top.to_le_bytes()));
            Ok::<(), ()>(())
        };
        let all: Vec<_> = walk(PAGE, BusAddr(top), BusAddr(top + 4080), 5 * 4096, read).collect();
        assert_eq!(all, [Ok((BusAddr(top), 4096)); 5]);
    }
}
