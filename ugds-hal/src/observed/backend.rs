//! The wrapped backend.
//!
//! UNSAFETY: passes on the promise of whoever maps foreign memory.

#![allow(unsafe_code)]

use super::{ObservedPort, Observer};
use crate::emu::Deviation;
use crate::faulty::Model;
use crate::{
    Admin, Backend, Direction, Dma, Event, HalError, Layout, Mapping, OpenError, PortSpec, Quarantine,
    Source, Stop, Stopped, Traits,
};
use nvme_proto::register::Property;
use nvme_proto::{Cid, Qid};
use std::sync::Arc;

/// A backend whose ports are watched by what an observer gives them. It does what the backend inside does.
#[derive(Clone, Debug)]
pub struct Observed<B, O> {
    backend: B,
    observer: O,
    traits: Traits,
}

impl<B: Backend, O: Observer> Observed<B, O> {
    /// Wraps a backend.
    #[must_use]
    pub fn with(backend: B, observer: O) -> Self {
        let mut traits = backend.traits().clone();
        if let Some(remark) = observer.remark() {
            traits.path = format!("{}, {remark}", traits.path);
        }
        Self { backend, observer, traits }
    }

    /// The backend inside.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.backend
    }

    /// Who watches.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    fn wrap(&self, port: B::Port, spec: &PortSpec) -> <Self as Backend>::Port {
        ObservedPort::new(port, self.backend.clock().clone(), self.observer.watch(spec), spec.qid)
    }
}

/// What observes a model lets it be told to misbehave.
impl<B: Model, O: Observer> Model for Observed<B, O> {
    fn deviate(&self, qid: Qid, cid: Cid, deviation: Deviation) {
        self.backend.deviate(qid, cid, deviation);
    }
}

impl<B: Backend, O: Observer> Backend for Observed<B, O> {
    type Port = ObservedPort<B::Port, B::Clock, O::Watch>;
    type Clock = B::Clock;

    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn clock(&self) -> &B::Clock {
        self.backend.clock()
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        self.backend.property_read(property)
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
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
        match self.backend.open_port(spec, admin) {
            Ok(port) => Ok(self.wrap(port, spec)),
            Err(OpenError { error, left }) => {
                Err(OpenError { error, left: left.map(|held| held.map(|port| self.wrap(port, spec))) })
            }
        }
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        let qid = port.qid();
        let (port, watch) = port.into_parts();
        let clock = self.backend.clock().clone();
        self.backend
            .close_port(port, admin)
            .map_err(|held| held.map(|port| ObservedPort::new(port, clock, watch, qid)))
    }

    fn event(&self, vector: u16) -> Result<Event, HalError> {
        self.backend.event(vector)
    }

    fn stop(&self, how: Stop) -> Result<Stopped, HalError> {
        self.backend.stop(how)
    }
}
