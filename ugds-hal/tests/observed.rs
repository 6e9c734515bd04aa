//! What is written down and measured about commands, whatever the device does with them, around faults and inside.
//!
//! UNSAFETY: counts allocations in an allocator of its own, and sends commands to a model that checks every access.

#![allow(unsafe_code)]

use core::time::Duration;
use nvme_proto::admin::{FeatureId, Opcode};
use nvme_proto::register::{Cc, Property};
use nvme_proto::zerocopy::little_endian::U32;
use nvme_proto::{Cid, Nsid, PageSize, Qid, Sqe, Status};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use ugds_hal::emu::{Emu, EmuConfig};
use ugds_hal::faulty::Faulty;
use ugds_hal::metered::{Metered, Meters};
use ugds_hal::observed::Observed;
use ugds_hal::traced::{Event, Step, Trace, Traced, Tracer};
use ugds_hal::{Backend, Clock, Command, Completion, Instant, Port, PortSpec, Reaped, Violation};

/// An enabled controller and its admin queue.
struct Rig<B: Backend> {
    backend: B,
    emu: Emu,
    port: B::Port,
}

impl<B: Backend> Rig<B> {
    fn new(emu: &Emu, backend: B) -> Self {
        let page = PageSize::MIN;
        let spec =
            PortSpec { qid: Qid::ADMIN, entries: 16, page, completion: Completion::Poll, shadow: None };
        let Ok(port) = backend.open_port(&spec, None) else { panic!("the port was not opened") };
        for cc in [Cc::for_page(page), Cc::for_page(page).with_en(true)] {
            backend.property_write(Property::CC, cc.into_bits().into()).unwrap();
        }
        Self { backend, emu: emu.clone(), port }
    }

    fn stage(&mut self, cid: u16) {
        let mut sqe = Sqe::new(Opcode::GET_FEATURES.0, Nsid::NONE);
        sqe.cdw10 = U32::new(FeatureId::NUMBER_OF_QUEUES.0.into());
        // SAFETY: the command has no address.
        self.port.stage(Cid(cid), &unsafe { Command::new_unchecked(sqe) });
    }

    /// Tells the device, and lets it do all it can.
    fn ring(&mut self) {
        self.port.publish();
        self.emu.run_until_idle();
    }

    /// Makes a pass in one of the ways that there are, and returns what was seen.
    fn pass(&mut self, way: usize) -> Vec<(u16, Status)> {
        let mut seen = Vec::new();
        let each = |reaped: Reaped<'_>| {
            seen.push((reaped.cid().0, reaped.status()));
            Ok::<(), Violation>(())
        };
        match way % 3 {
            0 => self.port.pass(each).1.unwrap(),
            1 => drop(self.port.one(each).unwrap()),
            _ => {
                if let Some(cqe) = self.port.next() {
                    seen.push((cqe.cid().0, cqe.status()));
                    self.port.retire().unwrap();
                }
            }
        }
        seen
    }

    fn let_pass(&self, time: Duration) {
        let clock = self.backend.clock();
        clock.wait_until(clock.now().after(time));
    }
}

fn stepped() -> Emu {
    Emu::new(EmuConfig::default().stepped()).unwrap()
}

/// Checks that each completion has exactly one staging and one publication before it, in the order of their times, and
/// counts completions and strays.
fn check(trace: &Trace) -> (usize, usize) {
    let mut lives: BTreeMap<(Qid, Cid), Vec<Event>> = BTreeMap::new();
    let (mut completed, mut stray) = (0, 0);
    let mut last = Instant::default();
    for event in &trace.events {
        assert!(event.at >= last, "time goes backwards: {event:?}");
        last = event.at;
        let life = lives.entry((event.qid, event.cid)).or_default();
        match event.step {
            Step::Staged => {
                // The completion of the last command of that name may have got lost.
                life.clear();
                life.push(*event);
            }
            Step::Published => {
                assert!(matches!(life[..], [Event { step: Step::Staged, .. }]), "{event:?} after {life:?}");
                life.push(*event);
            }
            Step::Completed(_) => {
                let steps: Vec<Step> = life.iter().map(|event| event.step).collect();
                assert_eq!(steps, [Step::Staged, Step::Published], "{event:?}");
                assert!(life.iter().all(|before| before.about == event.about));
                life.clear();
                completed += 1;
            }
            Step::Stray(_) => stray += 1,
            other => panic!("unknown step {other:?}"),
        }
    }
    (completed, stray)
}

