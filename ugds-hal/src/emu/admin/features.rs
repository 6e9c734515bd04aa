//! Set Features and Get Features.

use super::Context;
use crate::emu::events::AsyncEvent;
use crate::emu::state::{ControllerState, Features};
use crate::emu::store::MediumError;
use core::sync::atomic::Ordering;
use nvme_proto::admin::{
    AsyncEventConfig, Feature, FeatureId, GetFeatures, InterruptVectorConfig, NumberOfQueues, Select,
    SetFeatures, TemperatureThreshold, VolatileWriteCache,
};
use nvme_proto::status::{command, generic};
use nvme_proto::{Nsid, Status};

impl Context<'_> {
    pub(super) fn set_features(&self) -> Result<u64, Status> {
        let set = SetFeatures::from_sqe(self.sqe);
        if !self.is_known(set.id) {
            return Err(generic::INVALID_FIELD);
        }
        if set.save {
            return Err(command::FEATURE_NOT_SAVEABLE);
        }
        if set.nsid != Nsid::NONE && set.nsid != Nsid::ALL {
            let known = self.core.namespaces.get(set.nsid).is_some();
            let status = if known {
                command::FEATURE_NOT_NAMESPACE_SPECIFIC
            } else {
                generic::INVALID_NAMESPACE_OR_FORMAT
            };
            return Err(status);
        }
        self.set(&set)
    }

    fn set(&self, set: &SetFeatures) -> Result<u64, Status> {
        let value = set.dwords[0];
        if set.id == FeatureId::HOST_BEHAVIOR_SUPPORT {
            let mut data = [0; 512];
            self.read_data(&mut data)?;
            *self.core.state().features.host_behavior = data;
            return Ok(0);
        }
        if set.id == FeatureId::VOLATILE_WRITE_CACHE {
            let wanted = VolatileWriteCache::from_dword(value);
            self.core.namespaces.store().set_caching(wanted.wce()).map_err(MediumError::status)?;
        }
        let mut state = self.core.state();
        match set.id {
            FeatureId::NUMBER_OF_QUEUES => return self.grant(&mut state, NumberOfQueues::from_dword(value)),
            FeatureId::ASYNC_EVENT_CONFIG => state.events.config = AsyncEventConfig::from_dword(value),
            FeatureId::TEMPERATURE_THRESHOLD => {
                set_threshold(&mut state.features, TemperatureThreshold::from_dword(value))?;
            }
            FeatureId::INTERRUPT_VECTOR_CONFIG => {
                self.configure_vector(&mut state.features, InterruptVectorConfig::from_dword(value))?;
            }
            id => set_plain(&mut state.features, id, value)?,
        }
        drop(state);
        if set.id == FeatureId::TEMPERATURE_THRESHOLD {
            self.core.watch_temperature();
        }
        Ok(0)
    }

    /// Grants queues, once: as many as asked for, or as there are.
    fn grant(&self, state: &mut ControllerState, asked: NumberOfQueues) -> Result<u64, Status> {
        let config = &self.core.config;
        if config.oddities.refuse_number_of_queues {
            return Err(generic::INTERNAL_ERROR);
        }
        if asked.nsq_z() == u16::MAX || asked.ncq_z() == u16::MAX {
            return Err(generic::INVALID_FIELD);
        }
        if !state.submission.is_empty() || !state.completion.is_empty() {
            return Err(generic::COMMAND_SEQUENCE_ERROR);
        }
        let (submission, completion) = config.oddities.grant_queues.unwrap_or((config.queues, config.queues));
        let granted = *state
            .granted
            .get_or_insert((submission.min(asked.nsq_z() + 1), completion.min(asked.ncq_z() + 1)));
        Ok(as_number_of_queues(granted).to_dword().into())
    }

    fn configure_vector(&self, features: &mut Features, wanted: InterruptVectorConfig) -> Result<(), Status> {
        if !self.core.interrupts.exists(wanted.iv()) {
            return Err(generic::INVALID_FIELD);
        }
        if wanted.cd() {
            features.uncoalesced.insert(wanted.iv());
        } else {
            features.uncoalesced.remove(&wanted.iv());
        }
        Ok(())
    }

    pub(super) fn get_features(&self) -> Result<u64, Status> {
        let get = GetFeatures::from_sqe(self.sqe);
        if !self.is_known(get.id) || get.select.0 > Select::SUPPORTED_CAPABILITIES.0 {
            return Err(generic::INVALID_FIELD);
        }
        if get.select == Select::SUPPORTED_CAPABILITIES {
            return Ok(CHANGEABLE);
        }
        // Nothing is saved, so that the saved value is the default.
        let default = ControllerState::new(&self.core.config);
        let value = if get.select == Select::CURRENT {
            let state = self.core.state();
            self.value(&get, &state).map(|value| (value, state.features.host_behavior.clone()))
        } else {
            self.value(&get, &default).map(|value| (value, default.features.host_behavior.clone()))
        };
        let (value, host_behavior) = value?;
        if get.id == FeatureId::HOST_BEHAVIOR_SUPPORT {
            self.write_data(&host_behavior[..])?;
        }
        Ok(value.into())
    }

    fn value(&self, get: &GetFeatures, state: &ControllerState) -> Result<u32, Status> {
        let features = &state.features;
        Ok(match get.id {
            FeatureId::ARBITRATION => features.arbitration.to_dword(),
            FeatureId::POWER_MANAGEMENT => features.power.to_dword(),
            FeatureId::TEMPERATURE_THRESHOLD => {
                let asked = TemperatureThreshold::from_dword(get.cdw11);
                threshold(features, asked)?.into()
            }
            FeatureId::ERROR_RECOVERY => features.error_recovery.to_dword(),
            FeatureId::VOLATILE_WRITE_CACHE => features.write_cache.to_dword(),
            FeatureId::NUMBER_OF_QUEUES => {
                let all = self.core.config.queues;
                as_number_of_queues(state.granted.unwrap_or((all, all))).to_dword()
            }
            FeatureId::INTERRUPT_COALESCING => features.coalescing.to_dword(),
            FeatureId::INTERRUPT_VECTOR_CONFIG => {
                let vector = InterruptVectorConfig::from_dword(get.cdw11).iv();
                if !self.core.interrupts.exists(vector) {
                    return Err(generic::INVALID_FIELD);
                }
                let disabled = features.uncoalesced.contains(&vector);
                InterruptVectorConfig::new().with_iv(vector).with_cd(disabled).to_dword()
            }
            FeatureId::WRITE_ATOMICITY => features.write_atomicity.to_dword(),
            FeatureId::ASYNC_EVENT_CONFIG => state.events.config.to_dword(),
            _ => 0,
        })
    }

    fn is_known(&self, id: FeatureId) -> bool {
        KNOWN.contains(&id) || (id == FeatureId::VOLATILE_WRITE_CACHE && self.core.config.vwc)
    }
}

