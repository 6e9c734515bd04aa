//! What the wrapped port and the wrapped registers do, seen from right above them.
//!
//! UNSAFETY: counts allocations in an allocator of its own, and sends commands to a model that checks every access.

#![allow(unsafe_code)]

use core::time::Duration;
use nvme_proto::admin::{FeatureId, Opcode};
use nvme_proto::register::{Cc, Csts, Property};
use nvme_proto::zerocopy::little_endian::U32;
use nvme_proto::{Cid, Cqe, Nsid, PageSize, Qid, Sqe, Status};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use ugds_hal::emu::{Emu, EmuClock, EmuConfig, EmuDoorbell};
use ugds_hal::faulty::{FaultPlan, Faulty, FaultyPort};
use ugds_hal::pcie::PciePort;
use ugds_hal::{Backend, Clock, Command, Completion, HalError, Port, PortSpec, Stop};

type AdminPort = FaultyPort<PciePort<EmuDoorbell>, EmuClock>;

/// An enabled controller and its admin queue.
struct Rig {
    faulty: Faulty<Emu>,
    port: AdminPort,
}

impl Rig {
    fn new(plan: &str) -> Self {
        let emu = Emu::new(EmuConfig::default().stepped()).unwrap();
        let faulty = Faulty::over_model(emu, plan.parse().unwrap()).unwrap();
        let page = PageSize::MIN;
        let spec =
            PortSpec { qid: Qid::ADMIN, entries: 16, page, completion: Completion::Poll, shadow: None };
        let port = faulty.open_port(&spec, None).unwrap();
        for cc in [Cc::for_page(page), Cc::for_page(page).with_en(true)] {
            faulty.property_write(Property::CC, cc.into_bits().into()).unwrap();
        }
        Self { faulty, port }
    }

    /// Sends a command that needs no memory: Get Features of the number of queues.
    fn send(&mut self, cid: u16) {
        let mut sqe = Sqe::new(Opcode::GET_FEATURES.0, Nsid::NONE);
        sqe.cdw10 = U32::new(FeatureId::NUMBER_OF_QUEUES.0.into());
        // SAFETY: the command has no address.
        let command = unsafe { Command::new_unchecked(sqe) };
        self.port.stage(Cid(cid), &command);
        self.port.publish();
        self.faulty.inner().run_until_idle();
    }

    fn take(&mut self) -> Option<(u16, Status)> {
        let cqe: Cqe = self.port.next()?;
        self.port.retire().unwrap();
        Some((cqe.cid().0, cqe.status()))
    }

    fn pass(&self, milliseconds: u64) {
        let clock = self.faulty.clock();
        clock.wait_until(clock.now().after(Duration::from_millis(milliseconds)));
    }

    fn status(&self) -> Csts {
        Csts::from_bits(self.faulty.property_read(Property::CSTS).unwrap() as u32)
    }

    fn stop(&self) -> Result<(), HalError> {
        self.faulty.stop(Stop::Disable(Duration::from_secs(1))).map(drop)
    }
}

#[test]
fn each_completion_gets_what_the_plan_says() {
    let mut rig = Rig::new(
        "drop-cqe:nth=2; duplicate-cqe:nth=3; corrupt-cid:nth=4,xor=0x100; corrupt-status:nth=5,status=1/0b; \
         delay-cqe:nth=6,by=5ms; fail:nth=7+,status=0/06+dnr",
    );
    (1..=8).for_each(|cid| rig.send(cid));
    let ok = Status::SUCCESS;
    let failed = Status::new(0, 6).with_do_not_retry();
    let seen: Vec<_> = core::iter::from_fn(|| rig.take()).collect();
    let expected =
        [(1, ok), (3, ok), (3, ok), (0x104, ok), (5, Status::new(1, 0x0b)), (7, failed), (8, failed)];
    assert_eq!(seen, expected);
    rig.pass(4);
    assert_eq!(rig.take(), None);
    rig.pass(1);
    assert_eq!(rig.take(), Some((6, ok)));
    assert_eq!(rig.faulty.fired(), 7);
    rig.stop().unwrap();
    rig.faulty.inner().assert_clean();
}