/// What a test does with a queue.
#[derive(Clone, Copy, Debug)]
enum Act {
    Stage,
    Ring,
    Pass(usize),
    Wait,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Stage),
        2 => Just(Act::Ring),
        3 => (0usize..3).prop_map(Act::Pass),
        1 => Just(Act::Wait),
    ]
}

/// Does what `acts` say, with at most 15 commands outstanding as far as this side knows, and returns how many
/// completions were seen.
fn play<B: Backend>(rig: &mut Rig<B>, acts: &[Act]) -> usize {
    let (mut outstanding, mut next, mut seen) = (Vec::new(), 0u16, 0);
    for act in acts.iter().chain(&[Act::Ring, Act::Wait, Act::Pass(0), Act::Pass(0), Act::Pass(0)]) {
        match act {
            Act::Stage if outstanding.len() < 15 => {
                // Few, so that they are used again, but none that is outstanding.
                let cid = (0..).map(|n| (next + n) % 24).find(|cid| !outstanding.contains(cid)).unwrap();
                next = cid + 1;
                rig.stage(cid);
                outstanding.push(cid);
            }
            Act::Stage => {}
            Act::Ring => rig.ring(),
            Act::Pass(way) => {
                let found = rig.pass(*way);
                seen += found.len();
                outstanding.retain(|cid| !found.iter().any(|(done, _)| done == cid));
            }
            Act::Wait => rig.let_pass(Duration::from_millis(10)),
        }
    }
    seen
}

/// Completions that are late are out of order; some are dropped, double, or of nothing.
const PLANS: [&str; 4] = [
    "",
    "delay-cqe:nth=3,by=5ms; duplicate-cqe:nth=5; duplicate-cqe:nth=6; fail:nth=8,status=0/06",
    "corrupt-cid:nth=2,xor=0x100; corrupt-cid:nth=4,xor=0x1; delay-cqe:nth=7,by=1ms; drop-cqe:nth=9",
    "drop-cqe:nth=2; drop-cqe:nth=3; duplicate-cqe:nth=4; corrupt-status:nth=6+,status=1/0b",
];

proptest! {
    #[test]
    fn each_completion_has_one_staging_and_one_publication_before_it(
        acts in prop::collection::vec(act(), 0..120),
        plan in 0..PLANS.len(),
    ) {
        // Around faults: what the driver sees.
        let emu = stepped();
        let tracer = Tracer::new(4096);
        let faulty = Faulty::over_model(emu.clone(), PLANS[plan].parse().unwrap()).unwrap();
        let mut rig = Rig::new(&emu, Traced::with(faulty, tracer.clone()));
        let seen = play(&mut rig, &acts);
        let trace = tracer.drain();
        let (completed, stray) = check(&trace);
        prop_assert_eq!((completed + stray, trace.dropped), (seen, 0), "each is one or the other");
        prop_assert!(plan != 0 || stray == 0);
        prop_assert!(tracer.drain().events.is_empty());

        // Inside: what the device does, which is right.
        let emu = stepped();
        let tracer = Tracer::new(4096);
        let traced = Traced::with(emu.clone(), tracer.clone());
        let faulty = Faulty::over_model(traced, PLANS[plan].parse().unwrap()).unwrap();
        let mut rig = Rig::new(&emu, faulty);
        play(&mut rig, &acts);
        let (completed, stray) = check(&tracer.snapshot());
        prop_assert_eq!(stray, 0);
        let staged = tracer.snapshot().events.iter().filter(|event| event.step == Step::Staged).count();
        prop_assert!(completed <= staged);
        emu.assert_clean();
    }

    #[test]
    fn meters_agree_with_the_trace(acts in prop::collection::vec(act(), 0..120), plan in 0..PLANS.len()) {
        let emu = stepped();
        let (tracer, meters) = (Tracer::new(4096), Meters::new());
        let faulty = Faulty::over_model(emu.clone(), PLANS[plan].parse().unwrap()).unwrap();
        let backend = Observed::with(faulty, (tracer.clone(), Some(meters.clone())));
        let mut rig = Rig::new(&emu, backend);
        play(&mut rig, &acts);
        let (mut rung, mut times, mut failed, mut passes) = (BTreeMap::new(), Vec::new(), 0, Vec::new());
        for event in tracer.snapshot().events {
            match event.step {
                Step::Published => drop(rung.insert(event.cid, event.at)),
                Step::Completed(status) => {
                    times.push(event.at.since(rung[&event.cid]));
                    failed += u64::from(!status.is_success());
                    passes.push(event.at);
                }
                Step::Stray(_) => passes.push(event.at),
                _ => {}
            }
        }
        let readings = meters.read();
        prop_assert_eq!(readings.len(), 1);
        let reading = &readings[0];
        prop_assert_eq!((reading.qid, reading.data.count()), (Qid::ADMIN, 0));
        prop_assert_eq!((reading.control.count(), reading.control_failed), (times.len() as u64, failed));
        prop_assert_eq!(reading.control.total_ns(), times.iter().map(|time| time.as_nanos() as u64).sum::<u64>());
        let different = passes.iter().collect::<BTreeSet<_>>().len() as u64;
        prop_assert!(reading.passes >= different && reading.passes <= passes.len() as u64);
    }
}

