//! The submission queue entry, common to all command sets (Base specification, figure "Common Command Format").

use crate::types::{BusAddr, Cid, Nsid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A submission queue entry: one command, 64 bytes.
///
/// The builders in [`admin`](crate::admin) and [`nvm`](crate::nvm) fill everything but the command identifier
/// and the data pointer, which belong to whoever owns the queue and the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Sqe {
    /// OPC, CDW0 bits 7:0.
    pub opcode: u8,
    /// FUSE in bits 1:0 and PSDT in bits 7:6 (CDW0 bits 15:8).
    pub flags: u8,
    /// CID, CDW0 bits 31:16.
    pub cid: U16,
    /// NSID.
    pub nsid: U32,
    /// CDW2.
    pub cdw2: U32,
    /// CDW3.
    pub cdw3: U32,
    /// MPTR, the metadata pointer.
    pub mptr: U64,
    /// DPTR: PRP1 and PRP2, or one SGL descriptor.
    pub dptr: [U64; 2],
    /// CDW10.
    pub cdw10: U32,
    /// CDW11.
    pub cdw11: U32,
    /// CDW12.
    pub cdw12: U32,
    /// CDW13.
    pub cdw13: U32,
    /// CDW14.
    pub cdw14: U32,
    /// CDW15.
    pub cdw15: U32,
}

static_assertions::const_assert_eq!(size_of::<Sqe>(), 64);
static_assertions::const_assert_eq!(core::mem::offset_of!(Sqe, mptr), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(Sqe, dptr), 24);
static_assertions::const_assert_eq!(core::mem::offset_of!(Sqe, cdw10), 40);

impl Sqe {
    /// A command with `opcode` for `nsid` and zeroes elsewhere.
    #[inline]
    #[must_use]
    pub fn new(opcode: u8, nsid: Nsid) -> Self {
        Self { opcode, nsid: U32::new(nsid.0), ..Self::default() }
    }

    /// The command identifier.
    #[inline]
    #[must_use]
    pub fn cid(&self) -> Cid {
        Cid(self.cid.get())
    }

    /// The namespace identifier.
    #[inline]
    #[must_use]
    pub fn nsid(&self) -> Nsid {
        Nsid(self.nsid.get())
    }

    /// This command under the identifier `cid`.
    #[inline]
    #[must_use]
    pub fn with_cid(mut self, cid: Cid) -> Self {
        self.cid = U16::new(cid.0);
        self
    }

    /// This command with its data where `pointer` says.
    #[inline]
    #[must_use]
    pub fn with_data_pointer(mut self, pointer: DataPointer) -> Self {
        self.flags = self.flags & !PSDT_MASK | pointer.flags;
        self.dptr = [U64::new(pointer.words[0]), U64::new(pointer.words[1])];
        self
    }

    /// This command with its metadata at `addr` (MPTR).
    #[inline]
    #[must_use]
    pub fn with_metadata_pointer(mut self, addr: BusAddr) -> Self {
        self.mptr = U64::new(addr.0);
        self
    }

    /// PSDT: how the data pointer is to be read. The reserved value 3 comes back as `None`.
    #[inline]
    #[must_use]
    pub fn psdt(&self) -> Option<Psdt> {
        match self.flags >> PSDT_SHIFT {
            0 => Some(Psdt::Prp),
            1 => Some(Psdt::SglBufferMetadata),
            2 => Some(Psdt::SglSegmentMetadata),
            _ => None,
        }
    }

    /// FUSE: 0 for an ordinary command, 1 and 2 for the first and second of a fused pair.
    #[inline]
    #[must_use]
    pub fn fuse(&self) -> u8 {
        self.flags & FUSE_MASK
    }

    /// PRP1, when [`psdt`](Self::psdt) says PRP.
    #[inline]
    #[must_use]
    pub fn prp1(&self) -> BusAddr {
        BusAddr(self.dptr[0].get())
    }

    /// PRP2, when [`psdt`](Self::psdt) says PRP.
    #[inline]
    #[must_use]
    pub fn prp2(&self) -> BusAddr {
        BusAddr(self.dptr[1].get())
    }

    /// CDW10 and CDW11 as one number: the starting LBA of the I/O commands.
    #[inline]
    #[must_use]
    pub fn cdw10_11(&self) -> u64 {
        u64::from(self.cdw10.get()) | u64::from(self.cdw11.get()) << 32
    }

    /// This command with `value` in CDW10 (its lower half) and CDW11.
    #[inline]
    #[must_use]
    pub fn with_cdw10_11(self, value: u64) -> Self {
        self.with_cdw10(value as u32).with_cdw11((value >> 32) as u32)
    }

