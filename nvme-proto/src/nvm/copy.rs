//! Copy: moving blocks within the device.

use super::{IoFlags, Opcode};
use crate::sqe::Sqe;
use crate::types::{Count16, Lba, Nsid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Copy. Its data is an array of source ranges in the format that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// NSID of the destination.
    pub nsid: Nsid,
    /// SDLBA: the first block of the destination.
    pub destination: Lba,
    /// NR: the number of source ranges, 0's based. Identify Namespace's MSRC is the limit.
    pub nr_z: u8,
    /// CDFT: the format of the source ranges: 0 and 2 for [`CopyRange`], 1 and 3 for [`CopyRangeExtended`].
    pub format: u8,
    /// PRINFOR: protection information on the way in: PRCHK in bits 2:0, PRACT in bit 3.
    pub read_protection: u8,
    /// The options of the writing half in CDW12 bits 31:16; `deac` is STCR here, the reading half's STC.
    pub flags: IoFlags,
    /// CDW13: DSPEC in bits 31:16.
    pub cdw13: u32,
    /// ILBRT: the initial reference tag.
    pub reference_tag: u32,
    /// LBAT: the application tag.
    pub application_tag: u16,
    /// LBATM: which bits of the application tag are checked.
    pub application_tag_mask: u16,
}

impl Copy {
    /// Copies `ranges` ranges of format 0 to `destination`. `None` outside 1 to 256.
    #[must_use]
    pub const fn new(nsid: Nsid, destination: Lba, ranges: u32) -> Option<Self> {
        if ranges == 0 || ranges > 256 {
            return None;
        }
        Some(Self {
            nsid,
            destination,
            nr_z: (ranges - 1) as u8,
            format: 0,
            read_protection: 0,
            flags: IoFlags::new(),
            cdw13: 0,
            reference_tag: 0,
            application_tag: 0,
            application_tag_mask: 0,
        })
    }

    /// The number of source ranges: 1 to 256.
    #[must_use]
    pub const fn ranges(&self) -> u32 {
        self.nr_z as u32 + 1
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let formats = u32::from(self.read_protection & 0xf) << 12 | u32::from(self.format & 0xf) << 8;
        let tags = u32::from(self.application_tag_mask) << 16 | u32::from(self.application_tag);
        Sqe::new(Opcode::COPY.0, self.nsid)
            .with_cdw10_11(self.destination.0)
            .with_cdw12(u32::from(self.flags.into_bits()) << 16 | formats | u32::from(self.nr_z))
            .with_cdw13(self.cdw13)
            .with_cdw14(self.reference_tag)
            .with_cdw15(tags)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let (cdw12, cdw15) = (sqe.cdw12.get(), sqe.cdw15.get());
        Self {
            nsid: sqe.nsid(),
            destination: Lba(sqe.cdw10_11()),
            nr_z: cdw12 as u8,
            format: (cdw12 >> 8) as u8 & 0xf,
            read_protection: (cdw12 >> 12) as u8 & 0xf,
            flags: IoFlags::from_bits((cdw12 >> 16) as u16),
            cdw13: sqe.cdw13.get(),
            reference_tag: sqe.cdw14.get(),
            application_tag: cdw15 as u16,
            application_tag_mask: (cdw15 >> 16) as u16,
        }
    }
}

/// A source range of format 0 or 2, 32 bytes (figure "Copy – Source Range Entries Copy Descriptor Format 0h").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CopyRange {
    /// SNSID: the namespace that is read. Format 2 only.
    pub snsid: U32,
    /// Reserved.
    pub reserved4: [u8; 4],
    /// SLBA: the first block.
    pub slba: U64,
    /// NLB: the number of blocks, 0's based.
    pub nlb_z: U16,
    /// Reserved.
    pub reserved18: [u8; 4],
    /// SOPT: options of the source. Format 2 only.
    pub sopt: U16,
    /// EILBRT: the expected initial reference tag.
    pub reference_tag: U32,
    /// ELBAT: the expected application tag.
    pub application_tag: U16,
    /// ELBATM: which of its bits are checked.
    pub application_tag_mask: U16,
}

static_assertions::const_assert_eq!(size_of::<CopyRange>(), 32);
static_assertions::const_assert_eq!(core::mem::offset_of!(CopyRange, slba), 8);
static_assertions::const_assert_eq!(core::mem::offset_of!(CopyRange, nlb_z), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(CopyRange, reference_tag), 24);

impl CopyRange {
    /// `blocks` blocks from `slba` of the command's own namespace.
    #[must_use]
    pub fn new(slba: Lba, blocks: Count16) -> Self {
        Self { slba: U64::new(slba.0), nlb_z: U16::new(blocks.z()), ..Self::default() }
    }

    /// The first block.
    #[must_use]
    pub fn slba(&self) -> Lba {
        Lba(self.slba.get())
    }

    /// The number of blocks.
    #[must_use]
    pub fn blocks(&self) -> Count16 {
        Count16::from_z(self.nlb_z.get())
    }
}

/// A source range of format 1 or 3, 40 bytes, with room for the wider tags of 32- and 64-bit guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CopyRangeExtended {
    /// SNSID: the namespace that is read. Format 3 only.
    pub snsid: U32,
    /// Reserved.
    pub reserved4: [u8; 4],
    /// SLBA: the first block.
    pub slba: U64,
    /// NLB: the number of blocks, 0's based.
    pub nlb_z: U16,
    /// Reserved.
    pub reserved18: [u8; 4],
    /// SOPT: options of the source. Format 3 only.
    pub sopt: U16,
    /// Reserved.
    pub reserved24: [u8; 2],
    /// ELBT: the expected storage and reference tags.
    pub tags: [u8; 10],
    /// ELBAT: the expected application tag.
    pub application_tag: U16,
    /// ELBATM: which of its bits are checked.
    pub application_tag_mask: U16,
}

static_assertions::const_assert_eq!(size_of::<CopyRangeExtended>(), 40);
static_assertions::const_assert_eq!(core::mem::offset_of!(CopyRangeExtended, tags), 26);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_by_the_figure() {
        let copy = Copy { format: 2, read_protection: 0xf, ..Copy::new(Nsid(1), Lba(3), 2).unwrap() };
        let copy = Copy { flags: IoFlags::new().with_fua(true), ..copy };
        let sqe = copy.to_sqe();
        assert_eq!((sqe.opcode, sqe.cdw10.get(), sqe.cdw12.get()), (0x19, 3, 0x4000_f201));
        assert_eq!((Copy::new(Nsid(1), Lba(0), 0), Copy::new(Nsid(1), Lba(0), 257)), (None, None));
        let range = CopyRange::new(Lba(0x0102), Count16::new(8).unwrap());
        assert_eq!(range.as_bytes()[8..18], [2, 1, 0, 0, 0, 0, 0, 0, 7, 0]);
        assert_eq!((range.slba(), range.blocks().get()), (Lba(0x0102), 8));
    }
}
