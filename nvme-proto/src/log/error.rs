//! The error information log, LID 01h.

use crate::status::Status;
use crate::types::{Cid, Lba, Nsid, Qid};
use static_assertions::const_assert_eq;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An entry of the error log, 64 bytes. The log has `Controller::error_log_entries` of them, the newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ErrorEntry {
    /// The number of this error since the device was made, from 1; 0 for an entry that is not used.
    pub count: U64,
    /// SQID of the command, FFFFh for none in particular.
    pub sqid: U16,
    /// CID of the command, FFFFh for none in particular.
    pub cid: U16,
    /// The status field of the completion, phase tag included.
    pub status: U16,
    /// Where in the command the error is: the byte in bits 7:0, the bit in 10:8; FFFFh for nowhere in particular.
    pub parameter: U16,
    /// The first block with the error.
    pub lba: U64,
    /// NSID of the command.
    pub nsid: U32,
    /// A log page with vendor information, 0 for none.
    pub vendor_log: u8,
    /// TRTYPE: the transport, 0 for not reported.
    pub trtype: u8,
    /// CSI: the command set of the command.
    pub csi: u8,
    /// The opcode of the command.
    pub opcode: u8,
    /// What belongs to the command.
    pub command_info: U64,
    /// What belongs to the transport.
    pub transport_info: U16,
    /// Reserved.
    pub reserved42: [u8; 21],
    /// The version of the entry; 1 if CSI and opcode count.
    pub version: u8,
}

const_assert_eq!(size_of::<ErrorEntry>(), 64);
const_assert_eq!(core::mem::offset_of!(ErrorEntry, lba), 16);
const_assert_eq!(core::mem::offset_of!(ErrorEntry, nsid), 24);

impl ErrorEntry {
    /// Whether this tells of an error at all.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.count.get() != 0
    }

    /// The queue of the command. `None` for no command in particular.
    #[must_use]
    pub fn sqid(&self) -> Option<Qid> {
        Some(Qid(self.sqid.get())).filter(|sqid| sqid.0 != u16::MAX)
    }

    /// The command. `None` for none in particular.
    #[must_use]
    pub fn cid(&self) -> Option<Cid> {
        Some(Cid(self.cid.get())).filter(|cid| *cid != Cid::NONE)
    }

    /// The status that the command completed with.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_field(self.status.get())
    }

    /// The first block with the error.
    #[must_use]
    pub fn lba(&self) -> Lba {
        Lba(self.lba.get())
    }

    /// The namespace.
    #[must_use]
    pub fn nsid(&self) -> Nsid {
        Nsid(self.nsid.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::media;

    #[test]
    fn fields_stand_where_the_figure_has_them() {
        let mut bytes = [0; 64];
        bytes[0] = 9;
        bytes[8..14].copy_from_slice(&[3, 0, 0x34, 0x12, 0x02, 0x05]);
        bytes[16] = 0x80;
        bytes[24] = 1;
        let entry = ErrorEntry::read_from_bytes(&bytes).unwrap();
        assert_eq!((entry.sqid(), entry.cid()), (Some(Qid(3)), Some(Cid(0x1234))));
        assert_eq!(
            (entry.status(), entry.lba(), entry.nsid()),
            (media::UNRECOVERED_READ_ERROR, Lba(0x80), Nsid(1))
        );
        assert!(entry.is_used() && !ErrorEntry::default().is_used());
        let none = ErrorEntry { sqid: u16::MAX.into(), cid: u16::MAX.into(), ..entry };
        assert_eq!((none.sqid(), none.cid()), (None, None));
    }
}
