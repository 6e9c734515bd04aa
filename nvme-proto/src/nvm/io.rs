//! The commands on one range of blocks, and Flush.

use super::Opcode;
use crate::sqe::{DataPointer, Sqe};
use crate::types::{Count16, Lba, Nsid};
use bitfield_struct::bitfield;

/// Read, Write, Compare, Verify, Write Zeroes or Write Uncorrectable: they share one layout.
///
/// # Examples
///
/// ```
/// use nvme_proto::{Count16, Lba, Nsid, nvm};
///
/// let eight = Count16::new(8).unwrap();
/// let read = nvm::ReadWrite::read(Nsid(1), Lba(4096), eight);
/// let sqe = read.to_sqe();
/// assert_eq!(sqe.cdw12.get(), 7);
/// assert_eq!(nvm::ReadWrite::from_sqe(&sqe), read);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWrite {
    /// Which of the commands.
    pub opcode: Opcode,
    /// NSID, which cannot be a special value.
    pub nsid: Nsid,
    /// SLBA: the first block.
    pub slba: Lba,
    /// The number of blocks (NLB).
    pub blocks: Count16,
    /// The options in CDW12.
    pub flags: IoFlags,
    /// CDW13: DSM hints, and for writes DSPEC in bits 31:16.
    pub cdw13: u32,
    /// ILBRT or EILBRT: the initial reference tag.
    pub reference_tag: u32,
    /// LBAT or ELBAT: the application tag.
    pub application_tag: u16,
    /// LBATM or ELBATM: which bits of the application tag are checked.
    pub application_tag_mask: u16,
}

/// The options of a [`ReadWrite`]: bits 31:16 of CDW12.
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct IoFlags {
    #[bits(4)]
    __: u8,
    /// DTYPE: the directive type of a Write (CDW12 bits 23:20).
    #[bits(4)]
    pub dtype: u8,
    /// STC: the storage tag is checked (bit 24).
    pub stc: bool,
    /// DEAC: Write Zeroes may deallocate (bit 25).
    pub deac: bool,
    /// PRCHK: which parts of the protection information are checked: bit 0 reference, 1 application tag, 2 guard.
    #[bits(3)]
    pub prchk: u8,
    /// PRACT: the controller inserts or strips the protection information (bit 29).
    pub pract: bool,
    /// FUA: a Write is complete only on non-volatile media, and a Read comes from there (bit 30).
    pub fua: bool,
    /// LR: fail early rather than retry (bit 31).
    pub lr: bool,
}

impl ReadWrite {
    /// The command `opcode` on `blocks` blocks from `slba`, with no options.
    #[inline]
    #[must_use]
    pub const fn new(opcode: Opcode, nsid: Nsid, slba: Lba, blocks: Count16) -> Self {
        Self {
            opcode,
            nsid,
            slba,
            blocks,
            flags: IoFlags::new(),
            cdw13: 0,
            reference_tag: 0,
            application_tag: 0,
            application_tag_mask: 0,
        }
    }

    /// A Read.
    #[inline]
    #[must_use]
    pub const fn read(nsid: Nsid, slba: Lba, blocks: Count16) -> Self {
        Self::new(Opcode::READ, nsid, slba, blocks)
    }

    /// A Write.
    #[inline]
    #[must_use]
    pub const fn write(nsid: Nsid, slba: Lba, blocks: Count16) -> Self {
        Self::new(Opcode::WRITE, nsid, slba, blocks)
    }

    /// Whether `blocks` and `slba` lie within a namespace of `nsze` blocks.
    #[inline]
    #[must_use]
    pub const fn is_within(&self, nsze: u64) -> bool {
        match self.slba.0.checked_add(self.blocks.get() as u64) {
            Some(end) => end <= nsze,
            None => false,
        }
    }

