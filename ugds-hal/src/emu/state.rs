//! What a reset of the controller forgets: features, queues, events.

use super::config::EmuConfig;
use super::events::Events;
use super::queue::{CompletionQueue, SubmissionQueue};
use nvme_proto::admin::{
    Arbitration, ErrorRecovery, InterruptCoalescing, PowerManagement, VolatileWriteCache, WriteAtomicity,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct ControllerState {
    pub(super) events: Events,
    pub(super) features: Features,
    /// I/O queues by identifier.
    pub(super) submission: BTreeMap<u16, Arc<SubmissionQueue>>,
    pub(super) completion: BTreeMap<u16, Arc<CompletionQueue>>,
    /// The submission and completion queues that were granted, once the host asked.
    pub(super) granted: Option<(u16, u16)>,
    /// Namespaces that changed since the log was read.
    pub(super) changed_namespaces: BTreeSet<u32>,
}

impl ControllerState {
    pub(super) fn new(config: &EmuConfig) -> Self {
        let mut state = Self::default();
        state.reset(config);
        state
    }

    pub(super) fn reset(&mut self, config: &EmuConfig) {
        *self = Self { features: Features::new(config), ..Self::default() };
    }
}

/// The values of the features.
#[derive(Clone, Debug)]
pub(super) struct Features {
    pub(super) arbitration: Arbitration,
    pub(super) power: PowerManagement,
    /// The upper and the lower threshold of the composite temperature, in kelvins.
    pub(super) thresholds: [u16; 2],
    pub(super) error_recovery: ErrorRecovery,
    pub(super) write_cache: VolatileWriteCache,
    pub(super) coalescing: InterruptCoalescing,
    /// Vectors for which coalescing is disabled.
    pub(super) uncoalesced: BTreeSet<u16>,
    pub(super) write_atomicity: WriteAtomicity,
    pub(super) host_behavior: Box<[u8; 512]>,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            arbitration: Arbitration::new(),
            power: PowerManagement::new(),
            thresholds: [OVER_TEMPERATURE, 0],
            error_recovery: ErrorRecovery::new(),
            write_cache: VolatileWriteCache::new(),
            coalescing: InterruptCoalescing::new(),
            uncoalesced: BTreeSet::new(),
            write_atomicity: WriteAtomicity::new(),
            host_behavior: Box::new([0; 512]),
        }
    }
}

impl Features {
    fn new(config: &EmuConfig) -> Self {
        Self { write_cache: VolatileWriteCache::new().with_wce(config.vwc), ..Self::default() }
    }
}

/// 70 degrees Celsius, in kelvins.
pub(super) const OVER_TEMPERATURE: u16 = 343;
