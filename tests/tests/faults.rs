//! What a caller sees of a device that misbehaves, for each way of doing so, and who gives memory back when. The
//! controller model is stepped by hand, so a time-out of thirty seconds takes no time. Its record of DMA and of live
//! mappings is the judge.

use std::time::Duration;
use ugds::emu::{DmaViolation, Emu, EmuConfig, Reason};
use ugds::faulty::Faulty;
use ugds::nvme::{Lba, Qid};
use ugds::{Device, Error, Operation, Options, Policy, Wedge};
use ugds_hal::{AdminError, Backend, Clock, HalError};
use ugds_queue::controller::ControllerError;

fn emu() -> Emu {
    Emu::new(EmuConfig::default().with_namespaces(1, 16 << 20, 512).stepped()).unwrap()
}

fn options() -> Options {
    let mut options = Options::default();
    (options.queues, options.queue_entries) = (2, 64);
    // The first request of a device goes to its first queue, whatever thread it comes from.
    options.policy = Policy::RoundRobin;
    options
}

fn try_open(emu: &Emu, plan: &str) -> (Result<Device, Error>, Faulty<Emu>) {
    let faulty = Faulty::over_model(emu.clone(), plan.parse().unwrap()).unwrap();
    (Device::with_faulty(faulty.clone(), options(), None), faulty)
}

fn open(emu: &Emu, plan: &str) -> Device {
    try_open(emu, plan).0.unwrap()
}

/// The first read of `device`, and the region it went to.
fn read(device: &Device) -> (Result<(), Error>, ugds::Region) {
    let region = device.alloc(4096).unwrap();
    (device.namespace().unwrap().read(&region, 0..4096, Lba(0)), region)
}

/// Nothing is left of the devices before, and the next one works.
fn assert_usable_again(emu: &Emu, name: &str) {
    assert_eq!(emu.violations(), [], "{name}");
    assert_eq!(emu.live_mappings(), 0, "{name}");
    let device = Device::with_emu(emu.clone(), options(), None).unwrap();
    let (result, region) = read(&device);
    result.unwrap();
    drop(region);
    device.close().unwrap();
    assert_eq!(emu.live_mappings(), 0, "{name}");
    emu.assert_clean();
}

fn pass_time(emu: &Emu, seconds: u64) {
    let clock = emu.clock();
    clock.wait_until(clock.now().after(Duration::from_secs(seconds)));
}

/// A device that is given up for the expected reason: everything fails fast, and once the stop is proved, at the
/// latest by closing, everything is free.
fn wedges(plan: &str, expected: fn(&Wedge) -> bool) {
    let emu = emu();
    let device = open(&emu, plan);
    let namespace = device.namespace().unwrap().clone();
    let region = device.alloc(8192).unwrap();
    let begin = emu.clock().now();
    let error = namespace.read(&region, 0..4096, Lba(0)).unwrap_err();
    assert!(matches!(&error, Error::Wedged(wedge) if expected(wedge)), "{plan}: {error}");
    assert!(device.wedged().is_some_and(|wedge| expected(&wedge)), "{plan}");
    assert!(emu.clock().now().since(begin) < Duration::from_secs(50), "{plan}: a bounded time");

    let later = emu.clock().now();
    for _ in 0..3 {
        let refused = namespace.read(&region, 4096..8192, Lba(0));
        assert!(matches!(refused, Err(Error::Wedged(_))), "{plan}: {refused:?}");
    }
    assert_eq!(emu.clock().now(), later, "{plan}: fails fast afterwards");
    drop((region, namespace));
    pass_time(&emu, 100);
    device.close().unwrap();
    assert_usable_again(&emu, plan);
}

#[test]
fn a_completion_that_never_comes_wedges_at_the_deadline() {
    for plan in [
        "drop-cqe:opcode=0x02,nth=1",
        "corrupt-phase:opcode=0x02,nth=1",
        "hang:opcode=0x02,nth=1",
        "hang:qid=1,opcode=0x02,nth=1",
        "delay-cqe:opcode=0x02,by=60s",
    ] {
        wedges(plan, |wedge| matches!(wedge, Wedge::Timeout { waited_ms: 30_000, .. }));
    }
}