#[test]
fn a_full_trace_keeps_the_newest_and_counts_the_others() {
    let emu = stepped();
    let tracer = Tracer::new(8);
    let mut rig = Rig::new(&emu, Traced::with(emu.clone(), tracer.clone()));
    for cid in 0..10 {
        rig.stage(cid);
        rig.ring();
        assert_eq!(rig.pass(cid.into()), [(cid, Status::SUCCESS)]);
    }
    let trace = tracer.snapshot();
    assert_eq!((trace.events.len(), trace.dropped), (8, 22));
    assert_eq!(trace.events.last().unwrap().step, Step::Completed(Status::SUCCESS));
    assert_eq!(trace.events.last().unwrap().cid, Cid(9));
    assert_eq!(tracer.drain(), trace);
    assert_eq!(tracer.drain(), Trace::default());
}

#[test]
fn what_is_published_and_completed_together_has_one_time() {
    let emu = stepped();
    let tracer = Tracer::new(64);
    let mut rig = Rig::new(&emu, Traced::with(emu.clone(), tracer.clone()));
    (0..4).for_each(|cid| rig.stage(cid));
    rig.ring();
    assert_eq!(rig.pass(0).len(), 4);
    let trace = tracer.drain();
    let times = |wanted: fn(Step) -> bool| {
        let mut times: Vec<_> =
            trace.events.iter().filter(|event| wanted(event.step)).map(|event| event.at).collect();
        assert_eq!(times.len(), 4);
        times.dedup();
        times
    };
    assert_eq!(times(|step| step == Step::Staged).len(), 1);
    assert_eq!(times(|step| step == Step::Published).len(), 1);
    assert_eq!(times(|step| matches!(step, Step::Completed(_))).len(), 1);
}

#[test]
fn a_port_that_is_opened_again_goes_on_in_its_ring() {
    let emu = stepped();
    let tracer = Tracer::new(64);
    for _ in 0..2 {
        let mut rig = Rig::new(&emu, Traced::with(emu.clone(), tracer.clone()));
        rig.stage(1);
        rig.ring();
        rig.pass(0);
        rig.backend.stop(ugds_hal::Stop::Disable(Duration::from_secs(1))).unwrap();
        assert!(rig.backend.close_port(rig.port, None).is_ok());
    }
    assert_eq!(check(&tracer.snapshot()), (2, 0));
}

#[test]
fn the_io_path_allocates_nothing() {
    let emu = stepped();
    let observer = (Some(Tracer::new(64)), Some(Meters::new()));
    let mut rig = Rig::new(&emu, Observed::with(emu.clone(), observer));
    let sqe = Sqe::new(Opcode::GET_FEATURES.0, Nsid::NONE);
    for lap in 0..40 {
        // SAFETY: the command has no address.
        let command = unsafe { Command::new_unchecked(sqe) };
        let staged = allocations(|| (0..15).for_each(|cid| rig.port.stage(Cid(lap * 15 + cid), &command)));
        rig.ring();
        let mut left = 15;
        let taken = allocations(|| {
            while left != 0 {
                left -= rig.port.pass(|_| Ok::<(), Violation>(())).0;
            }
        });
        assert_eq!((staged, taken), (0, 0), "lap {lap}");
    }
}

#[test]
fn a_wrapped_backend_says_so_and_is_the_same_device() {
    let emu = stepped();
    let traced = Traced::with(emu.clone(), Tracer::new(1));
    assert!(traced.traits().path.ends_with(", traced"));
    assert_eq!(traced.traits().domain, emu.traits().domain);
    assert_eq!(Metered::with(emu.clone(), Meters::new()).traits().path, emu.traits().path);
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
