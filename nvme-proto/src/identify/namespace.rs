//! Identify Namespace, CNS 00h.

use static_assertions::const_assert_eq;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Identify Namespace of the NVM command set, 4096 bytes (NVM Command Set specification, figure "Identify Namespace
/// Data Structure").
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Namespace {
    /// NSZE: the size in blocks. 0 for a namespace that is not there.
    pub nsze: U64,
    /// NCAP: the number of blocks that may be allocated at a time.
    pub ncap: U64,
    /// NUSE: the number of blocks that are allocated.
    pub nuse: U64,
    /// NSFEAT: see [`nsfeat`](Self::nsfeat).
    pub nsfeat: u8,
    /// NLBAF: the number of LBA formats, 0's based.
    pub nlbaf_z: u8,
    /// FLBAS: see [`lba_format_index`](Self::lba_format_index) and [`extended_lba`](Self::extended_lba).
    pub flbas: u8,
    /// MC: bit 0, metadata may travel with the data; bit 1, in a buffer of its own.
    pub mc: u8,
    /// DPC: the end-to-end protection that is supported.
    pub dpc: u8,
    /// DPS: see [`protection_type`](Self::protection_type).
    pub dps: u8,
    /// NMIC: bit 0, the namespace may be attached to more than one controller.
    pub nmic: u8,
    /// RESCAP: the reservations that are supported.
    pub rescap: u8,
    /// FPI: bits 6:0, the percentage that remains of a format; bit 7, that this is told.
    pub fpi: u8,
    /// DLFEAT: bits 2:0, what a deallocated block reads as: 1 for zeroes, 2 for FFh.
    pub dlfeat: u8,
    /// NAWUN: the size of an atomic write in blocks, 0's based.
    pub nawun_z: U16,
    /// NAWUPF: see [`atomic_power_fail_blocks`](Self::atomic_power_fail_blocks).
    pub nawupf_z: U16,
    /// NACWU: the size of an atomic Compare and Write in blocks, 0's based.
    pub nacwu_z: U16,
    /// NABSN: the size of an atomic boundary in blocks, 0's based, if not 0.
    pub nabsn_z: U16,
    /// NABO: the first block of the first atomic boundary.
    pub nabo: U16,
    /// NABSPF: the size of an atomic boundary across a power failure in blocks, 0's based, if not 0.
    pub nabspf_z: U16,
    /// NOIOB: the boundary in blocks that I/O should not cross, 0 for none. Not 0's based.
    pub noiob: U16,
    /// NVMCAP: the size of the media behind it, in bytes.
    pub nvmcap: U128,
    /// NPWG: the preferred granularity of writes in blocks, 0's based. See
    /// [`preferred_write_blocks`](Self::preferred_write_blocks).
    pub npwg_z: U16,
    /// NPWA: the preferred alignment of writes in blocks, 0's based.
    pub npwa_z: U16,
    /// NPDG: the preferred granularity of deallocation in blocks, 0's based.
    pub npdg_z: U16,
    /// NPDA: the preferred alignment of deallocation in blocks, 0's based.
    pub npda_z: U16,
    /// NOWS: the optimal size of a write in blocks, 0's based.
    pub nows_z: U16,
    /// MSSRL: the longest source range of a Copy, in blocks.
    pub mssrl: U16,
    /// MCL: the longest Copy, in blocks.
    pub mcl: U32,
    /// MSRC: the number of source ranges of a Copy, 0's based.
    pub msrc_z: u8,
    /// KPIOS: the key per I/O status.
    pub kpios: u8,
    /// NULBAF: the number of LBA formats whose attributes are unique to this namespace.
    pub nulbaf: u8,
    /// Reserved.
    pub reserved83: u8,
    /// KPIODAAG: the granularity and alignment of data access with key per I/O.
    pub kpiodaag: U32,
    /// Reserved.
    pub reserved88: [u8; 4],
    /// ANAGRPID: the ANA group.
    pub anagrpid: U32,
    /// Reserved.
    pub reserved96: [u8; 3],
    /// NSATTR: bit 0, the namespace is write protected.
    pub nsattr: u8,
    /// NVMSETID: the NVM set.
    pub nvmsetid: U16,
    /// ENDGID: the endurance group.
    pub endgid: U16,
    /// NGUID: the globally unique identifier, most significant byte first; zero for none.
    pub nguid: [u8; 16],
    /// EUI64: the IEEE extended unique identifier, most significant byte first; zero for none.
    pub eui64: [u8; 8],
    /// LBAF0 to LBAF63: see [`lba_formats`](Self::lba_formats).
    pub lbaf: [LbaFormat; 64],
    /// What the vendor puts there.
    pub vendor: [u8; 3712],
}

const_assert_eq!(size_of::<Namespace>(), 4096);

macro_rules! offsets {
    ($($field:ident = $offset:literal),* $(,)?) => {
        $(const_assert_eq!(core::mem::offset_of!(Namespace, $field), $offset);)*
    };
}

offsets! {
    nsze = 0, ncap = 8, nuse = 16, nsfeat = 24, nlbaf_z = 25, flbas = 26, mc = 27, dpc = 28, dps = 29, nmic = 30,
    rescap = 31, fpi = 32, dlfeat = 33, nawun_z = 34, nawupf_z = 36, nacwu_z = 38, nabsn_z = 40, nabo = 42,
    nabspf_z = 44, noiob = 46, nvmcap = 48, npwg_z = 64, npwa_z = 66, npdg_z = 68, npda_z = 70, nows_z = 72,
    mssrl = 74, mcl = 76, msrc_z = 80, anagrpid = 92, nsattr = 99, nguid = 104, eui64 = 120, lbaf = 128, vendor = 384,
}

impl Namespace {
    /// The index of the LBA format in use, 0 to 63: bits 3:0 of FLBAS, then bits 6:5.
    #[must_use]
    pub const fn lba_format_index(&self) -> u8 {
        self.flbas & 0xf | (self.flbas >> 5 & 0b11) << 4
    }

    /// The LBA formats that there are: 1 to 64.
    #[must_use]
    pub fn lba_formats(&self) -> &[LbaFormat] {
        let count = usize::from(self.nlbaf_z) + 1 + usize::from(self.nulbaf);
        &self.lbaf[..count.min(self.lbaf.len())]
    }

    /// The LBA format in use. `None` when FLBAS names one that the namespace does not have.
    #[must_use]
    pub fn lba_format(&self) -> Option<LbaFormat> {
        self.lba_formats().get(usize::from(self.lba_format_index())).copied()
    }

    /// The size of a block in bytes, without metadata. `None` when the format is not there or out of range.
    #[must_use]
    pub fn lba_bytes(&self) -> Option<u32> {
        self.lba_format()?.lba_bytes()
    }

    /// The size of a block in a data buffer, in bytes: with its metadata when that is interleaved.
    #[must_use]
    pub fn wire_block_bytes(&self) -> Option<u32> {
        let format = self.lba_format()?;
        let interleaved = if self.extended_lba() { u32::from(format.ms.get()) } else { 0 };
        Some(format.lba_bytes()? + interleaved)
    }

    /// Whether each block has metadata.
    #[must_use]
    pub fn has_metadata(&self) -> bool {
        self.lba_format().is_some_and(LbaFormat::has_metadata)
    }

    /// Whether metadata travels in one buffer with the data, behind each block (FLBAS bit 4, with metadata).
    #[must_use]
    pub fn extended_lba(&self) -> bool {
        self.flbas & 1 << 4 != 0 && self.has_metadata()
    }

    /// DPS bits 2:0: the type of the end-to-end protection, 0 for none, 1 to 3.
    #[must_use]
    pub const fn protection_type(&self) -> u8 {
        self.dps & 0b111
    }

    /// DPS bit 3: protection information stands first in the metadata, not last.
    #[must_use]
    pub const fn protection_is_first(&self) -> bool {
        self.dps & 1 << 3 != 0
    }

    /// NSFEAT: what fields count.
    #[must_use]
    pub const fn nsfeat(&self) -> Nsfeat {
        Nsfeat::from_bits_retain(self.nsfeat)
    }

    /// Whether the namespace is write protected.
    #[must_use]
    pub const fn is_write_protected(&self) -> bool {
        self.nsattr & 1 != 0
    }

    /// The size in blocks of a write that is atomic across a power failure, where this namespace tells one of its
    /// own (NSFEAT bit 1).
    #[must_use]
    pub fn atomic_power_fail_blocks(&self) -> Option<u32> {
        self.nsfeat().contains(Nsfeat::ATOMICS).then(|| u32::from(self.nawupf_z.get()) + 1)
    }

    /// The preferred granularity of writes in blocks, where NSFEAT (OPTPERF) says that it is told.
    #[must_use]
    pub fn preferred_write_blocks(&self) -> Option<u32> {
        self.nsfeat().intersects(Nsfeat::OPTPERF).then(|| u32::from(self.npwg_z.get()) + 1)
    }
}

bitflags::bitflags! {
    /// NSFEAT: which features a namespace has and which of its fields count.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Nsfeat: u8 {
        /// THINP: NCAP may be less than NSZE.
        const THIN_PROVISIONING = 1 << 0;
        /// NSABP: NAWUN, NAWUPF and NACWU count, not the controller's fields.
        const ATOMICS = 1 << 1;
        /// DAE: the error "deallocated or unwritten logical block" is supported.
        const DEALLOCATED_ERROR = 1 << 2;
        /// UIDREUSE: NGUID and EUI64 are never used again.
        const UID_REUSE = 1 << 3;
        /// OPTPERF, bit 4 and since 2.1 also bit 5: any of them set, NPWG, NPWA and NOWS count.
        const OPTPERF = 0b11 << 4;
    }
}