    /// The command.
    #[inline]
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let tags = u32::from(self.application_tag_mask) << 16 | u32::from(self.application_tag);
        Sqe::new(self.opcode.0, self.nsid)
            .with_cdw10_11(self.slba.0)
            .with_cdw12(u32::from(self.flags.into_bits()) << 16 | self.blocks.z_in_word())
            .with_cdw13(self.cdw13)
            .with_cdw14(self.reference_tag)
            .with_cdw15(tags)
    }

    /// The command with its data where `pointer` says, as the eight words of its entry: for whoever keeps it in registers
    /// until it is stored. The fields of an [`Sqe`] are too small for that.
    #[inline]
    #[must_use]
    pub fn to_words(&self, pointer: DataPointer) -> [u64; 8] {
        let dwords = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)).to_le();
        let tags = u32::from(self.application_tag_mask) << 16 | u32::from(self.application_tag);
        let [first, second] = pointer.words();
        [
            dwords(u32::from(self.opcode.0) | u32::from(pointer.flags()) << 8, self.nsid.0),
            0,
            0,
            first.to_le(),
            second.to_le(),
            self.slba.0.to_le(),
            dwords(u32::from(self.flags.into_bits()) << 16 | self.blocks.z_in_word(), self.cdw13),
            dwords(self.reference_tag, tags),
        ]
    }

    /// The fields of `sqe`, its opcode included.
    #[inline]
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let (cdw12, cdw15) = (sqe.cdw12.get(), sqe.cdw15.get());
        Self {
            opcode: Opcode(sqe.opcode),
            nsid: sqe.nsid(),
            slba: Lba(sqe.cdw10_11()),
            blocks: Count16::from_z(cdw12 as u16),
            flags: IoFlags::from_bits((cdw12 >> 16) as u16),
            cdw13: sqe.cdw13.get(),
            reference_tag: sqe.cdw14.get(),
            application_tag: cdw15 as u16,
            application_tag_mask: (cdw15 >> 16) as u16,
        }
    }
}

/// Flush. With no volatile write cache it does nothing, successfully.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// NSID; [`Nsid::ALL`] only where [`identify::Vwc`](crate::identify::Vwc) allows it.
    pub nsid: Nsid,
}

impl Flush {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::FLUSH.0, self.nsid)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self { nsid: sqe.nsid() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::BusAddr;
    use zerocopy::IntoBytes;

    #[test]
    fn the_words_are_those_of_the_entry() {
        let pointers = [
            DataPointer::NONE,
            DataPointer::prp(BusAddr(0x1122_3344_5566_7788), BusAddr(0x99aa_bbcc_ddee_ff00)),
            DataPointer::sgl_data_block(BusAddr(0x1234_5678_9abc), 0x8765_4321),
        ];
        let mut command =
            ReadWrite::write(Nsid(0x0102_0304), Lba(0x0506_0708_090a_0b0c), Count16::from_z(0xabcd));
        command.flags = IoFlags::new().with_fua(true).with_dtype(5);
        (command.cdw13, command.reference_tag) = (0x1357_9bdf, 0x2468_ace0);
        (command.application_tag, command.application_tag_mask) = (0x1111, 0xfeed);
        for pointer in pointers {
            let sqe = command.to_sqe().with_data_pointer(pointer);
            assert_eq!(command.to_words(pointer).as_bytes(), sqe.as_bytes());
        }
    }

    #[test]
    fn reads_and_writes_by_the_figure() {
        let flags = [
            (IoFlags::new().with_dtype(0xf), 0x00f0_0000),
            (IoFlags::new().with_stc(true), 1 << 24),
            (IoFlags::new().with_deac(true), 1 << 25),
            (IoFlags::new().with_prchk(7), 7 << 26),
            (IoFlags::new().with_pract(true), 1 << 29),
            (IoFlags::new().with_fua(true), 1 << 30),
            (IoFlags::new().with_lr(true), 1_u32 << 31),
        ];
        let write = ReadWrite {
            cdw13: 5,
            reference_tag: 6,
            application_tag: 7,
            application_tag_mask: 8,
            ..ReadWrite::write(Nsid(9), Lba(0x1_0000_0002), Count16::MAX)
        };
        for (flags, bits) in flags {
            assert_eq!(ReadWrite { flags, ..write }.to_sqe().cdw12.get(), bits | 0xffff);
        }
        let sqe = write.to_sqe();
        assert_eq!((sqe.opcode, sqe.nsid().0, sqe.cdw10.get(), sqe.cdw11.get()), (1, 9, 2, 1));
        assert_eq!((sqe.cdw13.get(), sqe.cdw14.get(), sqe.cdw15.get()), (5, 6, 0x0008_0007));
    }

    #[test]
    fn the_end_of_a_range_cannot_wrap() {
        let at = |slba| ReadWrite::read(Nsid(1), Lba(slba), Count16::new(8).unwrap());
        assert!(at(92).is_within(100));
        assert!(!at(93).is_within(100));
        assert!(!at(u64::MAX).is_within(u64::MAX));
        assert!(at(u64::MAX - 8).is_within(u64::MAX));
    }
}
