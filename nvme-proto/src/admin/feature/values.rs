//! The features whose value is one dword.

use super::{Feature, FeatureId, SetFeatures};
use crate::types::{BusAddr, Count16};
use bitfield_struct::bitfield;

macro_rules! features {
    ($($name:ident = $id:ident;)*) => {
        $(
            impl Feature for $name {
                const ID: FeatureId = FeatureId::$id;

                fn to_dword(self) -> u32 {
                    self.into_bits()
                }

                fn from_dword(dword: u32) -> Self {
                    Self::from_bits(dword)
                }
            }
        )*
    };
}

features! {
    Arbitration = ARBITRATION;
    PowerManagement = POWER_MANAGEMENT;
    TemperatureThreshold = TEMPERATURE_THRESHOLD;
    ErrorRecovery = ERROR_RECOVERY;
    VolatileWriteCache = VOLATILE_WRITE_CACHE;
    NumberOfQueues = NUMBER_OF_QUEUES;
    InterruptCoalescing = INTERRUPT_COALESCING;
    InterruptVectorConfig = INTERRUPT_VECTOR_CONFIG;
    WriteAtomicity = WRITE_ATOMICITY;
    AsyncEventConfig = ASYNC_EVENT_CONFIG;
    AutonomousPowerState = AUTONOMOUS_POWER_STATE;
    KeepAliveTimer = KEEP_ALIVE_TIMER;
    HostControlledThermal = HOST_CONTROLLED_THERMAL;
}

/// Feature 01h: how submission queues are taken turns.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Arbitration {
    /// AB: `2^n` commands are taken from a queue at once; 7 for no limit.
    #[bits(3)]
    pub ab: u8,
    #[bits(5)]
    __: u8,
    /// LPW: the weight of the low class, 0's based.
    pub lpw_z: u8,
    /// MPW: the weight of the medium class, 0's based.
    pub mpw_z: u8,
    /// HPW: the weight of the high class, 0's based.
    pub hpw_z: u8,
}

/// Feature 02h: the power state.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct PowerManagement {
    /// PS: the power state.
    #[bits(5)]
    pub ps: u8,
    /// WH: the workload hint.
    #[bits(3)]
    pub wh: u8,
    #[bits(24)]
    __: u32,
}

/// Feature 04h: when an event tells of a temperature.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct TemperatureThreshold {
    /// TMPTH: the threshold in kelvins.
    pub tmpth: u16,
    /// TMPSEL: the sensor, 0 for the composite temperature, 1 to 8, Fh for all.
    #[bits(4)]
    pub tmpsel: u8,
    /// THSEL: 0 for an upper threshold, 1 for a lower one.
    #[bits(2)]
    pub thsel: u8,
    /// TMPTHH: the hysteresis in kelvins.
    #[bits(3)]
    pub tmpthh: u8,
    #[bits(7)]
    __: u8,
}

/// Feature 05h: how hard the controller tries.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ErrorRecovery {
    /// TLER: the time for retries, in units of 100 ms; 0 for no limit.
    pub tler: u16,
    /// DULBE: reading a deallocated or unwritten block is an error.
    pub dulbe: bool,
    #[bits(15)]
    __: u16,
}

/// Feature 06h: whether the volatile write cache is on.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct VolatileWriteCache {
    /// WCE: the cache is enabled.
    pub wce: bool,
    #[bits(31)]
    __: u32,
}

/// Feature 07h: how many I/O queues there are, asked for (NSQR, NCQR) and allocated (NSQA, NCQA) in one layout.
///
/// It can be set once after a reset, before the first I/O queue.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NumberOfQueues {
    /// NSQR or NSQA: submission queues, 0's based.
    pub nsq_z: u16,
    /// NCQR or NCQA: completion queues, 0's based.
    pub ncq_z: u16,
}

impl NumberOfQueues {
    /// Asks for that many queue pairs.
    #[must_use]
    pub const fn of_pairs(pairs: Count16) -> Self {
        Self::new().with_nsq_z(pairs.z()).with_ncq_z(pairs.z())
    }

    /// The number of I/O queue pairs that can be made: the smaller of both numbers. The controller may grant more
    /// than was asked for, and BAR space and vectors may allow fewer.
    #[must_use]
    pub const fn granted(&self) -> u32 {
        let (nsq, ncq) = (self.nsq_z() as u32 + 1, self.ncq_z() as u32 + 1);
        if nsq < ncq { nsq } else { ncq }
    }
}

/// Feature 08h: when interrupts are held back. One value for all vectors.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptCoalescing {
    /// THR: the completions to gather, 0's based; 0 for no coalescing.
    pub thr_z: u8,
    /// TIME: the longest delay, in units of 100 µs; 0 for no coalescing.
    pub time: u8,
    __: u16,
}

/// Feature 09h: what holds for one interrupt vector.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptVectorConfig {
    /// IV: the vector.
    pub iv: u16,
    /// CD: coalescing is disabled for it.
    pub cd: bool,
    #[bits(15)]
    __: u16,
}

/// Feature 0Ah: whether AWUN and NAWUN count.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct WriteAtomicity {
    /// DN: only AWUPF and NAWUPF count.
    pub dn: bool,
    #[bits(31)]
    __: u32,
}

