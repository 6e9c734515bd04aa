//! The device and its backend.
//!
//! What the device itself costs is in functions whose names begin with `null_device_`, which are never inlined, so that
//! a profiler can leave them out by name.
//!
//! UNSAFETY: plays the backend and the device, over leaked buffers.

#![allow(unsafe_code)]

use super::admin::{DOORBELLS, Registers, null_device_admin};
use nvme_proto::admin::Opcode;
use nvme_proto::register::Property;
use nvme_proto::{BusAddr, Qid};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use ugds_hal::pcie::{self, Doorbell, PciePort};
use ugds_hal::{
    Admin, AdminError, Backend, Direction, Dma, DomainId, Extent, HalError, Layout, Mapping, MonotonicClock,
    OpenError, PortSpec, Quarantine, QueueCommand, Source, Traits,
};

/// A backend whose bus addresses are the host's.
#[derive(Debug)]
pub struct Null {
    traits: Traits,
    clock: MonotonicClock,
    registers: Registers,
    admin: Arc<NullQueue>,
}

/// The rings of one queue pair, as the device knows them.
#[derive(Debug, Default)]
pub(super) struct Rings {
    pub(super) submission: AtomicU64,
    pub(super) completion: AtomicU64,
    entries: AtomicU16,
    /// Commands fetched, free-running.
    fetched: AtomicU16,
    /// Commands completed, free-running.
    done: AtomicU16,
}

/// A doorbell of the null device: that of a submission queue makes the device work, to the other nobody listens.
#[derive(Debug)]
pub struct NullBell {
    queue: Arc<NullQueue>,
    ring: fn(&NullQueue, u16),
}

/// One queue of the null device.
#[derive(Debug, Default)]
pub struct NullQueue(pub(super) Rings);

impl Null {
    /// Creates one.
    #[must_use]
    pub fn new() -> Self {
        let traits = Traits::local(DomainId::fresh(), "null", "nowhere: nothing is moved".into());
        let admin = Arc::default();
        Self { traits, clock: MonotonicClock::new(), registers: Registers::default(), admin }
    }

    /// How many doorbells were written since the program began.
    #[must_use]
    pub fn doorbells() -> u64 {
        DOORBELLS.load(Ordering::Relaxed)
    }
}

impl NullQueue {
    /// A queue of `entries` entries at its start.
    pub(super) fn reset(&self, entries: u16) {
        self.0.entries.store(entries, Ordering::Relaxed);
        self.0.fetched.store(0, Ordering::Relaxed);
        self.0.done.store(0, Ordering::Relaxed);
    }
}

impl Default for Null {
    fn default() -> Self {
        Self::new()
    }
}

impl Doorbell for NullBell {
    #[inline]
    fn write(&self, value: u32) {
        (self.ring)(&self.queue, value as u16);
    }
}

/// Completes every command up to `tail`.
#[inline(never)]
fn null_device_complete(queue: &NullQueue, tail: u16) {
    DOORBELLS.fetch_add(1, Ordering::Relaxed);
    while let Some(command) = submitted(queue, tail) {
        // SAFETY: an entry of the submission ring.
        let first = unsafe { command.read_volatile() };
        complete(queue, first >> 16, 0);
    }
}

/// The next command before `tail`.
#[inline(always)]
pub(super) fn submitted(NullQueue(rings): &NullQueue, tail: u16) -> Option<*const u32> {
    let mask = rings.entries.load(Ordering::Relaxed) - 1;
    let fetched = rings.fetched.load(Ordering::Relaxed);
    let slot = fetched & mask;
    if slot == tail {
        return None;
    }
    rings.fetched.store(fetched.wrapping_add(1), Ordering::Relaxed);
    let submission = rings.submission.load(Ordering::Relaxed) as usize as *const u32;
    // SAFETY: the slot is masked, and the ring has that many entries of 64 bytes.
    Some(unsafe { submission.add(usize::from(slot) * 16) })
}

