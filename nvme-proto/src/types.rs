//! The numbers of NVMe, each with its own type, so that one cannot stand where another belongs.

use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }

        impl From<$int> for $name {
            fn from(value: $int) -> Self {
                Self(value)
            }
        }

        impl From<$name> for $int {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    };
}

number! {
    /// An address as the device puts it on the bus: a physical address, or an I/O virtual address behind an
    /// IOMMU. It is the only number that can enter a PRP or an SGL, and it is never a pointer of this process.
    BusAddr(u64), "{:#x}"
}
number! {
    /// A queue identifier (QID). 0 is the admin queue.
    Qid(u16), "{}"
}
number! {
    /// A command identifier (CID), unique among the commands outstanding on one submission queue.
    Cid(u16), "{:#06x}"
}
number! {
    /// A namespace identifier (NSID). 0 names none, [`Nsid::ALL`] names all.
    Nsid(u32), "{}"
}
number! {
    /// A logical block address within a namespace, in blocks.
    Lba(u64), "{}"
}

/// A count from 1 to 65 536, which stands 0's based in a field of 16 bits: blocks in NLB, entries in QSIZE, queues
/// in NSQR and NCQR. The one is taken off here and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Count16 {
    // At most 16 bits of it are used. As wide as the words that it goes into, so that it is not extended each time.
    z: u32,
}

impl Count16 {
    /// 1, the smallest.
    pub const ONE: Self = Self { z: 0 };
    /// 65 536, the largest.
    pub const MAX: Self = Self { z: u16::MAX as u32 };

    /// The count `count`. `None` for 0 and above 65 536.
    #[inline]
    #[must_use]
    pub const fn new(count: u32) -> Option<Self> {
        if count == 0 || count > 0x1_0000 { None } else { Some(Self { z: count - 1 }) }
    }

    /// The count that a 0's-based field says.
    #[inline]
    #[must_use]
    pub const fn from_z(z: u16) -> Self {
        Self { z: z as u32 }
    }

    /// The 0's-based value of the field.
    #[inline]
    #[must_use]
    pub const fn z(self) -> u16 {
        self.z as u16
    }

    /// The same as part of a wider word.
    #[inline]
    pub(crate) const fn z_in_word(self) -> u32 {
        self.z
    }

    /// The count itself: 1 to 65 536.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.z + 1
    }
}

impl fmt::Display for Count16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

open_enum! {
    /// CSI, the command set identifier: whose structure or log is meant.
    Csi(u8) {
        NVM = 0, "NVM command set";
        KEY_VALUE = 1, "key value command set";
        ZONED = 2, "zoned namespace command set";
    }
}

impl BusAddr {
    /// This address moved up by `bytes`. `None` when the result does not fit 64 bits.
    #[inline]
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The distance of this address from the start of its page, in bytes.
    #[inline]
    #[must_use]
    pub const fn offset_in(self, page: PageSize) -> u64 {
        self.0 & page.mask()
    }
}

impl Qid {
    /// The admin queue pair.
    pub const ADMIN: Self = Self(0);

    /// Whether this is the admin queue pair.
    #[must_use]
    pub const fn is_admin(self) -> bool {
        self.0 == 0
    }
}

impl Cid {
    /// The value that the error log uses for "no particular command"; no command may carry it.
    pub const NONE: Self = Self(0xffff);
}

impl Nsid {
    /// No namespace: for commands that act on the controller.
    pub const NONE: Self = Self(0);
    /// The broadcast value: every namespace the controller has.
    pub const ALL: Self = Self(0xffff_ffff);

    /// Whether this can name one single namespace, so neither 0 nor the broadcast value.
    #[must_use]
    pub const fn is_single(self) -> bool {
        self.0 != 0 && self.0 != 0xffff_ffff
    }
}

/// The memory page size of a controller, `2^(12 + n)` bytes, as in `CC.MPS`, `CAP.MPSMIN` and `CAP.MPSMAX`.
///
/// It has nothing to do with the page size of the host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize {
    // The mask, not the exponent: every transfer asks for it.
    mask: u64,
}

impl PageSize {
    /// 4 KiB, the smallest page there is.
    pub const MIN: Self = Self { mask: MIN_PAGE_BYTES - 1 };

    /// The page of `2^(12 + exponent)` bytes. `None` above 15, which the four-bit fields cannot say.
    #[must_use]
    pub const fn from_exponent(exponent: u8) -> Option<Self> {
        if exponent > 15 { None } else { Some(Self { mask: (MIN_PAGE_BYTES << exponent) - 1 }) }
    }

    /// The value of the `MPS` fields: 0 for 4 KiB.
    #[inline]
    #[must_use]
    pub const fn exponent(self) -> u8 {
        (self.shift() - MIN_PAGE_BYTES.trailing_zeros()) as u8
    }

    /// The binary logarithm of the size in bytes: 12 for 4 KiB.
    #[inline]
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.mask.trailing_ones()
    }

    /// The size in bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.mask() + 1
    }

    /// The bits of an address that lie within a page.
    #[inline]
    #[must_use]
    pub const fn mask(self) -> u64 {
        self.mask
    }
}

const MIN_PAGE_BYTES: u64 = 4096;

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB", self.bytes() >> 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_cover_the_field() {
        assert_eq!(PageSize::MIN.bytes(), 4096);
        assert_eq!(PageSize::from_exponent(15).unwrap().bytes(), 128 << 20);
        assert_eq!(PageSize::from_exponent(16), None);
        for exponent in 0..=15 {
            let page = PageSize::from_exponent(exponent).unwrap();
            assert_eq!((page.exponent(), page.shift()), (exponent, 12 + u32::from(exponent)));
            assert_eq!((page.bytes(), page.mask()), (1 << page.shift(), (1 << page.shift()) - 1));
        }
        assert_eq!(BusAddr(0x1_2345).offset_in(PageSize::MIN), 0x345);
    }

    #[test]
    fn counts_are_converted_at_their_ends() {
        assert_eq!(Count16::new(0), None);
        assert_eq!(Count16::new(1).unwrap().z(), 0);
        assert_eq!(Count16::new(65_536), Some(Count16::MAX));
        assert_eq!(Count16::new(65_537), None);
        assert_eq!(Count16::from_z(511).get(), 512);
    }

    #[test]
    fn single_namespaces_exclude_the_special_values() {
        assert!(!Nsid::NONE.is_single());
        assert!(!Nsid::ALL.is_single());
        assert!(Nsid(1).is_single());
    }
}