#[test]
fn a_completion_of_nothing_outstanding_wedges() {
    for bits in ["0x1000", "0x8000", "0x0001", "0x0fff", "0xffff"] {
        let plan = format!("corrupt-cid:opcode=0x02,nth=1,xor={bits}");
        wedges(&plan, |wedge| matches!(wedge, Wedge::UnknownCid { .. }));
    }
}

#[test]
fn a_completion_that_comes_twice_wedges() {
    wedges_soon("duplicate-cqe:opcode=0x02,nth=1", |wedge| matches!(wedge, Wedge::UnknownCid { .. }));
}

#[test]
fn a_submission_head_that_can_not_be_wedges() {
    for bits in ["0x4000", "0x0040", "0x0020", "0x0001"] {
        let plan = format!("corrupt-sqhd:opcode=0x02,nth=1,xor={bits}");
        wedges_soon(&plan, |wedge| matches!(wedge, Wedge::Protocol(_)));
    }
}

/// Of a fault that lies beside a right completion: that command may have its outcome before the fault is seen.
fn wedges_soon(plan: &str, expected: impl Fn(Wedge) -> bool) {
    let emu = emu();
    let device = open(&emu, plan);
    let region = device.alloc(4096).unwrap();
    let namespace = device.namespace().unwrap();
    let error = (0..4).find_map(|_| namespace.read(&region, 0..4096, Lba(0)).err()).unwrap();
    assert!(matches!(error, Error::Wedged(wedge) if expected(wedge)), "{plan}: {error}");
    drop(region);
    device.close().unwrap();
    assert_usable_again(&emu, plan);
}

