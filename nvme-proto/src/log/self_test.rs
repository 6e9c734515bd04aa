//! The device self-test log, LID 06h.

use crate::admin::SelfTestCode;
use static_assertions::const_assert_eq;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The self-test log, 564 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SelfTest {
    /// The test that runs in bits 3:0, 0 for none.
    pub current: u8,
    /// How far it has come, in bits 6:0, in percent.
    pub completion: u8,
    /// Reserved.
    pub reserved2: [u8; 2],
    /// The last 20 tests, the newest first.
    pub results: [SelfTestResult; 20],
}

const_assert_eq!(size_of::<SelfTest>(), 564);
const_assert_eq!(core::mem::offset_of!(SelfTest, results), 4);

impl SelfTest {
    /// The test that runs and how far it has come, in percent. `None` when none runs.
    #[must_use]
    pub const fn running(&self) -> Option<(SelfTestCode, u8)> {
        match self.current & 0xf {
            0 => None,
            code => Some((SelfTestCode(code), self.completion & 0x7f)),
        }
    }

    /// The tests that ended, the newest first.
    pub fn results(&self) -> impl Iterator<Item = &SelfTestResult> {
        self.results.iter().filter(|result| result.outcome() != SelfTestOutcome::UNUSED)
    }
}

/// How a self-test ended, 28 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SelfTestResult {
    /// The outcome in bits 3:0, the test in bits 7:4.
    pub status: u8,
    /// The segment that failed first.
    pub segment: u8,
    /// Which of the following count: NSID in bit 0, LBA in bit 1, SCT in bit 2, SC in bit 3.
    pub valid: u8,
    /// Reserved.
    pub reserved3: u8,
    /// POH: how long power had been on, in hours.
    pub power_on_hours: U64,
    /// NSID of the failure.
    pub nsid: U32,
    /// The first block that failed.
    pub lba: U64,
    /// SCT of the failure, in bits 2:0.
    pub sct: u8,
    /// SC of the failure.
    pub sc: u8,
    /// What the vendor puts there.
    pub vendor: U16,
}

const_assert_eq!(size_of::<SelfTestResult>(), 28);
const_assert_eq!(core::mem::offset_of!(SelfTestResult, lba), 16);

impl SelfTestResult {
    /// How the test ended.
    #[must_use]
    pub const fn outcome(&self) -> SelfTestOutcome {
        SelfTestOutcome(self.status & 0xf)
    }

    /// Which test it was.
    #[must_use]
    pub const fn code(&self) -> SelfTestCode {
        SelfTestCode(self.status >> 4)
    }
}

open_enum! {
    /// How a self-test ended.
    SelfTestOutcome(u8) {
        PASSED = 0x0, "passed";
        ABORTED_BY_COMMAND = 0x1, "aborted by a self-test command";
        ABORTED_BY_RESET = 0x2, "aborted by a controller level reset";
        ABORTED_BY_NAMESPACE_REMOVAL = 0x3, "aborted because a namespace was removed";
        ABORTED_BY_FORMAT = 0x4, "aborted by a format";
        FATAL_ERROR = 0x5, "fatal or unknown error";
        FAILED_SEGMENT_UNKNOWN = 0x6, "failed in an unknown segment";
        FAILED_SEGMENT = 0x7, "failed in a segment";
        ABORTED_UNKNOWN = 0x8, "aborted for an unknown reason";
        ABORTED_BY_SANITIZE = 0x9, "aborted by a sanitize";
        UNUSED = 0xf, "entry not used";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_tests_by_the_figure() {
        let mut bytes = [0; 564];
        bytes[..2].copy_from_slice(&[0xf2, 0x80 | 42]);
        bytes.chunks_mut(28).for_each(|chunk| {
            if let Some(status) = chunk.get_mut(4) {
                *status = 0xf;
            }
        });
        bytes[4] = 0x17;
        let log = SelfTest::read_from_bytes(&bytes).unwrap();
        assert_eq!(log.running(), Some((SelfTestCode::EXTENDED, 42)));
        assert_eq!(SelfTest { current: 0, ..log }.running(), None);
        let mut results = log.results();
        let first = results.next().unwrap();
        assert_eq!((first.outcome(), first.code()), (SelfTestOutcome::FAILED_SEGMENT, SelfTestCode::SHORT));
        assert!(results.next().is_none());
    }
}