impl crate::emu::model::Core {
    /// Warns when the temperature is beyond a threshold.
    pub(in crate::emu) fn watch_temperature(&self) {
        let kelvins = self.subsystem.temperature.load(Ordering::Relaxed);
        let [over, under] = self.state().features.thresholds;
        let beyond = kelvins >= over || kelvins <= under;
        let warning = nvme_proto::log::CriticalWarning::TEMPERATURE.bits();
        let mut health = self.subsystem.health();
        let before = health.critical_warning;
        health.critical_warning = if beyond { before | warning } else { before & !warning };
        drop(health);
        if beyond && before & warning == 0 {
            self.raise_event(AsyncEvent::Temperature);
        }
    }
}

fn set_plain(features: &mut Features, id: FeatureId, value: u32) -> Result<(), Status> {
    match id {
        FeatureId::ARBITRATION => features.arbitration = Feature::from_dword(value),
        FeatureId::POWER_MANAGEMENT => {
            let wanted: nvme_proto::admin::PowerManagement = Feature::from_dword(value);
            if wanted.ps() != 0 {
                return Err(generic::INVALID_FIELD);
            }
            features.power = wanted;
        }
        FeatureId::ERROR_RECOVERY => features.error_recovery = Feature::from_dword(value),
        FeatureId::VOLATILE_WRITE_CACHE => features.write_cache = Feature::from_dword(value),
        FeatureId::INTERRUPT_COALESCING => features.coalescing = Feature::from_dword(value),
        FeatureId::WRITE_ATOMICITY => features.write_atomicity = Feature::from_dword(value),
        _ => return Err(generic::INVALID_FIELD),
    }
    Ok(())
}

fn set_threshold(features: &mut Features, wanted: TemperatureThreshold) -> Result<(), Status> {
    // All sensors, or the one that there is.
    if !matches!(wanted.tmpsel(), 0 | 0xf) {
        return Err(generic::INVALID_FIELD);
    }
    match features.thresholds.get_mut(usize::from(wanted.thsel())) {
        Some(threshold) => *threshold = wanted.tmpth(),
        None => return Err(generic::INVALID_FIELD),
    }
    Ok(())
}

fn threshold(features: &Features, asked: TemperatureThreshold) -> Result<u16, Status> {
    let found = features.thresholds.get(usize::from(asked.thsel())).filter(|_| asked.tmpsel() == 0);
    found.copied().ok_or(generic::INVALID_FIELD)
}

fn as_number_of_queues((submission, completion): (u16, u16)) -> NumberOfQueues {
    NumberOfQueues::new().with_nsq_z(submission - 1).with_ncq_z(completion - 1)
}

const KNOWN: [FeatureId; 10] = [
    FeatureId::ARBITRATION,
    FeatureId::POWER_MANAGEMENT,
    FeatureId::TEMPERATURE_THRESHOLD,
    FeatureId::ERROR_RECOVERY,
    FeatureId::NUMBER_OF_QUEUES,
    FeatureId::INTERRUPT_COALESCING,
    FeatureId::INTERRUPT_VECTOR_CONFIG,
    FeatureId::WRITE_ATOMICITY,
    FeatureId::ASYNC_EVENT_CONFIG,
    FeatureId::HOST_BEHAVIOR_SUPPORT,
];

/// Supported capabilities: neither saveable nor namespace specific, but changeable.
const CHANGEABLE: u64 = 1 << 2;