#[test]
fn a_wrong_status_fails_that_command_alone() {
    let emu = emu();
    let (device, faulty) = try_open(&emu, "corrupt-status:opcode=0x02,nth=2,status=0/06+dnr");
    let device = device.unwrap();
    for count in 1..=4 {
        let (result, _region) = read(&device);
        match result {
            Ok(()) => assert_ne!(count, 2),
            Err(Error::Io(failure)) => {
                assert_eq!((count, failure.status.sc(), failure.done_bytes), (2, 6, 0));
                assert!(failure.status.do_not_retry());
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((faulty.fired(), device.stats().total(|queue| queue.failed)), (1, 1));
    device.close().unwrap();
    assert_usable_again(&emu, "status");
}

#[test]
fn a_completion_that_is_late_is_waited_for() {
    // The second comes after the abort that it did not heed.
    for seconds in [20, 32] {
        let emu = emu();
        let device = open(&emu, &format!("delay-cqe:opcode=0x02,nth=1,by={seconds}s"));
        let begin = emu.clock().now();
        let (result, region) = read(&device);
        result.unwrap();
        let waited = emu.clock().now().since(begin).as_secs();
        assert!((seconds..seconds + 3).contains(&waited), "{waited} s");
        drop(region);
        device.close().unwrap();
        assert_usable_again(&emu, "delay");
    }
}

#[test]
fn a_fatal_error_of_the_controller_is_told_and_survived() {
    wedges("cfs:opcode=0x02,nth=1", |wedge| matches!(wedge, Wedge::ControllerFatal));

    let emu = emu();
    let (failed, _) = try_open(&emu, "cfs");
    assert!(matches!(failed, Err(Error::Controller(ControllerError::FatalOnEnable))), "{failed:?}");
    assert_usable_again(&emu, "cfs while enabling");
}

#[test]
fn nothing_of_a_device_that_is_gone_is_used_again() {
    for plan in ["gone:opcode=0x02,nth=1", "gone:after=1s"] {
        let emu = emu();
        let device = open(&emu, plan);
        pass_time(&emu, 2);
        let (result, region) = read(&device);
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Wedged(Wedge::Gone)), "{plan}: {error}");
        drop(region);
        let reserved = emu.live_mappings();
        let error = device.close().unwrap_err();
        let told = matches!(error, Error::Wedged(Wedge::Gone) | Error::Controller(ControllerError::Gone));
        assert!(told, "{plan}: {error}");
        assert_eq!(emu.live_mappings(), reserved, "{plan}: all ones prove nothing");
        let again = Device::with_emu(emu.clone(), options(), None);
        assert!(matches!(again, Err(Error::Controller(ControllerError::Claimed))), "{plan}: {again:?}");
        pass_time(&emu, 100);
        assert_eq!(emu.violations(), [], "{plan}");
    }
    let emu = emu();
    let (failed, _) = try_open(&emu, "gone");
    assert!(matches!(failed, Err(Error::Controller(ControllerError::Gone))), "{failed:?}");
    assert_usable_again(&emu, "gone before anything was given to it");
}

#[test]
fn a_device_that_is_slow_to_start_is_waited_for_and_one_that_never_does_is_stopped() {
    let emu = emu();
    let begin = emu.clock().now();
    let device = open(&emu, "slow-ready:by=4s");
    assert!(emu.clock().now().since(begin) >= Duration::from_secs(4));
    device.close().unwrap();
    assert_usable_again(&emu, "slow");

    let (failed, _) = try_open(&emu, "slow-ready:by=3600s");
    assert!(matches!(failed, Err(Error::Controller(ControllerError::NotReady { .. }))), "{failed:?}");
    assert_usable_again(&emu, "never ready");
}

#[test]
fn a_reset_that_does_not_finish_keeps_everything_reserved() {
    let emu = emu();
    let device = open(&emu, "stuck-disable; drop-cqe:opcode=0x02,nth=1; late-data:opcode=0x02,nth=1,by=200s");
    let namespace = device.namespace().unwrap().clone();
    let source = device.alloc(4096).unwrap();
    source.copy_in(0, &[0x5a; 4096]).unwrap();
    namespace.write(&source, 0..4096, Lba(0)).unwrap();
    let (result, region) = read(&device);
    assert!(matches!(result, Err(Error::Wedged(Wedge::Timeout { .. }))), "{result:?}");
    let clone = region.clone();
    drop((region, namespace, source));
    let error = device.close().unwrap_err();
    let told = matches!(
        error,
        Error::Wedged(Wedge::Timeout { .. })
            | Error::Controller(ControllerError::Hal(HalError::NotStopped { .. }))
    );
    assert!(told, "{error}");
    assert!(emu.live_mappings() > 0);
    let again = Device::with_emu(emu.clone(), options(), None);
    assert!(matches!(again, Err(Error::Controller(ControllerError::Claimed))), "{again:?}");

    pass_time(&emu, 300);
    let mut late = [0; 4096];
    clone.copy_out(0, &mut late).unwrap();
    assert_eq!(
        late, [0x5a; 4096],
        "the device that was not stopped wrote after all, to memory still reserved"
    );
    assert_eq!(emu.violations(), []);
}

#[test]
fn each_step_of_bring_up_may_fail_and_leaves_nothing() {
    // Identify Controller, Number of Queues, both queues of either pair, the list of namespaces.
    for (opcode, nth) in [(6, 1), (9, 1), (5, 1), (1, 1), (5, 2), (1, 2), (6, 2)] {
        let emu = emu();
        let plan = format!("fail:qid=0,opcode={opcode},nth={nth},status=0/06");
        let (failed, faulty) = try_open(&emu, &plan);
        let error = failed.unwrap_err();
        let admin = match &error {
            Error::Controller(ControllerError::Admin(admin)) => admin,
            Error::Controller(ControllerError::Hal(HalError::Admin(admin))) => admin,
            other => panic!("{plan}: {other}"),
        };
        assert!(
            matches!(admin, AdminError::Status { opcode: named, status } if *named == opcode && status.sc() == 6),
            "{plan}: {error}"
        );
        assert_eq!(faulty.fired(), 1, "{plan}");
        assert_usable_again(&emu, &plan);
    }
}

#[test]
fn a_namespace_that_is_not_described_is_refused_by_itself() {
    let emu = emu();
    let device = open(&emu, "fail:qid=0,opcode=6,nth=3,status=0/0b");
    assert_eq!((device.namespaces().len(), device.refused().len()), (0, 1));
    assert!(matches!(device.namespace(), Err(Error::NoNamespace { .. })));
    device.close().unwrap();
    assert_usable_again(&emu, "namespace");
}

#[test]
fn no_answer_to_an_admin_command_leaves_nothing_either() {
    let bring_up = [(6, 1), (9, 1), (5, 1), (1, 1), (5, 2), (1, 2), (6, 2), (6, 3)];
    // Deleting the queues: what is not deleted ends with the stop.
    let closing = [(0, 1), (4, 1), (0, 2), (4, 2)];
    for fault in ["drop-cqe", "hang", "corrupt-phase", "cfs"] {
        for (opcode, nth) in bring_up.into_iter().chain(closing) {
            let emu = emu();
            let plan = format!("{fault}:qid=0,opcode={opcode},nth={nth}");
            let (opened, faulty) = try_open(&emu, &plan);
            assert_eq!(opened.is_ok(), closing.contains(&(opcode, nth)), "{plan}");
            if let Ok(device) = opened {
                let closed = device.close();
                assert!(closed.is_ok() || fault == "cfs", "{plan}: {closed:?}");
            }
            assert!(faulty.fired() <= 1, "{plan}");
            assert_usable_again(&emu, &plan);
        }
    }
}

#[test]
fn queues_that_are_not_deleted_end_with_the_stop() {
    for opcode in [0x00, 0x04] {
        let emu = emu();
        let device = open(&emu, &format!("fail:qid=0,opcode={opcode},status=1/0c"));
        read(&device).0.unwrap();
        device.close().unwrap();
        assert_usable_again(&emu, "delete");
    }
}

#[test]
fn blocks_that_fail_say_how_much_was_done() {
    let emu = emu();
    let plan = "media:on=read,lba=600+8; media:on=write,lba=1030+1";
    let device = open(&emu, plan);
    let namespace = device.namespace().unwrap();
    let region = device.alloc(1 << 20).unwrap();
    let command_bytes = u64::from(device.info().max_transfer_bytes);
    assert_eq!(command_bytes, 128 << 10);
    let pattern: Vec<u8> = (0..1usize << 20).map(|i| (i / 512 % 251) as u8 + 1).collect();
    region.copy_in(0, &pattern).unwrap();

    let Err(Error::Io(write)) = namespace.write(&region, 0..1 << 20, Lba(0)) else { panic!() };
    assert_eq!(
        (write.operation, write.lba, write.done_bytes),
        (Operation::Write, Lba(1024), 4 * command_bytes)
    );
    assert_eq!((write.status.sct(), write.status.sc()), (2, 0x80));

    region.copy_in(0, &vec![0; 1 << 20]).unwrap();
    let Err(Error::Io(read)) = namespace.read(&region, 0..1 << 20, Lba(0)) else { panic!() };
    assert_eq!((read.operation, read.lba, read.done_bytes), (Operation::Read, Lba(512), 2 * command_bytes));
    assert_eq!((read.status.sct(), read.status.sc()), (2, 0x81));
    let done = read.done_bytes as usize;
    let mut bytes = vec![0; done];
    region.copy_out(0, &mut bytes).unwrap();
    assert!(bytes == pattern[..done], "what is said to be done is there");

    // Around the bad blocks everything works.
    namespace.read(&region, 0..512 * 600, Lba(0)).unwrap();
    namespace.read(&region, 0..512, Lba(608)).unwrap();
    assert!(namespace.read(&region, 0..512, Lba(607)).is_err());
    drop((region, device));
    assert_usable_again(&emu, plan);
}

#[test]
fn data_after_its_completion_misses_memory_that_was_given_back() {
    let emu = emu();
    let device = open(&emu, "late-data:opcode=0x02,nth=1,by=5s");
    let namespace = device.namespace().unwrap();
    let source = device.alloc(4096).unwrap();
    source.copy_in(0, &[0x77; 4096]).unwrap();
    namespace.write(&source, 0..4096, Lba(0)).unwrap();
    let (result, region) = read(&device);
    result.unwrap();
    region.release().unwrap();
    let next: Vec<_> = (0..8).map(|_| device.alloc(4096).unwrap()).collect();
    pass_time(&emu, 10);

    let violations = emu.violations();
    let refused = |violation: &DmaViolation| violation.reason == Reason::Unmapped;
    assert!(!violations.is_empty() && violations.iter().all(refused), "{violations:?}");
    for region in &next {
        let mut bytes = [1; 4096];
        region.copy_out(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4096]);
    }
    drop((source, next));
    device.close().unwrap();
    assert_eq!(emu.live_mappings(), 0);
}

