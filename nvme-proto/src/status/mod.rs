//! The status of a completion (Base specification, "Status Field Definition").

mod codes;

pub use codes::{command, generic, media, path};

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

impl Status {
    /// This status with CRD, the retry delay index (0 to 3; higher bits are dropped).
    #[must_use]
    pub const fn with_crd(self, crd: u8) -> Self {
        Self(self.0 & !(0b11 << 11) | (crd as u16 & 0b11) << 11)
    }

    /// SCT as an open enum, which can be printed.
    #[must_use]
    pub const fn code_type(self) -> StatusCodeType {
        StatusCodeType(self.sct())
    }

    /// The words for type and code. `None` for a status that this crate does not know.
    #[must_use]
    pub const fn text(self) -> Option<&'static str> {
        match self.code_type() {
            StatusCodeType::GENERIC => generic::text(self.sc()),
            StatusCodeType::COMMAND => command::text(self.sc()),
            StatusCodeType::MEDIA => media::text(self.sc()),
            StatusCodeType::PATH => path::text(self.sc()),
            _ => None,
        }
    }
}

open_enum! {
    /// SCT, the status code type (figure "Status Code – Status Code Type Values").
    StatusCodeType(u8) {
        GENERIC = 0, "generic command status";
        COMMAND = 1, "command specific status";
        MEDIA = 2, "media and data integrity error";
        PATH = 3, "path related status";
        VENDOR = 7, "vendor specific status";
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({:x}h/{:02x}h)", self.sct(), self.sc())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(text)?,
            None => write!(f, "{}", self.code_type())?,
        }
        write!(f, " ({:x}h/{:02x}h)", self.sct(), self.sc())?;
        if self.do_not_retry() { f.write_str(", do not retry") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_words_name_type_code_and_dnr() {
        let cases = [
            (Status::SUCCESS, "success (0h/00h)"),
            (generic::INVALID_FIELD, "invalid field in command (0h/02h)"),
            (generic::INVALID_FIELD.with_do_not_retry(), "invalid field in command (0h/02h), do not retry"),
            (command::CQ_INVALID, "completion queue invalid (1h/00h)"),
            (Status::new(7, 0x42), "vendor specific status (7h/42h)"),
            (Status::new(5, 1), "unknown (5h) (5h/01h)"),
        ];
        for (status, text) in cases {
            assert_eq!(status.to_string(), text);
        }
    }

    /// uPCIe masks with 1FEh and unvme with FEh: both take "completion queue invalid" (1h/00h) for success.
    #[test]
    fn a_status_is_more_than_its_code() {
        for status in [command::CQ_INVALID, path::INTERNAL_PATH_ERROR] {
            assert_eq!(status.sc(), 0);
            assert!(!status.is_success(), "{status}");
        }
    }

    #[test]
    fn the_field_round_trips_with_every_bit() {
        for bits in 0..0x8000_u16 {
            let status = Status::from_field(bits << 1 | 1);
            assert_eq!(status.to_field(true), bits << 1 | 1);
            assert_eq!(status.to_field(false), bits << 1);
            let rebuilt = Status::new(status.sct(), status.sc()).with_crd(status.crd());
            assert!(rebuilt.is(status));
            assert_eq!(rebuilt.crd(), status.crd());
        }
    }

    #[test]
    fn success_ignores_the_flag_bits() {
        let status = Status::SUCCESS.with_more().with_do_not_retry().with_crd(3);
        assert!(status.is_success() && status.more() && status.do_not_retry());
        assert_eq!(status.crd(), 3);
    }

    #[test]
    fn every_named_status_has_its_own_number_and_words() {
        let all = [generic::NAMED, command::NAMED, media::NAMED, path::NAMED].concat();
        for (i, status) in all.iter().enumerate() {
            assert!(status.text().is_some());
            assert!(!all[..i].contains(status), "{status} twice");
        }
    }
}