#[test]
fn a_trigger_counts_only_what_meets_the_rest_of_it() {
    let mut rig =
        Rig::new("drop-cqe:opcode=0x06,nth=1; drop-cqe:qid=1; drop-cqe:after=1s,nth=2; drop-cqe:lba=0+9");
    (1..=3).for_each(|cid| rig.send(cid));
    rig.pass(1000);
    (4..=6).for_each(|cid| rig.send(cid));
    let seen: Vec<_> = core::iter::from_fn(|| rig.take()).map(|(cid, _)| cid).collect();
    assert_eq!(seen, [1, 2, 3, 4, 6]);
}

#[test]
fn what_lasts_ends_with_a_reset_except_that_a_device_is_gone() {
    for (plan, ends) in [("hang:nth=2", true), ("cfs:nth=2", true), ("gone:nth=2", false)] {
        let mut rig = Rig::new(plan);
        rig.send(1);
        rig.send(2);
        // The first was on its way before; what lasts hides it too.
        assert_eq!(rig.take(), None, "{plan}");
        assert_eq!((rig.status().cfs(), rig.status().is_gone()), (plan != "hang:nth=2", !ends), "{plan}");
        assert_eq!(rig.stop().is_ok(), ends, "{plan}");
        assert_eq!(rig.status().cfs(), !ends, "{plan}");
        let all_ones = rig.faulty.property_read(Property::CAP).unwrap() == u64::MAX;
        assert_eq!(all_ones, !ends, "{plan}");
    }
}

#[test]
fn registers_hide_readiness_and_the_reset_that_did_not_happen() {
    let rig = Rig::new("slow-ready:by=300ms; stuck-disable:nth=2");
    assert!(!rig.status().rdy());
    rig.pass(300);
    assert!(rig.status().rdy());
    rig.stop().unwrap();
    let cc = Cc::for_page(PageSize::MIN).with_en(true).into_bits().into();
    rig.faulty.property_write(Property::CC, cc).unwrap();
    rig.pass(300);
    assert!(matches!(rig.stop(), Err(HalError::NotStopped { waited_ms: 1000 })));
    let read = Cc::from_bits(rig.faulty.property_read(Property::CC).unwrap() as u32);
    assert!(!read.en() && rig.status().rdy());
    let inside = Csts::from_bits(rig.faulty.inner().property_read(Property::CSTS).unwrap() as u32);
    assert!(inside.rdy(), "the device goes on");
}

#[test]
fn the_io_path_allocates_nothing() {
    for plan in ["", "drop-cqe:nth=3; delay-cqe:nth=5,by=1us; duplicate-cqe:nth=7; fail:nth=9+,status=0/06"] {
        let mut rig = Rig::new(plan);
        let sqe = Sqe::new(Opcode::GET_FEATURES.0, Nsid::NONE);
        for lap in 0..40 {
            // SAFETY: the command has no address.
            let command = unsafe { Command::new_unchecked(sqe) };
            let staged = allocations(|| {
                for cid in 0..15 {
                    rig.port.stage(Cid(lap * 15 + cid), &command);
                }
            });
            rig.port.publish();
            rig.faulty.inner().run_until_idle();
            let taken = allocations(|| while rig.take().is_some() {});
            rig.pass(1);
            let late = allocations(|| while rig.take().is_some() {});
            assert_eq!((staged, taken, late), (0, 0, 0), "{plan:?}, lap {lap}");
        }
        assert_eq!(rig.faulty.fired() != 0, !plan.is_empty());
    }
}

#[test]
fn a_plan_that_can_not_be_is_refused_with_what_could() {
    let emu = Emu::new(EmuConfig::default().stepped()).unwrap();
    let plan: FaultPlan = "late-data:by=1ms".parse().unwrap();
    assert!(Faulty::new(emu.clone(), plan.clone()).unwrap_err().to_string().contains("needs a device model"));
    let wrapped = Faulty::over_model(emu.clone(), plan).unwrap();
    assert!(wrapped.traits().path.ends_with("with faults by plan (late-data:by=1ms)"));
    assert_eq!(wrapped.traits().domain, emu.traits().domain);
}

/// Allocations that this thread makes in `f`.
fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