    /// This command with `value` in CDW10.
    #[inline]
    #[must_use]
    pub fn with_cdw10(mut self, value: u32) -> Self {
        self.cdw10 = U32::new(value);
        self
    }

    /// This command with `value` in CDW11.
    #[inline]
    #[must_use]
    pub fn with_cdw11(mut self, value: u32) -> Self {
        self.cdw11 = U32::new(value);
        self
    }

    /// This command with `value` in CDW12.
    #[inline]
    #[must_use]
    pub fn with_cdw12(mut self, value: u32) -> Self {
        self.cdw12 = U32::new(value);
        self
    }

    /// This command with `value` in CDW13.
    #[inline]
    #[must_use]
    pub fn with_cdw13(mut self, value: u32) -> Self {
        self.cdw13 = U32::new(value);
        self
    }

    /// This command with `value` in CDW14.
    #[inline]
    #[must_use]
    pub fn with_cdw14(mut self, value: u32) -> Self {
        self.cdw14 = U32::new(value);
        self
    }

    /// This command with `value` in CDW15.
    #[inline]
    #[must_use]
    pub fn with_cdw15(mut self, value: u32) -> Self {
        self.cdw15 = U32::new(value);
        self
    }
}

/// PSDT, "PRP or SGL for Data Transfer" (CDW0 bits 15:14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Psdt {
    /// PRPs are used.
    #[default]
    Prp = 0,
    /// SGLs are used; MPTR holds the address of one contiguous metadata buffer.
    SglBufferMetadata = 1,
    /// SGLs are used; MPTR holds the address of an SGL segment.
    SglSegmentMetadata = 2,
}

/// What goes into DPTR, with the PSDT value that says how to read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataPointer {
    words: [u64; 2],
    /// PSDT where it stands in the command's second byte.
    flags: u8,
}

impl DataPointer {
    /// No data: both words zero.
    pub const NONE: Self = Self::raw([0, 0], Psdt::Prp);

    /// PRP1 and PRP2. Which values are right is told by [`prp`](crate::prp).
    #[inline]
    #[must_use]
    pub const fn prp(prp1: BusAddr, prp2: BusAddr) -> Self {
        Self::raw([prp1.0, prp2.0], Psdt::Prp)
    }

    /// One SGL data block descriptor in place: `len_bytes` at `addr`, contiguous on the bus.
    #[inline]
    #[must_use]
    pub const fn sgl_data_block(addr: BusAddr, len_bytes: u32) -> Self {
        // Type 0h and sub type 0h (address) make the identifier byte in the top of the second word zero.
        Self::raw([addr.0, len_bytes as u64], Psdt::SglBufferMetadata)
    }

    #[inline]
    pub(crate) const fn raw(words: [u64; 2], kind: Psdt) -> Self {
        Self { words, flags: (kind as u8) << PSDT_SHIFT }
    }

    /// PSDT where it stands in the command's second byte.
    #[inline]
    pub(crate) const fn flags(&self) -> u8 {
        self.flags
    }

    /// The two words of DPTR as they stand in the command.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> [u64; 2] {
        self.words
    }

    /// The PSDT value that goes with them.
    #[inline]
    #[must_use]
    pub const fn psdt(&self) -> Psdt {
        match self.flags >> PSDT_SHIFT {
            0 => Psdt::Prp,
            1 => Psdt::SglBufferMetadata,
            _ => Psdt::SglSegmentMetadata,
        }
    }
}

const FUSE_MASK: u8 = 0b11;
const PSDT_SHIFT: u32 = 6;
const PSDT_MASK: u8 = 0b11 << PSDT_SHIFT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_figure_has_them() {
        let sqe = Sqe::new(0x02, Nsid(0x0102_0304))
            .with_cid(Cid(0xbeef))
            .with_data_pointer(DataPointer::prp(BusAddr(0x1122_3344_5566_7788), BusAddr(0x99)));
        let bytes = sqe.as_bytes();
        assert_eq!(bytes[..8], [0x02, 0, 0xef, 0xbe, 4, 3, 2, 1]);
        assert_eq!(
            bytes[24..40],
            [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x99, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn a_data_pointer_sets_psdt_and_leaves_fuse_alone() {
        let mut sqe = Sqe::new(1, Nsid(1));
        sqe.flags = 0b1000_0001;
        let sqe = sqe.with_data_pointer(DataPointer::sgl_data_block(BusAddr(64), 512));
        assert_eq!(sqe.psdt(), Some(Psdt::SglBufferMetadata));
        assert_eq!(sqe.fuse(), 1);
        assert_eq!(sqe.as_bytes()[32..40], [0, 2, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_reserved_psdt_is_no_kind() {
        assert_eq!(Sqe { flags: 0xc0, ..Sqe::default() }.psdt(), None);
    }
}
