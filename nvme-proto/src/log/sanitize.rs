//! The sanitize status log, LID 81h.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sanitize status, 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SanitizeStatus {
    /// SPROG: how far it has come, in 65 536ths. FFFFh when none runs.
    pub sprog: U16,
    /// SSTAT: see [`state`](Self::state).
    pub sstat: U16,
    /// SCDW10: CDW10 of the Sanitize that this is about.
    pub scdw10: U32,
    /// The time of an overwrite, in seconds; FFFFFFFFh for not reported.
    pub overwrite_s: U32,
    /// The time of a block erase, in seconds.
    pub block_erase_s: U32,
    /// The time of a crypto erase, in seconds.
    pub crypto_erase_s: U32,
    /// The time of an overwrite without deallocation, in seconds.
    pub overwrite_no_deallocate_s: U32,
    /// The time of a block erase without deallocation, in seconds.
    pub block_erase_no_deallocate_s: U32,
    /// The time of a crypto erase without deallocation, in seconds.
    pub crypto_erase_no_deallocate_s: U32,
    /// Reserved.
    pub reserved32: [u8; 480],
}

static_assertions::const_assert_eq!(size_of::<SanitizeStatus>(), 512);
static_assertions::const_assert_eq!(core::mem::offset_of!(SanitizeStatus, scdw10), 4);
static_assertions::const_assert_eq!(core::mem::offset_of!(SanitizeStatus, overwrite_s), 8);

impl SanitizeStatus {
    /// What became of the last sanitize (SSTAT bits 2:0).
    #[must_use]
    pub fn state(&self) -> SanitizeState {
        SanitizeState(self.sstat.get() as u8 & 0b111)
    }

    /// The number of overwrite passes that are done (SSTAT bits 7:3).
    #[must_use]
    pub fn passes(&self) -> u8 {
        (self.sstat.get() >> 3) as u8 & 0x1f
    }

    /// Whether nothing was written since the device was made or last sanitized (SSTAT bit 8).
    #[must_use]
    pub fn is_globally_erased(&self) -> bool {
        self.sstat.get() & 1 << 8 != 0
    }
}

open_enum! {
    /// What became of the last sanitize.
    SanitizeState(u8) {
        NEVER = 0, "never sanitized";
        COMPLETED = 1, "completed";
        IN_PROGRESS = 2, "in progress";
        FAILED = 3, "failed";
        COMPLETED_WITH_DEALLOCATION = 4, "completed, with unexpected deallocation";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitize_status_by_the_figure() {
        let mut bytes = [0; 512];
        bytes[..4].copy_from_slice(&[0x00, 0x80, 0b0001_1010, 1]);
        let log = SanitizeStatus::read_from_bytes(&bytes).unwrap();
        assert_eq!((log.sprog.get(), log.state(), log.passes()), (0x8000, SanitizeState::IN_PROGRESS, 3));
        assert!(log.is_globally_erased());
    }
}
