//! The controller as its parts see it: what is shared between registers, lanes, commands and the test's controls.
//!
//! Lock order: registers, lane 0 (admin), the other lanes in ascending order, a completion queue, the controller's
//! state, a namespace, the medium, the DMA map.

use super::bells::Bells;
use super::breach::Breach;
use super::config::{Backing, ConfigError, EmuConfig, Iova, Mode};
use super::deviation::Deviations;
use super::dma::DmaMap;
use super::events::AsyncEvent;
use super::interrupts::Interrupts;
use super::lane::Lane;
use super::namespace::Namespaces;
use super::registers::Registers;
use super::shadow::ShadowBuffers;
use super::state::ControllerState;
use super::stats::Counters;
use super::subsystem::Subsystem;
use super::time::Time;
use super::timing::Pipe;
use super::workers::Waker;
use crate::MonotonicClock;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use nvme_proto::Qid;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: EmuConfig,
    pub(super) time: Time,
    pub(super) dma: Arc<DmaMap>,
    pub(super) bells: Bells,
    pub(super) interrupts: Interrupts,
    pub(super) counters: Counters,
    pub(super) namespaces: Namespaces,
    /// What outlives a reset of the controller.
    pub(super) subsystem: Subsystem,
    pub(super) pipe: Pipe,
    pub(super) wakers: Box<[Waker]>,
    /// One step at a time, in stepped mode.
    pub(super) stepper: Mutex<()>,
    pub(super) registers: Mutex<Registers>,
    lanes: Box<[Mutex<Lane>]>,
    state: Mutex<ControllerState>,
    /// How many want the lanes to hold still.
    paused: AtomicU32,
    /// `CSTS.CFS`: nothing moves any more until a reset.
    failed: AtomicBool,
    /// The device does not answer any more.
    gone: AtomicBool,
    /// `CSTS.RDY`, for doorbells.
    ready: AtomicBool,
    pub(super) shadow: ShadowBuffers,
    /// What the device was told to do wrong.
    pub(super) deviations: Deviations,
    breaches: Mutex<Vec<Breach>>,
    serial: u64,
}

impl Core {
    pub(super) fn new(config: EmuConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let (workers, time) = match config.mode {
            Mode::Threads { workers } => (workers, Time::Real(MonotonicClock::new())),
            Mode::Stepped => (1, Time::Virtual(AtomicU64::new(0))),
        };
        let scatter = match config.iova {
            Iova::Contiguous => None,
            Iova::Scattered { seed } => Some(seed),
        };
        let system = |source| ConfigError::System { what: "event descriptors", source };
        let interrupts = Interrupts::new(config.vectors, config.msix).map_err(system)?;
        Ok(Self {
            time,
            dma: Arc::new(DmaMap::new(config.mpsmin, config.mpsmax, scatter)),
            bells: Bells::new(config.queues),
            interrupts,
            counters: Counters::default(),
            namespaces: Namespaces::open(&config)?,
            subsystem: Subsystem::default(),
            pipe: Pipe::new(config.latency, config.bandwidth_mib_s),
            wakers: (0..workers).map(|_| Waker::default()).collect(),
            stepper: Mutex::default(),
            registers: Mutex::default(),
            lanes: (0..=workers).map(|index| Mutex::new(Lane::new(index, config.out_of_order))).collect(),
            state: Mutex::new(ControllerState::new(&config)),
            paused: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            gone: AtomicBool::new(config.oddities.gone),
            ready: AtomicBool::new(false),
            shadow: ShadowBuffers::default(),
            deviations: Deviations::default(),
            breaches: Mutex::default(),
            serial: serial(&config.backing),
            config,
        })
    }

    pub(super) fn now(&self) -> u64 {
        self.time.now()
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Locks a lane. Whoever holds one may lock only later ones.
    pub(super) fn lane(&self, index: usize) -> MutexGuard<'_, Lane> {
        lock(&self.lanes[index])
    }

    /// The lane that serves a queue: 0 for the admin queue, and the others in turn.
    pub(super) fn lane_of(&self, qid: Qid) -> usize {
        match qid.0.checked_sub(1) {
            None => 0,
            Some(index) => 1 + usize::from(index) % (self.lanes.len() - 1),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ControllerState> {
        lock(&self.state)
    }

    pub(super) fn registers(&self) -> MutexGuard<'_, Registers> {
        lock(&self.registers)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire) != 0
    }

    /// Runs `f` while no lane does anything, and none has anything half done.
    pub(super) fn at_rest<R>(&self, f: impl FnOnce(&mut [MutexGuard<'_, Lane>]) -> R) -> R {
        // Workers look at this before they lock again, or they could keep us waiting.
        self.paused.fetch_add(1, Ordering::AcqRel);
        let mut lanes: Vec<_> = self.lanes.iter().map(lock).collect();
        let result = f(&mut lanes);
        self.paused.fetch_sub(1, Ordering::AcqRel);
        result
    }

    /// A fatal error: queue memory could not be accessed.
    #[cold]
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(super) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(super) fn clear_failure(&self) {
        self.failed.store(false, Ordering::Release);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn set_gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::Release);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Whether commands are executed.
    pub(super) fn is_running(&self) -> bool {
        self.is_ready() && !self.is_failed() && !self.is_gone()
    }

    pub(super) fn breach(&self, breach: Breach) {
        let mut breaches = lock(&self.breaches);
        if breaches.len() < MAX_BREACHES {
            breaches.push(breach);
        }
    }

    pub(super) fn breaches(&self) -> Vec<Breach> {
        lock(&self.breaches).clone()
    }

    /// Reports an event to the host, if it wants to know.
    pub(super) fn raise_event(&self, event: AsyncEvent) {
        self.state().events.raise(event);
        self.wake(Qid::ADMIN);
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn wake_all(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    pub(super) fn wake(&self, qid: Qid) {
        let lane = self.lane_of(qid);
        // Lane 0 is served by the first worker, beside its own.
        self.wakers[lane.saturating_sub(1)].wake();
    }
}

/// The serial number: the same each time for a file, and one of its own for each controller in memory.
fn serial(backing: &Backing) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    match backing {
        // Relaxed: the number only has to be unique.
        Backing::Memory => NEXT.fetch_add(1, Ordering::Relaxed),
        // FNV-1a.
        Backing::File(path) => {
            path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const MAX_BREACHES: usize = 1024;