/// Feature 0Bh: which events complete an Asynchronous Event Request.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AsyncEventConfig {
    /// The critical warnings of SMART that are told, one bit each as there.
    pub smart: u8,
    /// NAN: changed namespaces.
    pub nan: bool,
    /// FAN: firmware activation starting.
    pub fan: bool,
    /// TLN: telemetry log changed.
    pub tln: bool,
    /// ANACN: asymmetric namespace access changed.
    pub anacn: bool,
    /// PLEALN: predictable latency event aggregate log changed.
    pub plealn: bool,
    /// LSIN: LBA status information alert.
    pub lsin: bool,
    /// EGEALN: endurance group event aggregate log changed.
    pub egealn: bool,
    /// NNSSHDN: normal NVM subsystem shutdown.
    pub nnsshdn: bool,
    #[bits(11)]
    __: u16,
    /// ZDCN: zone descriptor changed.
    pub zdcn: bool,
    #[bits(4)]
    __: u8,
}

/// Feature 0Ch: whether the controller changes its power state on its own, as an
/// [`ApstTable`](super::ApstTable) says.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AutonomousPowerState {
    /// APSTE: it does.
    pub apste: bool,
    #[bits(31)]
    __: u32,
}

/// Feature 0Fh: how long the controller waits for a Keep Alive. Off on PCIe unless it is set.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct KeepAliveTimer {
    /// KATO: the timeout in ms, 0 for none. The controller rounds it up to its granularity, KAS · 100 ms.
    pub kato_ms: u32,
}

/// Feature 10h: at which temperatures the controller slows down.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct HostControlledThermal {
    /// TMT2: the temperature from which on it throttles heavily, in kelvins.
    pub tmt2: u16,
    /// TMT1: the temperature from which on it throttles lightly, in kelvins.
    pub tmt1: u16,
}

/// Feature 0Dh: memory that the host lends to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemoryBuffer {
    /// EHM: the memory may be used.
    pub enable: bool,
    /// MR: it is the same memory, with the same contents, as before.
    pub memory_return: bool,
    /// HSIZE: the whole size, in pages of `CC.MPS`.
    pub pages: u32,
    /// HMDLLA and HMDLUA: where the list of descriptors is, a multiple of 16.
    pub descriptors: BusAddr,
    /// HMDLEC: the number of descriptors.
    pub descriptor_count: u32,
}

impl HostMemoryBuffer {
    /// The Set Features command that says so.
    #[must_use]
    pub const fn to_set_features(&self) -> SetFeatures {
        let flags = (self.memory_return as u32) << 1 | self.enable as u32;
        let (lower, upper) = (self.descriptors.0 as u32, (self.descriptors.0 >> 32) as u32);
        SetFeatures {
            dwords: [flags, self.pages, lower, upper, self.descriptor_count],
            ..SetFeatures::raw(FeatureId::HOST_MEMORY_BUFFER, flags)
        }
    }

    /// What a Set Features command says, if it is about this feature.
    #[must_use]
    pub fn from_set_features(set: &SetFeatures) -> Option<Self> {
        let [flags, pages, lower, upper, descriptor_count] = set.dwords;
        (set.id == FeatureId::HOST_MEMORY_BUFFER).then_some(Self {
            enable: flags & 1 != 0,
            memory_return: flags & 2 != 0,
            pages,
            descriptors: BusAddr(u64::from(upper) << 32 | u64::from(lower)),
            descriptor_count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_the_figures() {
        let cases = [
            (Arbitration::new().with_ab(7).with_lpw_z(1).with_mpw_z(2).with_hpw_z(3).to_dword(), 0x0302_0107),
            (PowerManagement::new().with_ps(4).with_wh(1).to_dword(), 0x24),
            (
                TemperatureThreshold::new().with_tmpth(343).with_tmpsel(0xf).with_thsel(1).to_dword(),
                0x001f_0157,
            ),
            (ErrorRecovery::new().with_tler(5).with_dulbe(true).to_dword(), 0x0001_0005),
            (InterruptCoalescing::new().with_thr_z(7).with_time(2).to_dword(), 0x0207),
            (WriteAtomicity::new().with_dn(true).to_dword(), 1),
            (AsyncEventConfig::new().with_smart(0x1f).with_nan(true).with_fan(true).to_dword(), 0x031f),
            (AsyncEventConfig::new().with_zdcn(true).with_nnsshdn(true).to_dword(), 0x0800_8000),
            (KeepAliveTimer::new().with_kato_ms(120_000).to_dword(), 120_000),
            (HostControlledThermal::new().with_tmt1(350).with_tmt2(360).to_dword(), 350 << 16 | 360),
        ];
        for (value, dword) in cases {
            assert_eq!(value, dword);
        }
    }

    #[test]
    fn queue_numbers_are_zero_based_and_the_smaller_one_counts() {
        let asked = NumberOfQueues::of_pairs(Count16::new(16).unwrap());
        assert_eq!(asked.to_dword(), 0x000f_000f);
        assert_eq!(NumberOfQueues::from_dword(0x0007_001f).granted(), 8);
        assert_eq!(NumberOfQueues::from_dword(0x001f_0000).granted(), 1);
        assert_eq!(NumberOfQueues::from_dword(u32::MAX).granted(), 65_536);
    }

    #[test]
    fn a_host_memory_buffer_uses_five_dwords() {
        let hmb = HostMemoryBuffer {
            enable: true,
            memory_return: false,
            pages: 0x4000,
            descriptors: BusAddr(0x1_2345_6780),
            descriptor_count: 8,
        };
        let set = hmb.to_set_features();
        assert_eq!(set.dwords, [1, 0x4000, 0x2345_6780, 1, 8]);
        assert_eq!(HostMemoryBuffer::from_set_features(&set), Some(hmb));
        let other = SetFeatures { id: FeatureId::TIMESTAMP, ..set };
        assert_eq!(HostMemoryBuffer::from_set_features(&other), None);
    }
}