#[test]
fn data_that_would_come_after_a_proved_stop_never_comes() {
    let emu = emu();
    let device = open(&emu, "late-data:opcode=0x02,nth=1,by=100s; drop-cqe:opcode=0x02,nth=1");
    let namespace = device.namespace().unwrap().clone();
    let source = device.alloc(4096).unwrap();
    source.copy_in(0, &[0x33; 4096]).unwrap();
    namespace.write(&source, 0..4096, Lba(0)).unwrap();
    let (result, region) = read(&device);
    assert!(matches!(result, Err(Error::Wedged(Wedge::Timeout { .. }))), "{result:?}");
    device.clone().close().unwrap();
    pass_time(&emu, 200);
    let mut bytes = [1; 4096];
    region.copy_out(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4096]);
    drop((region, source, namespace, device));
    assert_usable_again(&emu, "late");
}

/// `Region::release` is what lets a caller free memory, so it must not succeed while the device may write there.
#[test]
fn memory_of_a_device_that_did_not_stop_is_not_released() {
    for (plan, closes) in [
        ("stuck-disable; hang:qid=1,opcode=0x02,nth=1; hang:qid=2,opcode=0x02,nth=1", false),
        ("stuck-disable; hang:qid=1,opcode=0x02,nth=1; hang:qid=2,opcode=0x02,nth=1", true),
        ("gone:opcode=0x02,nth=1", false),
        ("gone:opcode=0x02,nth=1", true),
        ("stuck-disable; corrupt-cid:opcode=0x02,nth=1,xor=0x8000", true),
    ] {
        let emu = emu();
        let device = open(&emu, plan);
        let (result, region) = read(&device);
        assert!(matches!(result, Err(Error::Wedged(_))), "{plan}: {result:?}");
        if closes {
            device.clone().close().unwrap_err();
        }
        let mapped = emu.live_mappings();
        let released = region.release();
        assert_eq!(emu.live_mappings(), mapped, "{plan}: the command's memory stays mapped");
        assert!(matches!(released, Err((_, Error::Busy(_)))), "{plan}, closed {closes}: {released:?}");
    }
}

#[test]
fn what_the_ring_must_notice_is_refused_without_a_model() {
    let error = Faulty::new(emu(), "corrupt-sqhd:xor=1".parse().unwrap()).unwrap_err();
    let expected = "corrupt-sqhd needs a device model; the emu backend drives a device that can't be told to";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_empty_plan_changes_nothing() {
    let emu = emu();
    let (device, faulty) = try_open(&emu, "");
    let device = device.unwrap();
    read(&device).0.unwrap();
    assert!(!device.info().path.contains("plan"));
    assert_eq!((faulty.fired(), device.stats().queues[0].qid), (0, Qid(1)));
    device.close().unwrap();
    assert_usable_again(&emu, "empty");
}
