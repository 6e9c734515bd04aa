//! Physical region pages: how a buffer is told to a device (Base specification, "Physical Region Page Entry and
//! List"), from the host's side and from the controller's.
//!
//! - The host asks [`shape`] what a transfer needs and [`lay_list`] to write the list.
//! - The controller [`walk`]s what it was given.
//!
//! The page is always the controller's, `CC.MPS`, never that of the host's processor.

mod list;
mod walk;

pub use list::{ListError, Slot, lay_list, list_pages};
pub use walk::{Position, Walk, WalkError, walk};

use crate::sqe::DataPointer;
use crate::types::{BusAddr, PageSize};

/// The size of a PRP entry in bytes.
pub const ENTRY_BYTES: u64 = 8;

/// What the two PRP words of a command hold for one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The data lies in one page: PRP1 is all, PRP2 is zero.
    One,
    /// The data touches exactly two pages: PRP2 is the second page itself, never a list.
    Two,
    /// The data touches more: PRP2 points to a list of the second and all further pages.
    List {
        /// The number of data pages in the list: all but the first.
        entries: u32,
    },
}

impl Shape {
    /// The data pointer of this shape: `prp2` is the second page or the list, and left out where none belongs.
    #[inline]
    #[must_use]
    pub const fn data_pointer(self, prp1: BusAddr, prp2: BusAddr) -> DataPointer {
        match self {
            Self::One => DataPointer::prp(prp1, BusAddr(0)),
            Self::Two | Self::List { .. } => DataPointer::prp(prp1, prp2),
        }
    }
}

/// The shape of a transfer of `len_bytes` that begins at `start`, an address or only its offset in the page.
///
/// # Examples
///
/// ```
/// use nvme_proto::{PageSize, prp};
///
/// let page = PageSize::MIN;
/// assert_eq!(prp::shape(page, 0, 4096), prp::Shape::One);
/// assert_eq!(prp::shape(page, 512, 4096), prp::Shape::Two);
/// assert_eq!(prp::shape(page, 512, 8192), prp::Shape::List { entries: 2 });
/// ```
#[inline]
#[must_use]
pub const fn shape(page: PageSize, start: u64, len_bytes: u32) -> Shape {
    let rest = len_bytes.saturating_sub(1) as u64;
    if same_page(page, start, start.wrapping_add(rest)) {
        return Shape::One;
    }
    // Where the last byte lies, from the start of the first page on.
    let last = (start & page.mask()) + rest;
    let two = 2 * page.mask() + 1;
    // The first comparison alone does for what is longer than two pages, and needs nothing but the length.
    if rest > two || last > two { Shape::List { entries: (last >> page.shift()) as u32 } } else { Shape::Two }
}

/// Whether two addresses lie in one page: they differ within it only.
#[inline]
#[must_use]
pub const fn same_page(page: PageSize, one: u64, other: u64) -> bool {
    one ^ other <= page.mask()
}

/// The number of controller pages that `len_bytes` from `start`, an address or only its offset in the page, touch.
#[inline]
#[must_use]
pub const fn pages(page: PageSize, start: u64, len_bytes: u64) -> u64 {
    if len_bytes == 0 {
        return 0;
    }
    // The whole pages of the length are counted apart, so that nothing can overflow.
    let mask = page.mask();
    (len_bytes >> page.shift()) + (((len_bytes & mask) + (start & mask) + mask) >> page.shift())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_by_table() {
        let kib8 = PageSize::from_exponent(1).unwrap();
        let cases = [
            (PageSize::MIN, 0, 0, Shape::One),
            (PageSize::MIN, 4, 0, Shape::One),
            (PageSize::MIN, 0, 1, Shape::One),
            (PageSize::MIN, 0, 4096, Shape::One),
            (PageSize::MIN, 4092, 4, Shape::One),
            (PageSize::MIN, 4092, 5, Shape::Two),
            (PageSize::MIN, 0, 4097, Shape::Two),
            (PageSize::MIN, 0x7f000, 8192, Shape::Two),
            (PageSize::MIN, 0, 8193, Shape::List { entries: 2 }),
            (PageSize::MIN, 4, 8192, Shape::List { entries: 2 }),
            (PageSize::MIN, 0, 1 << 20, Shape::List { entries: 255 }),
            (PageSize::MIN, 512, 1 << 20, Shape::List { entries: 256 }),
            (PageSize::MIN, 0, u32::MAX, Shape::List { entries: (1 << 20) - 1 }),
            (PageSize::MIN, u64::MAX, u32::MAX, Shape::List { entries: 1 << 20 }),
            (kib8, 4096, 4096, Shape::One),
            (kib8, 4096, 12288, Shape::Two),
        ];
        for (page, start, len, shape_expected) in cases {
            assert_eq!(shape(page, start, len), shape_expected, "{page} {start:#x} {len}");
        }
    }

    #[test]
    fn one_page_leaves_no_stale_prp2() {
        let stale = BusAddr(0xdead_0000);
        assert_eq!(Shape::One.data_pointer(BusAddr(4), stale).words(), [4, 0]);
        assert_eq!(Shape::Two.data_pointer(BusAddr(4), stale).words(), [4, 0xdead_0000]);
    }
}
