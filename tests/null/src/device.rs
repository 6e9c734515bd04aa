//! The device and its backend.
//!
//! What the device itself costs is in `null_device_complete` and `null_device_acknowledge`, which are never inlined, so
//! that a profiler can leave them out by name.
//!
//! UNSAFETY: plays the backend and the device, over leaked buffers.

#![allow(unsafe_code)]

use nvme_proto::admin::Opcode;
use nvme_proto::register::{Cc, Property};
use nvme_proto::{BusAddr, PageSize};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use ugds_hal::pcie::{self, Doorbell, PciePort};
use ugds_hal::{
    Admin, AdminError, Backend, Command, Direction, Dma, DomainId, Extent, HalError, Layout, Mapping,
    MonotonicClock, OpenError, PortSpec, Quarantine, Source, Traits,
};

/// A backend whose bus addresses are the host's.
#[derive(Debug)]
pub struct Null {
    traits: Traits,
    clock: MonotonicClock,
}

/// The rings of one queue pair, as the device knows them.
#[derive(Debug, Default)]
struct Rings {
    submission: AtomicU64,
    completion: AtomicU64,
    entries: AtomicU16,
    /// Commands completed, free-running.
    done: AtomicU16,
}

/// A doorbell of the null device.
#[derive(Debug)]
pub enum NullBell {
    /// Of the submission queue: it makes the device work.
    Submission(Arc<NullQueue>),
    /// Of the completion queue: nobody listens.
    Completion,
}

/// One queue of the null device.
#[derive(Debug, Default)]
pub struct NullQueue(Rings);

impl Null {
    /// Creates one.
    #[must_use]
    pub fn new() -> Self {
        let traits = Traits::local(DomainId::fresh(), "null", "nowhere: nothing is moved".into());
        Self { traits, clock: MonotonicClock::new() }
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
        match self {
            Self::Submission(queue) => null_device_complete(&queue.0, value as u16),
            Self::Completion => null_device_acknowledge(),
        }
    }
}

/// Completes every command up to `tail`.
#[inline(never)]
fn null_device_complete(rings: &Rings, tail: u16) {
    let entries = rings.entries.load(Ordering::Relaxed);
    let submission = rings.submission.load(Ordering::Relaxed) as usize as *const u32;
    let completion = rings.completion.load(Ordering::Relaxed) as usize as *const AtomicU32;
    let mut done = rings.done.load(Ordering::Relaxed);
    while done & (entries - 1) != tail {
        let slot = usize::from(done & (entries - 1));
        // SAFETY: the slot is masked, and the rings have that many entries of 64 and 16 bytes.
        let cid = unsafe { submission.add(slot * 16).read_volatile() } >> 16;
        let phase = u32::from(done & entries == 0);
        done = done.wrapping_add(1);
        // SAFETY: as above; both sides reach completions by atomics.
        unsafe { &*completion.add(slot * 4 + 2) }.store(u32::from(done & (entries - 1)), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { &*completion.add(slot * 4 + 3) }.store(cid | phase << 16, Ordering::Release);
    }
    rings.done.store(done, Ordering::Relaxed);
}

#[inline(never)]
fn null_device_acknowledge() {
    std::hint::black_box(());
}

/// Takes the addresses of the rings from the commands that create them.
struct Clerk(Arc<NullQueue>);

impl Admin for Clerk {
    fn execute(&mut self, command: &Command<'static>) -> Result<u32, AdminError> {
        let sqe = command.sqe();
        match Opcode(sqe.opcode) {
            Opcode::CREATE_SQ => self.0.0.submission.store(sqe.prp1().0, Ordering::Relaxed),
            Opcode::CREATE_CQ => self.0.0.completion.store(sqe.prp1().0, Ordering::Relaxed),
            _ => {}
        }
        Ok(0)
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
        match property {
            Property::CC => Ok(Cc::for_page(PageSize::MIN).with_en(true).into_bits().into()),
            other => Err(HalError::Register { offset: other.offset(), reason: "the null device has none" }),
        }
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
        self.traits.enables.note(property, value);
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
        _admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        let queue = Arc::new(NullQueue::default());
        queue.0.entries.store(spec.entries, Ordering::Relaxed);
        let bells = [NullBell::Submission(Arc::clone(&queue)), NullBell::Completion];
        pcie::open_port(self, spec, Some(&mut Clerk(queue)), bells)
    }

    fn close_port(
        &self,
        port: Self::Port,
        _admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        pcie::close_port(self, port, None)
    }
}