/// Completes the command `cid` with `result`.
#[inline(always)]
pub(super) fn complete(NullQueue(rings): &NullQueue, cid: u32, result: u32) {
    let entries = rings.entries.load(Ordering::Relaxed);
    let done = rings.done.load(Ordering::Relaxed);
    let head = rings.fetched.load(Ordering::Relaxed) & (entries - 1);
    let completion = rings.completion.load(Ordering::Relaxed) as usize as *const AtomicU32;
    let slot = usize::from(done & (entries - 1)) * 4;
    let phase = u32::from(done & entries == 0);
    rings.done.store(done.wrapping_add(1), Ordering::Relaxed);
    // SAFETY: the slot is masked, and the ring has that many entries of 16 bytes; both sides reach them by atomics.
    unsafe { &*completion.add(slot) }.store(result, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { &*completion.add(slot + 2) }.store(u32::from(head), Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { &*completion.add(slot + 3) }.store(cid | phase << 16, Ordering::Release);
}

#[inline(never)]
fn null_device_acknowledge(_: &NullQueue, _head: u16) {
    DOORBELLS.fetch_add(1, Ordering::Relaxed);
}

/// Takes the addresses of the rings from the commands that create them, and passes these on.
struct Clerk<'a, 'b> {
    queue: Arc<NullQueue>,
    admin: Option<&'a mut (dyn Admin + 'b)>,
}

impl Admin for Clerk<'_, '_> {
    fn execute(&mut self, command: &QueueCommand) -> Result<u32, AdminError> {
        let sqe = command.sqe();
        match Opcode(sqe.opcode) {
            Opcode::CREATE_SQ => self.queue.0.submission.store(sqe.prp1().0, Ordering::Relaxed),
            Opcode::CREATE_CQ => self.queue.0.completion.store(sqe.prp1().0, Ordering::Relaxed),
            _ => {}
        }
        match &mut self.admin {
            Some(admin) => admin.execute(command),
            None => Ok(0),
        }
    }
}

fn describe(ptr: NonNull<u8>, len_bytes: usize, direction: Direction, domain: DomainId) -> Arc<Mapping> {
    let extent = Extent { addr: BusAddr(ptr.addr().get() as u64), len_bytes: len_bytes as u64 };
    // SAFETY: the device reaches rings only, which are leaked.
    Arc::new(unsafe { Mapping::new(Box::new([extent]), direction, domain, Box::new(())) })
}

impl Backend for Null {
    type Port = PciePort<NullBell>;
    type Clock = MonotonicClock;

    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        self.registers.read(property)
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
        self.traits.enables.note(property, value);
        self.registers.write(property, value, &self.admin);
        Ok(())
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        let align = need.align_bytes.max(4096);
        let buffer = NonNull::from(vec![0u8; need.len_bytes + align].leak()).cast::<u8>();
        // SAFETY: rounding up moves by less than the `align` bytes on top.
        let ptr = unsafe { buffer.byte_add(buffer.align_offset(align)) };
        // SAFETY: leaked, zeroed, and nobody else's.
        Ok(unsafe { Dma::new(ptr, describe(ptr, need.len_bytes, need.direction, self.traits.domain)) })
    }

    unsafe fn map(&self, source: Source, direction: Direction) -> Result<Arc<Mapping>, HalError> {
        match source {
            Source::Host { ptr, len_bytes } => Ok(describe(ptr, len_bytes, direction, self.traits.domain)),
            _ => self.cannot("that kind of memory"),
        }
    }

    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        let bells = |queue: &Arc<NullQueue>, ring: fn(&NullQueue, u16)| {
            [ring, null_device_acknowledge as fn(&NullQueue, u16)]
                .map(|ring| NullBell { queue: Arc::clone(queue), ring })
        };
        if spec.qid == Qid::ADMIN {
            return pcie::open_port(self, spec, None, bells(&self.admin, null_device_admin));
        }
        let queue = Arc::new(NullQueue::default());
        queue.reset(spec.entries);
        let bells = bells(&queue, null_device_complete);
        // Without an admin queue to be asked through, it is there by itself.
        pcie::open_port(self, spec, Some(&mut Clerk { queue, admin }), bells)
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        pcie::close_port(self, port, admin)
    }
}
