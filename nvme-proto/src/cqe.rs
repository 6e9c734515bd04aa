//! The completion queue entry (Base specification, figure "Common Completion Queue Entry Layout").

use crate::status::Status;
use crate::types::{Cid, Qid};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A completion queue entry, 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub struct Cqe {
    /// DW0, the command's result.
    pub dw0: U32,
    /// DW1, the upper half of the result of commands that have one.
    pub dw1: U32,
    /// SQHD: the submission queue's head when this entry was made.
    pub sqhd: U16,
    /// SQID: the submission queue that the command came from.
    pub sqid: U16,
    /// CID: the command that this completes.
    pub cid: U16,
    /// The phase tag in bit 0, the status above it.
    pub status: U16,
}

static_assertions::const_assert_eq!(size_of::<Cqe>(), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(Cqe, sqhd), 8);
static_assertions::const_assert_eq!(core::mem::offset_of!(Cqe, status), 14);

impl Cqe {
    /// The phase tag, which inverts at each pass over the queue and starts with 1.
    #[inline]
    #[must_use]
    pub fn phase(&self) -> bool {
        self.status.get() & 1 != 0
    }

    /// The status field, without the phase tag.
    #[inline]
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_field(self.status.get())
    }

    /// The command identifier.
    #[inline]
    #[must_use]
    pub fn cid(&self) -> Cid {
        Cid(self.cid.get())
    }

    /// The submission queue that the command came from.
    #[inline]
    #[must_use]
    pub fn sqid(&self) -> Qid {
        Qid(self.sqid.get())
    }

    /// The submission queue head pointer.
    #[inline]
    #[must_use]
    pub fn sqhd(&self) -> u16 {
        self.sqhd.get()
    }

    /// The command's 32-bit result.
    #[inline]
    #[must_use]
    pub fn result(&self) -> u32 {
        self.dw0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_figure_has_them() {
        let bytes: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x05, 0x02];
        let cqe = Cqe::read_from_bytes(&bytes).unwrap();
        assert_eq!(cqe.result(), 0x0403_0201);
        assert_eq!(cqe.sqhd(), 0x2010);
        assert_eq!(cqe.sqid(), Qid(0x4030));
        assert_eq!(cqe.cid(), Cid(0x6050));
        assert!(cqe.phase());
        assert_eq!(cqe.status(), Status::new(1, 0x02));
    }
}
