//! Dataset Management: what the host will do with ranges, most often "deallocate" (trim).

use super::Opcode;
use crate::sqe::Sqe;
use crate::types::{Lba, Nsid};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Dataset Management. Its data is an array of [`DsmRange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetManagement {
    /// NSID.
    pub nsid: Nsid,
    /// NR: the number of ranges, 0's based.
    pub nr_z: u8,
    /// What holds for the ranges.
    pub attributes: DsmAttributes,
}

bitflags::bitflags! {
    /// What holds for the ranges of a Dataset Management (CDW11).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct DsmAttributes: u32 {
        /// IDR: they will be read together.
        const INTEGRAL_READ = 1 << 0;
        /// IDW: they will be written together.
        const INTEGRAL_WRITE = 1 << 1;
        /// AD: they may be deallocated.
        const DEALLOCATE = 1 << 2;
    }
}

impl DatasetManagement {
    /// Lets the controller deallocate `ranges` ranges. `None` outside 1 to 256.
    #[must_use]
    pub const fn deallocate(nsid: Nsid, ranges: u32) -> Option<Self> {
        match ranges {
            1..=256 => Some(Self { nsid, nr_z: (ranges - 1) as u8, attributes: DsmAttributes::DEALLOCATE }),
            _ => None,
        }
    }

    /// The number of ranges: 1 to 256.
    #[must_use]
    pub const fn ranges(&self) -> u32 {
        self.nr_z as u32 + 1
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::DATASET_MANAGEMENT.0, self.nsid)
            .with_cdw10(self.nr_z.into())
            .with_cdw11(self.attributes.bits())
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self {
            nsid: sqe.nsid(),
            nr_z: sqe.cdw10.get() as u8,
            attributes: DsmAttributes::from_bits_retain(sqe.cdw11.get()),
        }
    }
}

/// A range of Dataset Management, 16 bytes (figure "Dataset Management – Range Definition").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DsmRange {
    /// The context attributes: hints about access frequency and latency.
    pub attributes: U32,
    /// The number of blocks, not 0's based; 0 for a range to be ignored.
    pub blocks: U32,
    /// SLBA: the first block.
    pub slba: U64,
}

static_assertions::const_assert_eq!(size_of::<DsmRange>(), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(DsmRange, blocks), 4);
static_assertions::const_assert_eq!(core::mem::offset_of!(DsmRange, slba), 8);

impl DsmRange {
    /// `blocks` blocks from `slba`, without hints.
    #[must_use]
    pub const fn new(slba: Lba, blocks: u32) -> Self {
        Self { attributes: U32::ZERO, blocks: U32::new(blocks), slba: U64::new(slba.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dataset_management_by_the_figure() {
        let sqe = DatasetManagement::deallocate(Nsid(1), 256).unwrap().to_sqe();
        assert_eq!((sqe.opcode, sqe.cdw10.get(), sqe.cdw11.get()), (9, 255, 4));
        assert_eq!(DatasetManagement::deallocate(Nsid(1), 0), None);
        assert_eq!(DatasetManagement::deallocate(Nsid(1), 257), None);
        let range = DsmRange::new(Lba(0x0102), 8);
        assert_eq!(range.as_bytes(), [0, 0, 0, 0, 8, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    }
}
