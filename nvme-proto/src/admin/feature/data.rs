//! The features whose value travels in a data buffer.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The data of feature 0Eh, timestamp, 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timestamp {
    /// The lower 32 bits of the time in ms since 1970-01-01 UTC.
    pub lower: U32,
    /// The upper 16 bits of the time.
    pub upper: U16,
    /// Bit 0: the clock stopped at times (SYNCH). Bits 3:1: where it came from, 0 for a reset, 1 for Set Features.
    pub attributes: u8,
    /// Reserved.
    pub reserved: u8,
}

static_assertions::const_assert_eq!(size_of::<Timestamp>(), 8);
static_assertions::const_assert_eq!(core::mem::offset_of!(Timestamp, upper), 4);

impl Timestamp {
    /// The time `ms` after 1970-01-01 UTC, modulo 2^48 ms (8919 years).
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self { lower: U32::new(ms as u32), upper: U16::new((ms >> 32) as u16), attributes: 0, reserved: 0 }
    }

    /// The time in ms since 1970-01-01 UTC.
    #[must_use]
    pub fn ms(&self) -> u64 {
        u64::from(self.upper.get()) << 32 | u64::from(self.lower.get())
    }
}

/// The data of feature 16h, host behavior support, 512 bytes: what the host understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HostBehaviorSupport {
    /// ACRE: 1 if the host honours the retry delay that CRD names; CRD stays 0 otherwise.
    pub acre: u8,
    /// ETDAS: 1 if it knows the extended telemetry data area 4.
    pub etdas: u8,
    /// LBAFEE: 1 if it knows the LBA format extension: more than 16 formats, bits 6:5 of FLBAS.
    pub lbafee: u8,
    /// HDISNS: 1 if it knows dispersed namespaces.
    pub hdisns: u8,
    /// CDFE: bit `n` if it knows copy descriptor format `n`, for 2 to 4.
    pub cdfe: U16,
    /// Reserved.
    pub reserved: [u8; 506],
}

static_assertions::const_assert_eq!(size_of::<HostBehaviorSupport>(), 512);
static_assertions::const_assert_eq!(core::mem::offset_of!(HostBehaviorSupport, cdfe), 4);

/// The data of feature 0Ch, 256 bytes: for each power state, where to go from it after idling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ApstTable {
    /// The entries, by power state.
    pub entries: [U64; 32],
}

static_assertions::const_assert_eq!(size_of::<ApstTable>(), 256);

impl ApstTable {
    /// The entry of power state `state`. `None` above 31.
    #[must_use]
    pub fn entry(&self, state: usize) -> Option<ApstEntry> {
        self.entries.get(state).map(|entry| ApstEntry::from_bits(entry.get()))
    }
}

/// An entry of an [`ApstTable`].
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct ApstEntry {
    #[bits(3)]
    __: u8,
    /// ITPS: the power state to go to.
    #[bits(5)]
    pub itps: u8,
    /// ITPT: after how much idle time, in ms; 0 for never.
    #[bits(24)]
    pub itpt_ms: u32,
    __: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_has_48_bits() {
        let stamp = Timestamp::from_ms(0x1234_5678_9abc);
        assert_eq!(stamp.as_bytes(), [0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0]);
        assert_eq!(stamp.ms(), 0x1234_5678_9abc);
    }

    #[test]
    fn power_state_entries_by_the_figure() {
        let mut bytes = [0; 256];
        bytes[24..32].copy_from_slice(&(100_u64 << 8 | 4 << 3).to_le_bytes());
        let table = ApstTable::read_from_bytes(&bytes).unwrap();
        let entry = table.entry(3).unwrap();
        assert_eq!((entry.itps(), entry.itpt_ms()), (4, 100));
        assert_eq!(table.entry(32), None);
    }

    #[test]
    fn host_behavior_by_the_figure() {
        let mut bytes = [0; 512];
        bytes[..6].copy_from_slice(&[1, 0, 1, 0, 4, 0]);
        let behavior = HostBehaviorSupport::read_from_bytes(&bytes).unwrap();
        assert_eq!((behavior.acre, behavior.lbafee, behavior.cdfe.get()), (1, 1, 1 << 2));
    }
}
