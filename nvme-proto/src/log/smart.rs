//! The SMART / health information log, LID 02h.

use static_assertions::const_assert_eq;
use zerocopy::little_endian::{U16, U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// SMART / health information, 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Smart {
    /// See [`critical_warning`](Self::critical_warning).
    pub critical_warning: u8,
    /// CTEMP: the composite temperature in kelvins. See [`temperature_celsius`](Self::temperature_celsius).
    pub temperature_k: U16,
    /// AVSP: the spare that is left, in percent.
    pub available_spare: u8,
    /// AVSPT: the percentage of spare below which it warns.
    pub spare_threshold: u8,
    /// PUSED: how much of its life is used, in percent; 255 for that and more.
    pub percentage_used: u8,
    /// The critical warnings of the endurance groups.
    pub endurance_group_warning: u8,
    /// Reserved.
    pub reserved7: [u8; 25],
    /// DUR: data read by the host, in units of 512 000 bytes, rounded up.
    pub data_units_read: U128,
    /// DUW: data written by the host, in units of 512 000 bytes, rounded up.
    pub data_units_written: U128,
    /// HRC: the number of read commands.
    pub host_reads: U128,
    /// HWC: the number of write commands.
    pub host_writes: U128,
    /// CBT: how long the controller was busy with I/O, in minutes.
    pub busy_minutes: U128,
    /// PWRC: the number of power cycles.
    pub power_cycles: U128,
    /// POH: how long power was on, in hours.
    pub power_on_hours: U128,
    /// UPL: the number of power losses without a shutdown.
    pub unsafe_shutdowns: U128,
    /// MDIE: the number of media and data integrity errors.
    pub media_errors: U128,
    /// NEILE: the number of entries that the error log ever had.
    pub error_log_entries: U128,
    /// WCTT: how long it was warmer than WCTEMP, in minutes.
    pub warning_temperature_minutes: U32,
    /// CCTT: how long it was warmer than CCTEMP, in minutes.
    pub critical_temperature_minutes: U32,
    /// TSEN1 to TSEN8: the temperatures of the sensors in kelvins, 0 for none.
    pub sensors_k: [U16; 8],
    /// TMT1TC: how often it throttled lightly.
    pub light_throttles: U32,
    /// TMT2TC: how often it throttled heavily.
    pub heavy_throttles: U32,
    /// TTTMT1: how long it throttled lightly, in seconds.
    pub light_throttle_s: U32,
    /// TTTMT2: how long it throttled heavily, in seconds.
    pub heavy_throttle_s: U32,
    /// Reserved.
    pub reserved232: [u8; 280],
}

const_assert_eq!(size_of::<Smart>(), 512);
const_assert_eq!(core::mem::offset_of!(Smart, data_units_read), 32);
const_assert_eq!(core::mem::offset_of!(Smart, busy_minutes), 96);
const_assert_eq!(core::mem::offset_of!(Smart, media_errors), 160);
const_assert_eq!(core::mem::offset_of!(Smart, error_log_entries), 176);
const_assert_eq!(core::mem::offset_of!(Smart, warning_temperature_minutes), 192);
const_assert_eq!(core::mem::offset_of!(Smart, sensors_k), 200);

impl Smart {
    /// What is critical.
    #[must_use]
    pub const fn critical_warning(&self) -> CriticalWarning {
        CriticalWarning::from_bits_retain(self.critical_warning)
    }

    /// The composite temperature in degrees Celsius, rounded: kelvins minus 273. `None` where it is not reported.
    #[must_use]
    pub fn temperature_celsius(&self) -> Option<i32> {
        match self.temperature_k.get() {
            0 => None,
            kelvins => Some(i32::from(kelvins) - 273),
        }
    }

    /// The data read by the host, in bytes. It stops at the largest number.
    #[must_use]
    pub const fn bytes_read(&self) -> u128 {
        self.data_units_read.get().saturating_mul(DATA_UNIT_BYTES)
    }

    /// The data written by the host, in bytes. It stops at the largest number.
    #[must_use]
    pub const fn bytes_written(&self) -> u128 {
        self.data_units_written.get().saturating_mul(DATA_UNIT_BYTES)
    }
}

bitflags::bitflags! {
    /// What is critical about a device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CriticalWarning: u8 {
        /// The spare is below its threshold.
        const SPARE = 1 << 0;
        /// A temperature is beyond a threshold.
        const TEMPERATURE = 1 << 1;
        /// Media errors or internal errors have degraded reliability.
        const RELIABILITY = 1 << 2;
        /// The media are read-only.
        const READ_ONLY = 1 << 3;
        /// The backup of volatile memory failed.
        const BACKUP_FAILED = 1 << 4;
        /// The persistent memory region is read-only or unreliable.
        const PMR = 1 << 5;
    }
}

const DATA_UNIT_BYTES: u128 = 1000 * 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_figure_has_them() {
        let mut bytes = [0; 512];
        bytes[..6].copy_from_slice(&[0b10, 0x36, 0x01, 100, 10, 3]);
        bytes[32] = 2;
        bytes[48..64].copy_from_slice(&[0xff; 16]);
        bytes[144] = 7;
        let smart = Smart::read_from_bytes(&bytes).unwrap();
        assert_eq!(smart.critical_warning(), CriticalWarning::TEMPERATURE);
        assert_eq!(smart.temperature_celsius(), Some(310 - 273));
        assert_eq!((smart.available_spare, smart.spare_threshold, smart.percentage_used), (100, 10, 3));
        assert_eq!((smart.bytes_read(), smart.bytes_written()), (1_024_000, u128::MAX));
        assert_eq!(smart.unsafe_shutdowns.get(), 7);
        assert_eq!(Smart { temperature_k: 0.into(), ..smart }.temperature_celsius(), None);
    }
}
