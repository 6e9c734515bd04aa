//! The status of a completion (Base specification, "Status Field Definition").

use core::fmt;

/// A status: status code type (SCT), status code (SC), retry delay (CRD), More and Do Not Retry.
///
/// The value is that of the status field shifted right by one, so without the phase tag: SC in bits 7:0, SCT in
/// 10:8, CRD in 12:11, M in 13, DNR in 14. All zeroes is success.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Status(u16);

impl Status {
    /// Generic command status 00h.
    pub const SUCCESS: Self = Self(0);

    /// The status of type `sct` (0 to 7) with code `sc`, no retry delay, M and DNR clear.
    #[must_use]
    pub const fn new(sct: u8, sc: u8) -> Self {
        Self(((sct as u16) & 0b111) << 8 | sc as u16)
    }

    /// The status in the upper 15 bits of a completion's status field.
    #[inline]
    #[must_use]
    pub const fn from_field(field: u16) -> Self {
        Self(field >> 1)
    }

    /// The status field for a completion, with the phase tag in bit 0.
    #[inline]
    #[must_use]
    pub const fn to_field(self, phase: bool) -> u16 {
        self.0 << 1 | phase as u16
    }

    /// SCT, the status code type.
    #[must_use]
    pub const fn sct(self) -> u8 {
        (self.0 >> 8) as u8 & 0b111
    }

    /// SC, the status code.
    #[must_use]
    pub const fn sc(self) -> u8 {
        self.0 as u8
    }

    /// CRD, the index of the command retry delay: 0 for none, 1 to 3 for CRDT1 to CRDT3.
    #[must_use]
    pub const fn crd(self) -> u8 {
        (self.0 >> 11) as u8 & 0b11
    }

    /// M: the error log holds more about this.
    #[must_use]
    pub const fn more(self) -> bool {
        self.0 & 1 << 13 != 0
    }

    /// DNR: the same command would fail again.
    #[must_use]
    pub const fn do_not_retry(self) -> bool {
        self.0 & 1 << 14 != 0
    }

    /// This status with DNR set.
    #[must_use]
    pub const fn with_do_not_retry(self) -> Self {
        Self(self.0 | 1 << 14)
    }

    /// This status with M set.
    #[must_use]
    pub const fn with_more(self) -> Self {
        Self(self.0 | 1 << 13)
    }

    /// Whether type and code are those of `other`, whatever CRD, M and DNR say.
    #[must_use]
    pub const fn is(self, other: Self) -> bool {
        (self.0 ^ other.0) & 0x7ff == 0
    }

    /// Whether the command succeeded.
    #[inline]
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 & 0x7ff == 0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({:x}h/{:02x}h)", self.sct(), self.sc())
    }
}
