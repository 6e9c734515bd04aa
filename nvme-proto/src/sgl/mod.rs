//! Scatter gather lists: descriptors, and the controller's walk over them (Base specification, "Scatter Gather
//! List").

mod walk;

pub use walk::{Direction, Excess, Piece, Reason, Rules, Walk, WalkError, walk};

use crate::sqe::{DataPointer, Psdt, Sqe};
use crate::types::BusAddr;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An SGL descriptor, 16 bytes (figure "SGL Descriptor Format").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SglDescriptor {
    /// The address of the data or of the next segment. Reserved in a bit bucket.
    pub addr: U64,
    /// The length in bytes.
    pub len_bytes: U32,
    /// Reserved.
    pub reserved: [u8; 3],
    /// The SGL Identifier: the type in bits 7:4, the sub type in bits 3:0.
    pub identifier: u8,
}

static_assertions::const_assert_eq!(size_of::<SglDescriptor>(), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(SglDescriptor, identifier), 15);

open_enum! {
    /// The type of an SGL descriptor, bits 7:4 of its identifier (figure "SGL Descriptor Type").
    SglType(u8) {
        DATA_BLOCK = 0x0, "data block";
        BIT_BUCKET = 0x1, "bit bucket";
        SEGMENT = 0x2, "segment";
        LAST_SEGMENT = 0x3, "last segment";
        KEYED_DATA_BLOCK = 0x4, "keyed data block";
        TRANSPORT_DATA_BLOCK = 0x5, "transport data block";
        VENDOR = 0xf, "vendor specific";
    }
}

open_enum! {
    /// The sub type of an SGL descriptor, bits 3:0 of its identifier (figure "SGL Descriptor Sub Type").
    SglSubType(u8) {
        ADDRESS = 0x0, "address";
        OFFSET = 0x1, "offset";
        TRANSPORT = 0xa, "transport specific";
    }
}

impl SglDescriptor {
    /// A data block: `len_bytes` at `addr`, contiguous on the bus.
    #[inline]
    #[must_use]
    pub const fn data_block(addr: BusAddr, len_bytes: u32) -> Self {
        Self::new(SglType::DATA_BLOCK, addr, len_bytes)
    }

    /// A bit bucket: `len_bytes` of what a read returns are thrown away.
    #[must_use]
    pub const fn bit_bucket(len_bytes: u32) -> Self {
        Self::new(SglType::BIT_BUCKET, BusAddr(0), len_bytes)
    }

    /// A pointer to a segment of `descriptors` descriptors at `addr`, the last of which points on.
    ///
    /// Above 268 435 455 descriptors, the length in bytes does not fit its field and wraps.
    #[must_use]
    pub const fn segment(addr: BusAddr, descriptors: u32) -> Self {
        Self::new(SglType::SEGMENT, addr, descriptors.wrapping_mul(DESCRIPTOR_BYTES))
    }

    /// A pointer to the last segment, of `descriptors` descriptors at `addr`. The length is as for
    /// [`segment`](Self::segment).
    #[must_use]
    pub const fn last_segment(addr: BusAddr, descriptors: u32) -> Self {
        Self::new(SglType::LAST_SEGMENT, addr, descriptors.wrapping_mul(DESCRIPTOR_BYTES))
    }

    const fn new(kind: SglType, addr: BusAddr, len_bytes: u32) -> Self {
        Self {
            addr: U64::new(addr.0),
            len_bytes: U32::new(len_bytes),
            reserved: [0; 3],
            identifier: kind.0 << 4 | SglSubType::ADDRESS.0,
        }
    }

    /// The type.
    #[must_use]
    pub const fn kind(&self) -> SglType {
        SglType(self.identifier >> 4)
    }

    /// The sub type.
    #[must_use]
    pub const fn sub_type(&self) -> SglSubType {
        SglSubType(self.identifier & 0xf)
    }

    /// The address.
    #[must_use]
    pub fn addr(&self) -> BusAddr {
        BusAddr(self.addr.get())
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        self.len_bytes.get()
    }

    /// Whether this points to a segment, the last one or not.
    #[must_use]
    pub const fn is_segment(&self) -> bool {
        matches!(self.kind(), SglType::SEGMENT | SglType::LAST_SEGMENT)
    }
}

impl Sqe {
    /// SGL1, the descriptor in DPTR, when [`psdt`](Sqe::psdt) says SGL.
    #[must_use]
    pub fn sgl1(&self) -> SglDescriptor {
        let [addr, word] = self.dptr;
        let [l0, l1, l2, l3, r0, r1, r2, identifier] = word.get().to_le_bytes();
        let len_bytes = U32::from_bytes([l0, l1, l2, l3]);
        SglDescriptor { addr, len_bytes, reserved: [r0, r1, r2], identifier }
    }
}

impl DataPointer {
    /// The descriptor `sgl1` in place, with MPTR holding the address of a metadata buffer if there is one.
    #[inline]
    #[must_use]
    pub fn sgl(sgl1: SglDescriptor) -> Self {
        let word = u64::from(sgl1.len_bytes.get()) | u64::from(sgl1.identifier) << 56;
        Self::raw([sgl1.addr.get(), word], Psdt::SglBufferMetadata)
    }
}

/// The size of a descriptor in bytes.
pub const DESCRIPTOR_BYTES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Nsid;

    #[test]
    fn descriptors_by_the_figure() {
        let cases = [
            (SglDescriptor::data_block(BusAddr(0x1122), 0x0102_0304), SglType::DATA_BLOCK, 0x00),
            (SglDescriptor::bit_bucket(512), SglType::BIT_BUCKET, 0x10),
            (SglDescriptor::segment(BusAddr(0x40), 4), SglType::SEGMENT, 0x20),
            (SglDescriptor::last_segment(BusAddr(0x40), 4), SglType::LAST_SEGMENT, 0x30),
        ];
        for (descriptor, kind, identifier) in cases {
            assert_eq!(descriptor.as_bytes()[15], identifier);
            assert_eq!((descriptor.kind(), descriptor.sub_type()), (kind, SglSubType::ADDRESS));
        }
        assert_eq!(cases[0].0.as_bytes()[..12], [0x22, 0x11, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!(cases[2].0.len_bytes(), 64);
    }

    #[test]
    fn a_descriptor_travels_in_the_data_pointer() {
        let segment = SglDescriptor::last_segment(BusAddr(0x1000), 3);
        let sqe = Sqe::new(2, Nsid(1)).with_data_pointer(DataPointer::sgl(segment));
        assert_eq!(sqe.sgl1(), segment);
        assert_eq!(sqe.psdt(), Some(Psdt::SglBufferMetadata));
        let block = SglDescriptor::data_block(BusAddr(64), 512);
        assert_eq!(DataPointer::sgl(block), DataPointer::sgl_data_block(BusAddr(64), 512));
    }
}