/// An LBA format, 4 bytes (figure "LBA Format Data Structure").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LbaFormat {
    /// MS: the metadata of a block in bytes.
    pub ms: U16,
    /// LBADS: the binary logarithm of the block size; below 9 the format is not available.
    pub lbads: u8,
    /// RP: bits 1:0, the relative performance, 0 for the best.
    pub rp: u8,
}

const_assert_eq!(size_of::<LbaFormat>(), 4);
const_assert_eq!(core::mem::offset_of!(LbaFormat, lbads), 2);

impl LbaFormat {
    /// The size of a block in bytes. `None` unless LBADS is 9 to 31.
    #[must_use]
    pub const fn lba_bytes(self) -> Option<u32> {
        match self.lbads {
            9..=31 => Some(1 << self.lbads),
            _ => None,
        }
    }

    /// Whether each block has metadata.
    #[must_use]
    pub fn has_metadata(self) -> bool {
        self.ms.get() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn namespace(flbas: u8, nlbaf_z: u8, format: usize, lbads: u8, ms: u16) -> Namespace {
        let mut namespace = Namespace::new_zeroed();
        namespace.flbas = flbas;
        namespace.nlbaf_z = nlbaf_z;
        namespace.lbaf[format] = LbaFormat { ms: ms.into(), lbads, rp: 0 };
        namespace
    }

    /// Drivers that mask FLBAS with Fh take format 0 for format 16, 32 or 48.
    #[test]
    fn bits_6_and_5_of_flbas_count() {
        let cases = [(0x00, 0), (0x0f, 15), (0x20, 16), (0x40, 32), (0x6f, 63), (0x30, 16), (0x80, 0)];
        for (flbas, index) in cases {
            let namespace = namespace(flbas, 63, index, 12, 0);
            assert_eq!(usize::from(namespace.lba_format_index()), index);
            assert_eq!(namespace.lba_bytes(), Some(4096), "{flbas:#x}");
        }
    }

    #[test]
    fn blocks_by_table() {
        let cases = [
            // FLBAS, LBADS, MS: block, block on the wire, extended.
            (0x00, 9, 0, Some(512), Some(512), false),
            (0x10, 9, 0, Some(512), Some(512), false),
            (0x10, 9, 8, Some(512), Some(520), true),
            (0x00, 9, 8, Some(512), Some(512), false),
            (0x10, 12, 64, Some(4096), Some(4160), true),
            (0x10, 31, 0xffff, Some(1 << 31), Some((1 << 31) + 0xffff), true),
            (0x00, 8, 0, None, None, false),
            (0x00, 0, 0, None, None, false),
            (0x00, 32, 0, None, None, false),
            (0x00, 255, 0, None, None, false),
        ];
        for (flbas, lbads, ms, block, wire, extended) in cases {
            let namespace = namespace(flbas, 0, 0, lbads, ms);
            assert_eq!(namespace.lba_bytes(), block);
            assert_eq!(namespace.wire_block_bytes(), wire);
            assert_eq!((namespace.extended_lba(), namespace.has_metadata()), (extended, ms != 0));
        }
    }

    #[test]
    fn a_format_that_is_not_there_is_none() {
        assert_eq!(namespace(0x01, 0, 1, 9, 8).lba_format(), None);
        assert!(!namespace(0x01, 0, 1, 9, 8).has_metadata());
        assert_eq!(namespace(0x01, 255, 1, 9, 0).lba_formats().len(), 64);
    }

    #[test]
    fn optional_fields_count_only_where_nsfeat_says_so() {
        let mut namespace = namespace(0, 0, 0, 9, 0);
        (namespace.nawupf_z, namespace.npwg_z) = (7.into(), 15.into());
        assert_eq!((namespace.atomic_power_fail_blocks(), namespace.preferred_write_blocks()), (None, None));
        namespace.nsfeat = 0b10;
        assert_eq!(namespace.atomic_power_fail_blocks(), Some(8));
        for optperf in [0b1_0000, 0b10_0000, 0b11_0000] {
            namespace.nsfeat = optperf;
            assert_eq!(namespace.preferred_write_blocks(), Some(16));
        }
    }
}
