//! Random plans of faults under random operations. Whatever the device does, a call returns the right data or a typed
//! error within a bounded time, nothing that was given back is written to, and a proved stop leaves nothing.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::Duration;
use ugds::emu::{Emu, EmuConfig};
use ugds::faulty::{Access, Blocks, Fault, FaultPlan, Faulty, Nth, Trigger, What};
use ugds::nvme::{Lba, Qid, Status};
use ugds::{Device, Error, Namespace, Options, Region};
use ugds_hal::{Backend, Clock, Instant};
use ugds_tests::oracle::Random;

fn what() -> impl Strategy<Value = What> {
    let time = || (0u64..40_000).prop_map(Duration::from_millis);
    prop_oneof![
        Just(What::Fail(Status::new(0, 6))),
        Just(What::Media(Access::Read)),
        Just(What::Media(Access::Write)),
        Just(What::Drop),
        time().prop_map(What::Delay),
        Just(What::Duplicate),
        // Bits that no other outstanding command's identifier differs in: a device that exchanges two commands of one
        // queue can't be found out.
        (12u32..16).prop_map(|bit| What::CorruptCid(1 << bit)),
        Just(What::CorruptStatus(Status::new(2, 0x85))),
        (0u32..16).prop_map(|bit| What::CorruptSqhd(1 << bit)),
        Just(What::CorruptPhase),
        time().prop_map(What::LateData),
        Just(What::Hang),
        Just(What::Fatal),
        Just(What::Gone),
        time().prop_map(What::SlowReady),
        Just(What::StuckDisable),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let nth = prop_oneof![(1u64..40).prop_map(Nth::Only), (1u64..40).prop_map(Nth::From)];
    let blocks = (0u64..BLOCKS, 1u64..64).prop_map(|(first, count)| Blocks { first: Lba(first), count });
    let opcode = prop_oneof![Just(0u8), Just(1), Just(2), Just(5), Just(6), Just(8), Just(9)];
    let when = (
        prop::option::weighted(0.6, 0u16..4),
        prop::option::weighted(0.4, opcode),
        prop::option::weighted(0.3, blocks),
        prop::option::weighted(0.9, nth),
        prop_oneof![3 => Just(0u64), 1 => 1u64..100],
    );
    (what(), when).prop_map(|(what, (qid, opcode, blocks, nth, after))| {
        let after = Duration::from_millis(after);
        let mut when = Trigger { qid: qid.map(Qid), opcode, blocks, nth, after };
        match what {
            What::Media(_) => when.opcode = None,
            What::SlowReady(_) | What::StuckDisable => {
                (when.qid, when.opcode, when.blocks) = (None, None, None);
            }
            _ => {}
        }
        Fault { what, when }
    })
}

fn run(plan: &FaultPlan, seed: u64) -> Outcome {
    let text = plan.to_string();
    assert_eq!(&text.parse::<FaultPlan>().unwrap(), plan);
    let emu = Emu::new(EmuConfig::default().with_namespaces(1, BLOCKS * 512, 512).stepped()).unwrap();
    let faulty = Faulty::over_model(emu.clone(), plan.clone()).unwrap();
    let mut options = Options::default();
    (options.queues, options.queue_entries) = (3, 16);
    let opened = Device::with_faulty(faulty.clone(), options.clone(), None);
    let has = |wanted: fn(What) -> bool| plan.faults.iter().any(|fault| wanted(fault.what));
    let lies = has(|what| matches!(what, What::LateData(_)));
    let stops = !has(|what| matches!(what, What::Gone | What::StuckDisable));
    let begin = emu.clock().now();
    let mut outcome = Outcome::default();
    if let Ok(device) = opened {
        outcome.opened = 1;
        if let Ok(namespace) = device.namespace().cloned() {
            operate(&emu, &device, &namespace, seed, lies, &mut outcome, &text);
        }
        // A controller that is hung answers nothing while its queues are deleted, and may say so.
        let _ = device.close();
    }
    // Of a large write at most a quarter is in flight at once while small reads are about, and each may take 40 s.
    assert!(emu.clock().now().since(begin) < Duration::from_secs(7000), "{text}: a bounded time");
    pass(&emu, Duration::from_secs(100));
    if !lies {
        assert_eq!(emu.violations(), [], "{text}");
    }
    if stops {
        assert_eq!(emu.live_mappings(), 0, "{text}");
        Device::with_emu(emu.clone(), options, None).unwrap().close().unwrap();
    }
    outcome.fired = faulty.fired();
    outcome
}

/// Reads and writes, and keeps what is known of the blocks: a write that failed may have changed its own.
fn operate(
    emu: &Emu,
    device: &Device,
    namespace: &Namespace,
    seed: u64,
    lies: bool,
    outcome: &mut Outcome,
    text: &str,
) {
    let Ok(region) = device.alloc(REGION_BYTES) else { return };
    let mut known: Vec<Option<u8>> = vec![Some(0); BLOCKS as usize];
    let mut random = Random::new(seed);
    for step in 0..OPERATIONS {
        let blocks = 1 + (random.below(REGION_BYTES as u64 / 512) >> random.below(9)) as usize;
        let first = random.below(BLOCKS - blocks as u64 + 1) as usize;
        let bytes = 0..blocks * 512;
        let begin = emu.clock().now();
        let result = match random.below(10) {
            0 => namespace.flush(),
            1..5 => {
                let byte = step as u8 + 1;
                region.copy_in(0, &vec![byte; blocks * 512]).unwrap();
                let result = namespace.write(&region, bytes, Lba(first as u64));
                let now = result.as_ref().ok().map(|()| byte);
                known[first..first + blocks].fill(now);
                result
            }
            _ => {
                let result = namespace.read(&region, bytes, Lba(first as u64));
                if result.is_ok() && !lies {
                    compare(&region, &known[first..first + blocks], text);
                }
                result
            }
        };
        let waited = emu.clock().now().since(begin);
        assert!(waited < Duration::from_secs(400), "{text}: {waited:?} for one call");
        outcome.calls += 1;
        match result {
            Ok(()) => {}
            Err(Error::Io(failure)) => {
                outcome.failed += 1;
                assert!(!failure.status.is_success(), "{text}");
            }
            Err(Error::Wedged(_) | Error::Closed) => {
                outcome.wedged = 1;
                assert!(device.wedged().is_some(), "{text}");
            }
            Err(other) => panic!("{text}: {other}"),
        }
    }
}

fn compare(region: &Region, known: &[Option<u8>], text: &str) {
    let mut bytes = vec![0; known.len() * 512];
    region.copy_out(0, &mut bytes).unwrap();
    for (block, byte) in bytes.chunks(512).zip(known) {
        if let Some(byte) = byte {
            assert!(block.iter().all(|found| found == byte), "{text}: {:#x} is not {byte:#x}", block[0]);
        }
    }
}

fn pass(emu: &Emu, time: Duration) {
    let clock = emu.clock();
    let until: Instant = clock.now().after(time);
    clock.wait_until(until);
}

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    opened: u32,
    calls: u32,
    failed: u32,
    wedged: u32,
    fired: u64,
}

#[test]
fn whatever_the_device_does_is_right_or_a_typed_error() {
    let cases = if cfg!(debug_assertions) { 1000 } else { 10_000 };
    let total = std::cell::RefCell::new(Outcome::default());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(prop::collection::vec(fault(), 0..4), any::<u64>()), |(faults, seed)| {
            let one = run(&FaultPlan { faults }, seed);
            let mut total = total.borrow_mut();
            total.opened += one.opened;
            total.calls += one.calls;
            total.failed += one.failed;
            total.wedged += one.wedged;
            total.fired += one.fired;
            Ok(())
        })
        .unwrap();
    let total = total.into_inner();
    println!("{cases} plans: {total:?}");
    // Else it is no test of faults.
    assert!(
        total.fired > u64::from(cases / 2) && total.wedged > cases / 20 && total.opened > cases / 3,
        "{total:?}"
    );
}

const BLOCKS: u64 = 4096;
const REGION_BYTES: usize = 512 << 10;
const OPERATIONS: u32 = 40;
