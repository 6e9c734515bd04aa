//! Power states.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A power state descriptor, 32 bytes (figure "Power State Descriptor Data Structure").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PowerState {
    /// MP: the highest power, in the unit that MXPS says.
    pub mp: U16,
    /// Reserved.
    pub reserved2: u8,
    /// MXPS in bit 0 (MP counts in 0.0001 W, not 0.01 W), NOPS in bit 1 (no I/O in this state).
    pub flags: u8,
    /// ENLAT: the longest time to enter the state, in µs.
    pub enlat_us: U32,
    /// EXLAT: the longest time to leave the state, in µs.
    pub exlat_us: U32,
    /// RRT: the rank in read throughput, 0 for the best.
    pub rrt: u8,
    /// RRL: the rank in read latency.
    pub rrl: u8,
    /// RWT: the rank in write throughput.
    pub rwt: u8,
    /// RWL: the rank in write latency.
    pub rwl: u8,
    /// IDLP: the power when idle, in the unit that IPS says.
    pub idlp: U16,
    /// IPS in bits 7:6.
    pub ips: u8,
    /// Reserved.
    pub reserved19: u8,
    /// ACTP: the power when active, in the unit that APS says.
    pub actp: U16,
    /// APW, the workload, in bits 2:0; APS in bits 7:6.
    pub apw_aps: u8,
    /// Reserved.
    pub reserved23: [u8; 9],
}

static_assertions::const_assert_eq!(size_of::<PowerState>(), 32);
static_assertions::const_assert_eq!(core::mem::offset_of!(PowerState, idlp), 16);

impl PowerState {
    /// The highest power in µW.
    #[must_use]
    pub fn max_power_uw(&self) -> u32 {
        let unit_uw = if self.flags & 1 == 0 { 10_000 } else { 100 };
        u32::from(self.mp.get()) * unit_uw
    }

    /// Whether no I/O is processed in this state.
    #[must_use]
    pub const fn is_non_operational(&self) -> bool {
        self.flags & 2 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_scaled() {
        let watts = |mp: u16, flags| PowerState { mp: mp.into(), flags, ..PowerState::default() };
        assert_eq!(watts(850, 0).max_power_uw(), 8_500_000);
        assert_eq!(watts(0xffff, 0).max_power_uw(), 655_350_000);
        assert_eq!(watts(50, 0b11).max_power_uw(), 5000);
        assert!(watts(50, 0b11).is_non_operational() && !watts(50, 1).is_non_operational());
    }
}
