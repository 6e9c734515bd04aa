//! The handle on a model, and its backend.
//!
//! UNSAFETY: passes on the promise of whoever maps foreign memory.

#![allow(unsafe_code)]

use super::clock::EmuClock;
use super::config::{ConfigError, EmuConfig, Mode};
use super::dma;
use super::model::Core;
use super::workers::Workers;
use crate::pcie::{self, Doorbell, PciePort};
use crate::{
    Admin, Backend, Direction, Dma, Event, HalError, Layout, Mapping, OpenError, PortSpec, Quarantine,
    Source, Traits,
};
use nvme_proto::Qid;
use nvme_proto::register::{DoorbellKind, Property, Width};
use std::sync::Arc;

/// A controller model. Clones are handles on the same one; its threads end with the last.
///
/// # Examples
///
/// ```
/// use nvme_proto::register::{Cap, Property};
/// use ugds_hal::Backend;
/// use ugds_hal::emu::{Emu, EmuConfig};
///
/// let emu = Emu::new(EmuConfig::default())?;
/// let cap = Cap::from_bits(emu.property_read(Property::CAP)?);
/// assert_eq!(cap.max_queue_entries(), 1024);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Emu {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    core: Arc<Core>,
    clock: EmuClock,
    traits: Traits,
    _workers: Option<Workers>,
}

impl Emu {
    /// Makes the controller of that description. It is powered on and disabled.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn new(config: EmuConfig) -> Result<Self, ConfigError> {
        let core = Arc::new(Core::new(config)?);
        let workers = match core.config.mode {
            Mode::Stepped => None,
            Mode::Threads { .. } => Some(
                Workers::start(&core)
                    .map_err(|source| ConfigError::System { what: "a worker thread", source })?,
            ),
        };
        let path = "direct: the controller model reads and writes this process's memory".to_owned();
        let traits = Traits::local(core.dma.domain(), BACKEND, path).with_vectors(core.config.vectors);
        let clock = EmuClock::new(Arc::clone(&core));
        Ok(Self { handle: Arc::new(Handle { core, clock, traits, _workers: workers }) })
    }

    pub(super) fn core(&self) -> &Core {
        &self.handle.core
    }

    fn bell(&self, qid: Qid, kind: DoorbellKind) -> EmuDoorbell {
        EmuDoorbell { core: Arc::clone(&self.handle.core), qid, kind }
    }
}

impl Backend for Emu {
    type Port = PciePort<EmuDoorbell>;
    type Clock = EmuClock;

    fn traits(&self) -> &Traits {
        &self.handle.traits
    }

    fn clock(&self) -> &EmuClock {
        &self.handle.clock
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        let low = u64::from(self.core().load_register(property.offset()));
        Ok(match property.width() {
            Width::Bits32 => low,
            Width::Bits64 => low | u64::from(self.core().load_register(property.offset() + 4)) << 32,
        })
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
        self.traits().enables.note(property, value);
        self.core().store_register(property.offset(), value as u32);
        if property.width() == Width::Bits64 {
            self.core().store_register(property.offset() + 4, (value >> 32) as u32);
        }
        Ok(())
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        dma::allocate(&self.core().dma, need)
    }

    unsafe fn map(&self, source: Source, direction: Direction) -> Result<Arc<Mapping>, HalError> {
        match source {
            // SAFETY: the caller keeps the memory until the mapping is gone.
            Source::Host { ptr, len_bytes } => unsafe {
                dma::map_host(&self.core().dma, ptr, len_bytes, direction)
            },
            // SAFETY: the caller keeps the descriptor open, and the memory with it, until the mapping is gone.
            Source::DmaBuf { fd, offset, len_bytes } => unsafe {
                dma::map_dmabuf(&self.core().dma, fd, offset, len_bytes, direction)
            },
        }
    }

    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        let bells = [DoorbellKind::SubmissionTail, DoorbellKind::CompletionHead]
            .map(|kind| self.bell(spec.qid, kind));
        pcie::open_port(self, spec, admin, bells)
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        pcie::close_port(self, port, admin)
    }

    fn event(&self, vector: u16) -> Result<Event, HalError> {
        let none = HalError::Unsupported { what: "an interrupt vector of that number", backend: BACKEND };
        self.core().interrupts.event(vector).cloned().ok_or(none)
    }
}

/// A doorbell register of a model.
#[derive(Clone, Debug)]
pub struct EmuDoorbell {
    core: Arc<Core>,
    qid: Qid,
    kind: DoorbellKind,
}

impl Doorbell for EmuDoorbell {
    fn write(&self, value: u32) {
        self.core.ring(self.qid, self.kind, value);
    }
}

const BACKEND: &str = "emu";
