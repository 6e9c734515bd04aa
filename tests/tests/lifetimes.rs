//! Who may let go of what, and when: regions, devices, proofs, and devices that die. The controller model's record of
//! DMA and of live mappings is the judge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use ugds::emu::{Emu, EmuConfig, Mode};
use ugds::nvme::Lba;
use ugds::nvme::status::generic;
use ugds::{Device, Drain, Error, Options, Region, Wedge};
use ugds_hal::{Backend, Clock, Stop};
use ugds_queue::controller::{Controller, ControllerError};

fn emu(change: impl FnOnce(&mut EmuConfig)) -> Emu {
    let mut config = EmuConfig::default().with_namespaces(1, 16 << 20, 512);
    change(&mut config);
    Emu::new(config).unwrap()
}

fn open(emu: &Emu) -> Device {
    Device::with_emu(emu.clone(), Options::default(), None).unwrap()
}

fn assert_clean(emu: &Emu) {
    assert_eq!(emu.violations(), []);
    assert_eq!(emu.live_mappings(), 0);
}

#[test]
fn everything_goes_in_any_order() {
    for order in 0..6 {
        let emu = emu(|_| {});
        let device = open(&emu);
        let namespace = device.namespace().unwrap().clone();
        let region = device.alloc(8192).unwrap();
        namespace.write(&region, 0..8192, Lba(0)).unwrap();
        let mut held: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(device), Box::new(namespace), Box::new(region)];
        held.swap(0, order % 3);
        held.swap(1, 1 + order / 3);
        held.into_iter().for_each(drop);
        assert_clean(&emu);
    }
}

#[test]
fn a_shared_region_is_unmapped_by_each_device_on_its_own() {
    let (first, second) = (emu(|_| {}), emu(|_| {}));
    let (one, two) = (open(&first), open(&second));
    let region = one.alloc(1 << 20).unwrap();
    let before = second.live_mappings();
    let shared = two.share(&region).unwrap();
    let namespace = two.namespace().unwrap().clone();
    namespace.read(&shared, 0..4096, Lba(0)).unwrap();
    assert!(matches!(namespace.read(&region, 0..512, Lba(0)), Err(Error::ForeignRegion)));
    assert!(second.live_mappings() > before);
    shared.release().unwrap();
    assert_eq!(second.live_mappings(), before, "the other device's region keeps nothing mapped here");
    drop(namespace);
    two.close().unwrap();
    assert_clean(&second);
    one.namespace().unwrap().read(&region, 0..4096, Lba(0)).unwrap();
    drop((region, one));
    assert_clean(&first);
}

#[test]
fn a_region_with_clones_or_commands_is_not_released() {
    let emu = emu(|config| config.latency = Duration::from_millis(50));
    let device = open(&emu);
    let namespace = device.namespace().unwrap().clone();
    let region = device.alloc(4096).unwrap();
    let clone = region.clone();
    let (region, error) = region.release().unwrap_err();
    assert!(matches!(error, Error::Cloned { clones: 1 }), "{error}");
    let reader = thread::spawn(move || namespace.read(&clone, 0..4096, Lba(0)));
    reader.join().unwrap().unwrap();
    region.release().unwrap();
}

#[test]
fn a_device_is_driven_once_at_a_time() {
    let emu = emu(|_| {});
    let device = open(&emu);
    let again = Device::with_emu(emu.clone(), Options::default(), None);
    assert!(matches!(again, Err(Error::Controller(ControllerError::Claimed))), "{again:?}");
    device.namespace().unwrap().flush().unwrap();
    device.close().unwrap();
    open(&emu).close().unwrap();
    assert_clean(&emu);
}

