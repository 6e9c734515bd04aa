//! Get Features and Set Features, and what the features hold.

mod data;
mod values;

pub use data::{ApstEntry, ApstTable, HostBehaviorSupport, Timestamp};
pub use values::{
    Arbitration, AsyncEventConfig, AutonomousPowerState, ErrorRecovery, HostControlledThermal,
    HostMemoryBuffer, InterruptCoalescing, InterruptVectorConfig, KeepAliveTimer, NumberOfQueues,
    PowerManagement, TemperatureThreshold, VolatileWriteCache, WriteAtomicity,
};

use super::Opcode;
use crate::sqe::Sqe;
use crate::types::Nsid;

open_enum! {
    /// FID, the feature identifier (figure "Feature Identifiers").
    FeatureId(u8) {
        ARBITRATION = 0x01, "arbitration";
        POWER_MANAGEMENT = 0x02, "power management";
        TEMPERATURE_THRESHOLD = 0x04, "temperature threshold";
        ERROR_RECOVERY = 0x05, "error recovery";
        VOLATILE_WRITE_CACHE = 0x06, "volatile write cache";
        NUMBER_OF_QUEUES = 0x07, "number of queues";
        INTERRUPT_COALESCING = 0x08, "interrupt coalescing";
        INTERRUPT_VECTOR_CONFIG = 0x09, "interrupt vector configuration";
        WRITE_ATOMICITY = 0x0a, "write atomicity normal";
        ASYNC_EVENT_CONFIG = 0x0b, "asynchronous event configuration";
        AUTONOMOUS_POWER_STATE = 0x0c, "autonomous power state transition";
        HOST_MEMORY_BUFFER = 0x0d, "host memory buffer";
        TIMESTAMP = 0x0e, "timestamp";
        KEEP_ALIVE_TIMER = 0x0f, "keep alive timer";
        HOST_CONTROLLED_THERMAL = 0x10, "host controlled thermal management";
        NON_OPERATIONAL_POWER = 0x11, "non-operational power state configuration";
        HOST_BEHAVIOR_SUPPORT = 0x16, "host behavior support";
        SANITIZE_CONFIG = 0x17, "sanitize configuration";
        COMMAND_SET_PROFILE = 0x19, "I/O command set profile";
        SOFTWARE_PROGRESS = 0x80, "software progress marker";
        HOST_ID = 0x81, "host identifier";
        RESERVATION_NOTIFICATION_MASK = 0x82, "reservation notification mask";
        RESERVATION_PERSISTENCE = 0x83, "reservation persistence";
        NAMESPACE_WRITE_PROTECTION = 0x84, "namespace write protection configuration";
    }
}

/// A feature whose value is one dword: CDW11 of Set Features, and DW0 of the completion of Get Features.
pub trait Feature: Copy {
    /// Which feature it is.
    const ID: FeatureId;

    /// The value as a dword.
    #[must_use]
    fn to_dword(self) -> u32;

    /// The value that a dword says.
    #[must_use]
    fn from_dword(dword: u32) -> Self;
}

/// Set Features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFeatures {
    /// NSID: [`Nsid::NONE`] for features of the controller.
    pub nsid: Nsid,
    /// FID: which feature.
    pub id: FeatureId,
    /// SV: the value survives power cycles and resets.
    pub save: bool,
    /// CDW11 to CDW15, what the feature makes of them. CDW14 bits 6:0 are the UUID index of vendor features.
    pub dwords: [u32; 5],
}

impl SetFeatures {
    /// Sets a feature of the controller to `value`, until the next reset.
    #[must_use]
    pub fn new<F: Feature>(value: F) -> Self {
        Self::raw(F::ID, value.to_dword())
    }

    /// Sets the feature `id` of the controller with `cdw11`, until the next reset.
    #[must_use]
    pub const fn raw(id: FeatureId, cdw11: u32) -> Self {
        Self { nsid: Nsid::NONE, id, save: false, dwords: [cdw11, 0, 0, 0, 0] }
    }

    /// The value, if this is about the feature `F`.
    #[must_use]
    pub fn value<F: Feature>(&self) -> Option<F> {
        (self.id == F::ID).then(|| F::from_dword(self.dwords[0]))
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let [cdw11, cdw12, cdw13, cdw14, cdw15] = self.dwords;
        Sqe::new(Opcode::SET_FEATURES.0, self.nsid)
            .with_cdw10(u32::from(self.save) << 31 | u32::from(self.id.0))
            .with_cdw11(cdw11)
            .with_cdw12(cdw12)
            .with_cdw13(cdw13)
            .with_cdw14(cdw14)
            .with_cdw15(cdw15)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self {
            nsid: sqe.nsid(),
            id: FeatureId(sqe.cdw10.get() as u8),
            save: sqe.cdw10.get() >> 31 != 0,
            dwords: [sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15]
                .map(zerocopy::little_endian::U32::get),
        }
    }
}

/// Get Features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetFeatures {
    /// NSID: [`Nsid::NONE`] for features of the controller.
    pub nsid: Nsid,
    /// FID: which feature.
    pub id: FeatureId,
    /// SEL: which of its values.
    pub select: Select,
    /// CDW11, what the feature makes of it: the vector of an interrupt vector, the sensor of a threshold.
    pub cdw11: u32,
}

open_enum! {
    /// SEL, which value of a feature Get Features returns.
    Select(u8) {
        CURRENT = 0, "current";
        DEFAULT = 1, "default";
        SAVED = 2, "saved";
        SUPPORTED_CAPABILITIES = 3, "supported capabilities";
    }
}

impl GetFeatures {
    /// Asks for the current value of the controller's feature `id`.
    #[must_use]
    pub const fn new(id: FeatureId) -> Self {
        Self { nsid: Nsid::NONE, id, select: Select::CURRENT, cdw11: 0 }
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::GET_FEATURES.0, self.nsid)
            .with_cdw10(u32::from(self.select.0 & 7) << 8 | u32::from(self.id.0))
            .with_cdw11(self.cdw11)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let cdw10 = sqe.cdw10.get();
        Self {
            nsid: sqe.nsid(),
            id: FeatureId(cdw10 as u8),
            select: Select((cdw10 >> 8) as u8 & 7),
            cdw11: sqe.cdw11.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_commands_by_the_figures() {
        let set = SetFeatures { save: true, ..SetFeatures::new(VolatileWriteCache::new().with_wce(true)) };
        let sqe = set.to_sqe();
        assert_eq!((sqe.opcode, sqe.cdw10.get(), sqe.cdw11.get()), (9, 0x8000_0006, 1));
        let get = GetFeatures { select: Select::SAVED, ..GetFeatures::new(FeatureId::POWER_MANAGEMENT) };
        assert_eq!((get.to_sqe().opcode, get.to_sqe().cdw10.get()), (0x0a, 0x202));
    }

    #[test]
    fn a_value_is_read_only_as_the_feature_it_is() {
        let set = SetFeatures::new(InterruptVectorConfig::new().with_iv(3).with_cd(true));
        assert_eq!(set.value::<InterruptVectorConfig>().unwrap().into_bits(), 0x1_0003);
        assert_eq!(set.value::<VolatileWriteCache>(), None);
    }
}
