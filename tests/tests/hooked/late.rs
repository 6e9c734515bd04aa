//! A controller model whose clock is late before the device is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ugds::emu::Emu;
use ugds::nvme::register::Property;
use ugds_hal::{
    Admin, Backend, Clock, Direction, Dma, Event, HalError, Instant, Layout, Mapping, OpenError, PortSpec,
    Quarantine, Source, Traits,
};

/// The model with its clock. Once that is [`LateClock::wind`]ed up, waiting moves the clock and not the device, which does
/// all its work at the very moment at which the clock is read as late.
#[derive(Clone)]
pub struct Late {
    emu: Emu,
    clock: LateClock,
}

#[derive(Clone)]
pub struct LateClock {
    emu: Emu,
    /// Nanoseconds that were waited since it was wound up, with one on top; 0 before.
    waited_ns: Arc<AtomicU64>,
    /// What had been waited when the clock was first read after that; 0 before.
    first_ns: Arc<AtomicU64>,
    limit: Duration,
}

impl Late {
    pub fn new(emu: &Emu, limit: Duration) -> Self {
        let clock =
            LateClock { emu: emu.clone(), waited_ns: Arc::default(), first_ns: Arc::default(), limit };
        Self { emu: emu.clone(), clock }
    }
}

impl LateClock {
    pub fn wind(&self) {
        self.waited_ns.store(1, Ordering::Relaxed);
    }
}

impl Clock for LateClock {
    fn now(&self) -> Instant {
        let waited_ns = self.waited_ns.load(Ordering::Relaxed);
        // The limit counts from the first reading on, as the caller's does.
        let first = self.first_ns.compare_exchange(0, waited_ns, Ordering::Relaxed, Ordering::Relaxed);
        let since = Duration::from_nanos(waited_ns - first.unwrap_or_else(|first| first));
        if since >= self.limit && first.is_err() {
            self.emu.run_until_idle();
        }
        self.emu.clock().now().after(Duration::from_nanos(waited_ns))
    }

    fn relax(&self, attempt: u32) {
        match self.waited_ns.load(Ordering::Relaxed) {
            0 => self.emu.clock().relax(attempt),
            waited => self.waited_ns.store(waited + SECOND_NS, Ordering::Relaxed),
        }
    }

    fn wait_until(&self, deadline: Instant) {
        while self.now() < deadline {
            self.relax(0);
        }
    }

    fn wait_for(&self, _: &[&Event], _: Instant, attempt: u32) {
        self.relax(attempt);
    }
}

impl Backend for Late {
    type Port = <Emu as Backend>::Port;
    type Clock = LateClock;

    fn traits(&self) -> &Traits {
        self.emu.traits()
    }

    fn clock(&self) -> &LateClock {
        &self.clock
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        self.emu.property_read(property)
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
        self.emu.property_write(property, value)
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        self.emu.memory(need)
    }

    unsafe fn map(&self, source: Source, direction: Direction) -> Result<Arc<Mapping>, HalError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.emu.map(source, direction) }
    }

    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        self.emu.open_port(spec, admin)
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        self.emu.close_port(port, admin)
    }
}

const SECOND_NS: u64 = 1_000_000_000;