#[test]
fn an_old_proof_opens_nothing_new() {
    let emu = emu(|config| config.mode = Mode::Stepped);
    let old = emu.stop(Stop::Disable(Duration::from_secs(1))).unwrap();
    let mut controller =
        Controller::bring_up(Arc::new(emu.clone()), ugds_queue::controller::Options::default()).unwrap();
    let queue = controller.open_queue().unwrap();
    let Err(queue) = queue.abandon(&old) else { panic!("a proof from before the queue freed it") };
    controller.shut_down(vec![*queue]).unwrap();
    assert_clean(&emu);
}

#[test]
fn closing_while_others_read_is_refused_or_tells_them() {
    let begin = Instant::now();
    for round in 0..20 {
        let emu = emu(|config| (config.queues, config.mqes_z) = (64, 1));
        let mut options = Options::default();
        options.queues = 64;
        let device = Device::with_emu(emu.clone(), options, None).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (device, stop) = (device.clone(), Arc::clone(&stop));
                let region = device.alloc(4096).unwrap();
                thread::spawn(move || {
                    let namespace = device.namespace().unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        match namespace.read(&region, 0..4096, Lba(0)) {
                            Ok(()) => {}
                            Err(Error::Closed) => return,
                            Err(other) => panic!("round {round}: {other}"),
                        }
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_micros(500 + 37 * round));
        for _ in 0..20 {
            match device.clone().close() {
                Ok(()) => break,
                Err(error) => assert!(matches!(error, Error::Outstanding { outstanding: 1.. }), "{error}"),
            }
        }
        device.clone().close_with(Drain::Wait).unwrap();
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        drop(device);
        assert_clean(&emu);
    }
    assert!(begin.elapsed() < Duration::from_secs(25), "somebody waited for a command that was gone");
}

#[test]
fn a_device_that_is_removed_or_fails_releases_everybody_at_once() {
    type Blow = fn(&Emu);
    type Check = fn(&Wedge) -> bool;
    let blows: [(&str, Blow, Check); 2] = [
        ("removed", Emu::remove, |wedge| matches!(wedge, Wedge::Gone)),
        ("fatal", Emu::fail, |wedge| matches!(wedge, Wedge::ControllerFatal)),
    ];
    for (name, blow, expected) in blows {
        let emu = emu(|config| config.latency = Duration::from_millis(20));
        let device = open(&emu);
        let early = device.alloc(512).unwrap();
        let begin = Instant::now();
        let readers: Vec<_> = (0..6)
            .map(|_| {
                let device = device.clone();
                thread::spawn(move || {
                    let region = device.alloc(4096).unwrap();
                    let namespace = device.namespace().unwrap().clone();
                    loop {
                        if let Err(error) = namespace.read(&region, 0..4096, Lba(0)) {
                            return error;
                        }
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(100));
        blow(&emu);
        for reader in readers {
            let error = reader.join().unwrap();
            assert!(matches!(&error, Error::Wedged(wedge) if expected(wedge)), "{name}: {error}");
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "{name}: took {:?}", begin.elapsed());
        let refused = device.namespace().unwrap().read(&early, 0..512, Lba(0));
        assert!(matches!(refused, Err(Error::Wedged(_))), "{name}: fails fast afterwards");
        assert!(matches!(device.alloc(512), Err(Error::Wedged(_))), "{name}: nothing is mapped any more");
        let report = device.report().unwrap();
        assert!(report.contains("CSTS") && report.contains("given up"), "{report}");
        assert_eq!(emu.violations(), [], "{name}");
    }
}

#[test]
fn a_command_that_is_late_is_aborted_and_the_device_lives_on() {
    let emu = emu(|config| {
        config.mode = Mode::Stepped;
        config.latency = Duration::from_secs(3600);
    });
    let device = open(&emu);
    let region = device.alloc(4096).unwrap();
    let begin = emu.clock().now();
    match device.namespace().unwrap().read(&region, 0..4096, Lba(0)).unwrap_err() {
        Error::Io(failure) => assert!(failure.status.is(generic::ABORT_REQUESTED), "{failure}"),
        other => panic!("{other}"),
    }
    let waited = emu.clock().now().since(begin);
    assert!((Duration::from_secs(30)..Duration::from_secs(36)).contains(&waited), "{waited:?}");
    assert_eq!((device.wedged(), device.report()), (None, None));
    region.release().unwrap();
    device.close().unwrap();
    assert_clean(&emu);
}

#[test]
fn a_request_of_many_commands_that_are_all_late_ends_soon_after_the_first() {
    let emu = emu(|config| {
        config.mode = Mode::Stepped;
        config.latency = Duration::from_secs(3600);
    });
    let device = open(&emu);
    let region = device.alloc(4 << 20).unwrap();
    let begin = emu.clock().now();
    let error = device.namespace().unwrap().read(&region, 0..4 << 20, Lba(0)).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error}");
    let waited = emu.clock().now().since(begin);
    assert!(waited < Duration::from_secs(60), "32 commands took {waited:?}");
    assert_eq!(device.stats().total(|queue| queue.outstanding.into()), 0);
    region.release().unwrap();
    device.close().unwrap();
    assert_clean(&emu);
}

/// A device with one read under way for a long time, and the thread that waits for it.
fn with_a_slow_read(latency: Duration) -> (Emu, Device, Region, thread::JoinHandle<Result<(), Error>>) {
    let emu = emu(|config| config.latency = latency);
    let device = open(&emu);
    let region = device.alloc(4096).unwrap();
    let (namespace, clone) = (device.namespace().unwrap().clone(), region.clone());
    let reader = thread::spawn(move || namespace.read(&clone, 0..4096, Lba(0)));
    while device.stats().total(|queue| queue.outstanding.into()) == 0 {
        thread::yield_now();
    }
    (emu, device, region, reader)
}

#[test]
fn draining_checks_waits_or_forces() {
    let (emu, device, region, reader) = with_a_slow_read(Duration::from_millis(300));
    let refused = device.clone().close_with(Drain::Check);
    assert!(matches!(refused, Err(Error::Outstanding { outstanding: 1 })), "{refused:?}");
    let refused = device.clone().close_with(Drain::Grace(Duration::from_millis(1)));
    assert!(matches!(refused, Err(Error::Outstanding { outstanding: 1 })), "{refused:?}");
    device.clone().close_with(Drain::Wait).unwrap();
    reader.join().unwrap().unwrap();
    drop((device, region));
    assert_clean(&emu);

    let (emu, device, region, reader) = with_a_slow_read(Duration::from_secs(20));
    let begin = Instant::now();
    device.clone().close_with(Drain::Force).unwrap();
    let error = reader.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::Wedged(Wedge::Forced)), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(device.report().unwrap().contains("1 outstanding"), "{:?}", device.report());
    drop((device, region));
    assert_clean(&emu);
}

#[test]
fn many_callers_on_the_smallest_queue_all_get_their_turn() {
    let emu = emu(|config| (config.queues, config.mqes_z) = (1, 1));
    let device = open(&emu);
    let begin = Instant::now();
    let callers: Vec<_> = (0..12u64)
        .map(|caller| {
            let device = device.clone();
            thread::spawn(move || {
                let region = device.alloc(512).unwrap();
                let namespace = device.namespace().unwrap();
                for round in 0..200u64 {
                    region.copy_in(0, &(caller << 32 | round).to_le_bytes()).unwrap();
                    namespace.write(&region, 0..512, Lba(caller)).unwrap();
                    region.copy_in(0, &[0; 8]).unwrap();
                    namespace.read(&region, 0..512, Lba(caller)).unwrap();
                    let mut back = [0; 8];
                    region.copy_out(0, &mut back).unwrap();
                    assert_eq!(u64::from_le_bytes(back), caller << 32 | round);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    println!("4800 requests through one slot in {:?}", begin.elapsed());
    device.close().unwrap();
    assert_clean(&emu);
}
