//! The wrapped backend.
//!
//! UNSAFETY: passes on the promise of whoever maps foreign memory.

#![allow(unsafe_code)]

use super::error::FaultPlanError;
use super::plan::{FaultPlan, What};
use super::port::FaultyPort;
use super::state::State;
use crate::emu::{Deviation, Emu};
use crate::{
    Admin, Backend, Clock, Direction, Dma, Event, HalError, Instant, Layout, Mapping, OpenError, PortSpec,
    Quarantine, Source, Traits,
};
use nvme_proto::register::{Cc, Csts, GONE_32, Property, Width};
use nvme_proto::{Cid, Qid};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A backend whose device misbehaves by plan. Clones are the same one.
///
/// With an empty plan it adds one branch to each call of the I/O path.
///
/// # Safety of the process
///
/// A driver that is lied to may take memory back too early. It takes the mapping away first, so what the device then
/// does ends in a model's or an IOMMU's fault. Wrap no backend that has neither.
#[derive(Clone, Debug)]
pub struct Faulty<B> {
    backend: B,
    state: Arc<State>,
    traits: Traits,
    registers: Arc<Mutex<Registers>>,
}

/// A device that can be told to misbehave.
pub trait Model: Send + Sync {
    /// Makes the device do something wrong with a command that it was not told about yet.
    fn deviate(&self, qid: Qid, cid: Cid, deviation: Deviation);
}

impl Model for Emu {
    fn deviate(&self, qid: Qid, cid: Cid, deviation: Deviation) {
        Self::deviate(self, qid, cid, deviation);
    }
}

/// What the registers hide.
#[derive(Debug, Default)]
struct Registers {
    /// Until then `CSTS.RDY` reads as 0.
    ready_at: Instant,
    /// What `CC` reads as while the device does not know that it was disabled.
    stuck: Option<u64>,
}

impl<B: Backend> Faulty<B> {
    /// Wraps a backend. Faults that only a device model can do are refused: see [`over_model`](Self::over_model).
    ///
    /// # Errors
    ///
    /// [`FaultPlanError`].
    pub fn new(backend: B, plan: FaultPlan) -> Result<Self, FaultPlanError> {
        let needs_model =
            |what| matches!(what, What::CorruptSqhd(_) | What::CorruptPhase | What::LateData(_));
        if let Some(fault) = plan.faults.iter().find(|fault| needs_model(fault.what)) {
            let backend = backend.traits().backend;
            return Err(FaultPlanError::NeedsModel { fault: fault.name(), backend });
        }
        Self::assemble(backend, plan, None)
    }

    /// Wraps the backend of a device model, which does what a wrapper can't.
    ///
    /// # Errors
    ///
    /// [`FaultPlanError`].
    pub fn over_model(backend: B, plan: FaultPlan) -> Result<Self, FaultPlanError>
    where
        B: Model + Clone,
    {
        let model = Arc::new(backend.clone());
        Self::assemble(backend, plan, Some(model))
    }

    fn assemble(backend: B, plan: FaultPlan, model: Option<Arc<dyn Model>>) -> Result<Self, FaultPlanError> {
        plan.validate()?;
        let mut traits = backend.traits().clone();
        if !plan.faults.is_empty() {
            traits.path = format!("{}, with faults by plan ({plan})", traits.path);
        }
        let state = Arc::new(State::new(plan, backend.clock().now(), model));
        Ok(Self { backend, state, traits, registers: Arc::default() })
    }

    /// The backend inside.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.backend
    }

    /// How many faults have happened.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.state.fired()
    }

    fn registers(&self) -> MutexGuard<'_, Registers> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write to `CC`: says whether the device gets it.
    fn configure(&self, value: u64) -> Result<Forward, HalError> {
        let new = Cc::from_bits(value as u32);
        let mut registers = self.registers();
        if let Some(stuck) = &mut registers.stuck {
            *stuck = value;
            return Ok(Forward::No);
        }
        let old = Cc::from_bits(self.backend.property_read(Property::CC)? as u32);
        let hit = |wanted: fn(What) -> bool| {
            let mut rules = self.state.rules.iter().filter(|rule| wanted(rule.fault.what));
            rules.find(|rule| rule.counts(&self.state, self.clock()))
        };
        match (old.en(), new.en()) {
            (false, true) => {
                if let Some(rule) = hit(|what| matches!(what, What::SlowReady(_)))
                    && let What::SlowReady(by) = rule.fault.what
                {
                    registers.ready_at = self.clock().now().after(by);
                    self.state.note();
                }
            }
            (true, false) => {
                registers.ready_at = Instant::default();
                if hit(|what| what == What::StuckDisable).is_some() {
                    registers.stuck = Some(value);
                    self.state.note();
                    return Ok(Forward::No);
                }
                self.state.reset();
            }
            _ => {}
        }
        Ok(Forward::Yes)
    }

    fn alter(&self, property: Property, value: u64) -> u64 {
        let registers = self.registers();
        match property {
            Property::CC => registers.stuck.unwrap_or(value),
            Property::CSTS => {
                let status = Csts::from_bits(value as u32);
                if status.is_gone() {
                    return value;
                }
                let slow = self.clock().now() < registers.ready_at;
                let ready = registers.stuck.is_some() || (status.rdy() && !slow);
                let failed = status.cfs() || self.state.is_failed();
                status.with_rdy(ready).with_cfs(failed).into_bits().into()
            }
            _ => value,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forward {
    Yes,
    No,
}

impl<B: Backend> Backend for Faulty<B> {
    type Port = FaultyPort<B::Port, B::Clock>;
    type Clock = B::Clock;

    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn clock(&self) -> &B::Clock {
        self.backend.clock()
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        if self.state.is_empty() {
            return self.backend.property_read(property);
        }
        self.state.let_time_pass(self.clock());
        if self.state.is_gone() {
            return Ok(match property.width() {
                Width::Bits32 => GONE_32.into(),
                Width::Bits64 => u64::MAX,
            });
        }
        Ok(self.alter(property, self.backend.property_read(property)?))
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
        if !self.state.is_empty() {
            self.state.let_time_pass(self.clock());
            let forward = match property {
                _ if self.state.is_gone() => Forward::No,
                Property::CC => self.configure(value)?,
                _ => Forward::Yes,
            };
            if forward == Forward::No {
                // Nobody inside will.
                self.traits.enables.note(property, value);
                return Ok(());
            }
        }
        self.backend.property_write(property, value)
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        self.backend.memory(need)
    }

    unsafe fn map(&self, source: Source, direction: Direction) -> Result<Arc<Mapping>, HalError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.backend.map(source, direction) }
    }

    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        let wrap = |port| FaultyPort::new(port, self.clock().clone(), Arc::clone(&self.state), spec.qid);
        match self.backend.open_port(spec, admin) {
            Ok(port) => Ok(wrap(port)),
            Err(OpenError { error, left }) => Err(OpenError { error, left: left.map(|held| held.map(wrap)) }),
        }
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        let qid = port.qid();
        self.backend.close_port(port.into_inner(), admin).map_err(|held| {
            held.map(|port| FaultyPort::new(port, self.clock().clone(), Arc::clone(&self.state), qid))
        })
    }

    fn event(&self, vector: u16) -> Result<Event, HalError> {
        self.backend.event(vector)
    }
}
