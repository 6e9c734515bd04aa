//! A backend around a controller model that calls the test at each step.
//!
//! UNSAFETY: is a backend, which maps the memory of others, and keeps a second view of the memory that it gives out.

#![allow(unsafe_code, dead_code, unreachable_pub)]

pub mod late;

use std::sync::{Arc, Mutex};
use ugds::emu::{Emu, EmuClock};
use ugds::nvme::Qid;
use ugds::nvme::register::{DoorbellKind, Property};
use ugds_hal::pcie::{self, Doorbell, PciePort};
use ugds_hal::{
    Admin, Backend, Direction, Dma, HalError, Layout, Mapping, OpenError, PortSpec, Quarantine, SharedMemory,
    Source, Traits,
};

/// What a test does at each step. The default does nothing.
pub trait Hooks: Send + Sync + 'static {
    /// Before a call: a register access, or memory that is asked for. What it returns, the call returns.
    fn called(&self) -> Result<(), HalError> {
        Ok(())
    }

    /// What a register is to read as.
    fn read(&self, property: Property, value: u64) -> u64 {
        let _ = property;
        value
    }

    /// After an admin command ended, and before anybody looked at its data, which are in `buffer`.
    fn ended(&self, buffer: &SharedMemory) {
        let _ = buffer;
    }
}

/// The model with its hooks.
pub struct Hooked<H> {
    emu: Emu,
    shared: Arc<Shared<H>>,
}

struct Shared<H> {
    hooks: H,
    /// Where the data of admin commands go: the first memory that was asked for.
    buffer: Mutex<Option<(Arc<Mapping>, SharedMemory)>>,
}

impl<H: Hooks> Hooked<H> {
    /// `emu` has doorbells without gaps between them.
    pub fn new(emu: &Emu, hooks: H) -> Arc<Self> {
        assert_eq!(emu.config().dstrd, 0);
        Arc::new(Self { emu: emu.clone(), shared: Arc::new(Shared { hooks, buffer: Mutex::default() }) })
    }

    pub fn hooks(&self) -> &H {
        &self.shared.hooks
    }

    /// Lets go of the second view, so that the memory can go.
    pub fn forget_buffer(&self) {
        self.shared.buffer.lock().unwrap().take();
    }

    fn bell(&self, qid: Qid, kind: DoorbellKind) -> Bell<H> {
        Bell { emu: self.emu.clone(), shared: Arc::clone(&self.shared), qid, kind }
    }
}

impl<H: Hooks> Backend for Hooked<H> {
    type Port = PciePort<Bell<H>>;
    type Clock = EmuClock;

    fn traits(&self) -> &Traits {
        self.emu.traits()
    }

    fn clock(&self) -> &EmuClock {
        self.emu.clock()
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        self.hooks().called()?;
        Ok(self.hooks().read(property, self.emu.property_read(property)?))
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
        // Nobody knows whether a write that failed reached the device.
        self.hooks().called().inspect_err(|_| self.traits().enables.note(property, value))?;
        self.emu.property_write(property, value)
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        self.hooks().called()?;
        let memory = self.emu.memory(need)?;
        let mut buffer = self.shared.buffer.lock().unwrap();
        if buffer.is_none() {
            let (start, len_bytes) = (memory.shared().as_ptr(), memory.shared().len_bytes());
            // SAFETY: the mapping, kept beside the view, keeps the memory; both views access it atomically.
            let view = unsafe { SharedMemory::new(start, len_bytes) };
            *buffer = Some((Arc::clone(memory.mapping()), view));
        }
        Ok(memory)
    }

    unsafe fn map(&self, source: Source, direction: Direction) -> Result<Arc<Mapping>, HalError> {
        self.hooks().called()?;
        // SAFETY: the caller's promise is the same.
        unsafe { self.emu.map(source, direction) }
    }

    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        let bells = [DoorbellKind::SubmissionTail, DoorbellKind::CompletionHead];
        pcie::open_port(self, spec, admin, bells.map(|kind| self.bell(spec.qid, kind)))
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        pcie::close_port(self, port, admin)
    }
}

/// A doorbell register of the model.
pub struct Bell<H> {
    emu: Emu,
    shared: Arc<Shared<H>>,
    qid: Qid,
    kind: DoorbellKind,
}

impl<H: Hooks> Doorbell for Bell<H> {
    fn write(&self, value: u32) {
        let is_head = self.kind == DoorbellKind::CompletionHead;
        self.emu.store32(DOORBELLS + (2 * u32::from(self.qid.0) + u32::from(is_head)) * 4, value);
        // Completions are given back in the pass that took them, before their data are looked at.
        if self.qid.is_admin()
            && is_head
            && let Some((_, buffer)) = &*self.shared.buffer.lock().unwrap()
        {
            self.shared.hooks.ended(buffer);
        }
    }
}

/// Where the doorbells begin in BAR 0.
const DOORBELLS: u32 = 0x1000;
