//! What is specific to the NVM command set: CNS 05h and 06h with CSI 0.

use super::controller::units_to_bytes;
use crate::types::PageSize;
use bitfield_struct::bitfield;
use static_assertions::const_assert_eq;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The limits of commands without data, which MDTS does not cover, 4096 bytes (figure "I/O Command Set Specific
/// Identify Controller Data Structure for the NVM Command Set").
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NvmController {
    /// VSL: the largest Verify, counted like MDTS. See [`verify_bytes`](Self::verify_bytes).
    pub vsl: u8,
    /// WZSL: the largest Write Zeroes, counted like MDTS. See [`write_zeroes_bytes`](Self::write_zeroes_bytes).
    pub wzsl: u8,
    /// WUSL: the largest Write Uncorrectable, counted like MDTS. See
    /// [`write_uncorrectable_bytes`](Self::write_uncorrectable_bytes).
    pub wusl: u8,
    /// DMRL: the number of ranges of a Dataset Management, 0 for no limit.
    pub dmrl: u8,
    /// DMRSL: the blocks in a range of a Dataset Management, 0 for no limit.
    pub dmrsl: U32,
    /// DMSL: the blocks in a Dataset Management, 0 for no limit.
    pub dmsl: U64,
    /// Reserved.
    pub reserved16: [u8; 4080],
}

const_assert_eq!(size_of::<NvmController>(), 4096);
const_assert_eq!(core::mem::offset_of!(NvmController, dmsl), 8);

impl NvmController {
    /// The largest Verify in bytes, with `min_page` from `Cap::min_page`. `None` for no limit.
    #[must_use]
    pub const fn verify_bytes(&self, min_page: PageSize) -> Option<u64> {
        units_to_bytes(self.vsl, min_page)
    }

    /// The largest Write Zeroes in bytes, with `min_page` from `Cap::min_page`. `None` for no limit.
    #[must_use]
    pub const fn write_zeroes_bytes(&self, min_page: PageSize) -> Option<u64> {
        units_to_bytes(self.wzsl, min_page)
    }

    /// The largest Write Uncorrectable in bytes, with `min_page` from `Cap::min_page`. `None` for no limit.
    #[must_use]
    pub const fn write_uncorrectable_bytes(&self, min_page: PageSize) -> Option<u64> {
        units_to_bytes(self.wusl, min_page)
    }
}

/// What extended LBA formats add to a namespace, 4096 bytes (figure "NVM Command Set I/O Command Set Specific
/// Identify Namespace Data Structure").
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NvmNamespace {
    /// LBSTM: which bits of the storage tag are checked.
    pub lbstm: U64,
    /// PIC: the protection information capabilities.
    pub pic: u8,
    /// PIFA: the protection information format attributes.
    pub pifa: u8,
    /// Reserved.
    pub reserved10: [u8; 2],
    /// ELBAF0 to ELBAF63, by the index of the LBA format. See [`extended_format`](Self::extended_format).
    pub elbaf: [U32; 64],
    /// NPDGL: the preferred granularity of deallocation in blocks, where it is larger than NPDG can tell.
    pub npdgl: U32,
    /// NPRG: the preferred granularity of reads in blocks.
    pub nprg: U32,
    /// NPRA: the preferred alignment of reads in blocks.
    pub npra: U32,
    /// NORS: the optimal size of a read in blocks.
    pub nors: U32,
    /// NPDAL: the preferred alignment of deallocation in blocks, where it is larger than NPDA can tell.
    pub npdal: U32,
    /// Reserved.
    pub reserved288: [u8; 3808],
}

const_assert_eq!(size_of::<NvmNamespace>(), 4096);
const_assert_eq!(core::mem::offset_of!(NvmNamespace, elbaf), 12);
const_assert_eq!(core::mem::offset_of!(NvmNamespace, npdgl), 268);

impl NvmNamespace {
    /// What is added to the LBA format at `index`. `None` above 63.
    #[must_use]
    pub fn extended_format(&self, index: u8) -> Option<ExtendedLbaFormat> {
        self.elbaf.get(usize::from(index)).map(|format| ExtendedLbaFormat::from_bits(format.get()))
    }
}

/// ELBAF: the protection information of an LBA format.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ExtendedLbaFormat {
    /// STS: the size of the storage tag in bits.
    #[bits(7)]
    pub sts: u8,
    /// PIF: the guard: 0 for 16 bits, 1 for 32, 2 for 64, 3 for what QPIF says.
    #[bits(2)]
    pub pif: u8,
    /// QPIF: the guard where PIF does not say it.
    #[bits(4)]
    pub qpif: u8,
    #[bits(19)]
    __: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_counted_like_mdts() {
        let mut bytes = [0; 4096];
        bytes[..8].copy_from_slice(&[0, 5, 60, 7, 0, 1, 0, 0]);
        let limits = NvmController::read_from_bytes(&bytes).unwrap();
        let page = PageSize::MIN;
        assert_eq!((limits.verify_bytes(page), limits.write_zeroes_bytes(page)), (None, Some(128 << 10)));
        assert_eq!(limits.write_uncorrectable_bytes(page), None);
        assert_eq!((limits.dmrl, limits.dmrsl.get()), (7, 256));
    }

    #[test]
    fn extended_formats_by_the_figure() {
        let mut bytes = [0; 4096];
        bytes[16..20].copy_from_slice(&0x0000_0390_u32.to_le_bytes());
        let namespace = NvmNamespace::read_from_bytes(&bytes).unwrap();
        let format = namespace.extended_format(1).unwrap();
        assert_eq!((format.sts(), format.pif(), format.qpif()), (16, 3, 1));
        assert_eq!(namespace.extended_format(64), None);
    }
}
