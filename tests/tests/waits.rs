//! Everybody who waits is released, once, whatever ends the device; and nothing else is released by it.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use ugds::emu::{Emu, EmuConfig};
use ugds::faulty::Faulty;
use ugds::nvme::Lba;
use ugds::nvme::admin::Opcode;
use ugds::{Device, Drain, Error, Options, Region, Wedge};
use ugds_queue::controller::ControllerError;

fn emu(latency: Duration) -> Emu {
    // A limit to wait for the stop of half a second: CAP.TO counts in those.
    let config = EmuConfig { latency, timeout: 1, ..EmuConfig::default() };
    Emu::new(config.with_namespaces(1, 16 << 20, 512)).unwrap()
}

fn options() -> Options {
    let mut options = Options::default();
    (options.queues, options.ready_floor) = (3, Duration::from_millis(100));
    options
}

fn open(emu: &Emu) -> Device {
    Device::with_emu(emu.clone(), options(), None).unwrap()
}

/// Who waits for a device, and what they are told.
struct Waiters {
    told: mpsc::Receiver<Result<(), Error>>,
    count: u32,
}

impl Waiters {
    /// Sets as many threads to wait for a command each.
    fn new(device: &Device, count: u32) -> Self {
        let (tell, told) = mpsc::channel();
        let (before, begin) = (submitted(device), Instant::now());
        for waiter in 0..count {
            let (device, tell) = (device.clone(), tell.clone());
            thread::spawn(move || {
                let region = device.alloc(4096).unwrap();
                let namespace = device.namespace().unwrap();
                let result = match waiter % 3 {
                    0 => namespace.read(&region, 0..4096, Lba(0)),
                    1 => namespace.write(&region, 0..4096, Lba(0)),
                    _ => namespace.flush(),
                };
                tell.send(result).unwrap();
            });
        }
        while submitted(device) < before + u64::from(count) {
            assert!(begin.elapsed() < Duration::from_secs(20), "some were refused");
            thread::yield_now();
        }
        Self { told, count }
    }

    /// What each was told. Nobody is told twice, and nobody is left.
    #[track_caller]
    fn results(self) -> Vec<Result<(), Error>> {
        let results: Vec<_> = self.told.iter().collect();
        assert_eq!(results.len(), self.count as usize);
        results
    }
}

fn submitted(device: &Device) -> u64 {
    device.stats().total(|queue| queue.submitted)
}

#[test]
fn a_forced_close_tells_each_waiter_once() {
    let emu = emu(Duration::from_secs(60));
    let device = open(&emu);
    let waiters = Waiters::new(&device, 9);
    let begin = Instant::now();
    device.clone().close_with(Drain::Force).unwrap();
    for result in waiters.results() {
        assert!(matches!(result, Err(Error::Wedged(Wedge::Forced))), "{result:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "nobody waited for the device: {:?}", begin.elapsed());
    drop(device);
    assert_eq!((emu.violations(), emu.live_mappings()), (vec![], 0));
    open(&emu).close().unwrap();
}

/// The region of a device that is lost is not released, and nobody waits until it is.
#[track_caller]
fn assert_never_released(region: Region) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut left = region;
        for drain in [Drain::Check, Drain::Grace(Duration::from_secs(3600)), Drain::Wait, Drain::Force] {
            let (back, error) = left.release_with(drain).unwrap_err();
            assert!(matches!(error, Error::Busy(_)), "{drain:?}: {error}");
            left = back;
        }
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(20)).expect("it waits for what will never be");
}

#[test]
fn a_region_of_a_device_that_is_gone_is_not_waited_for() {
    let emu = emu(Duration::ZERO);
    let device = open(&emu);
    let region = device.alloc(4096).unwrap();
    emu.remove();
    device.clone().close().unwrap_err();
    assert_never_released(region);
    assert!(emu.live_mappings() > 0);
}

#[test]
fn force_without_a_proof_tells_everybody_and_frees_nothing() {
    let emu = emu(Duration::from_secs(60));
    let faulty = Faulty::over_model(emu.clone(), "stuck-disable".parse().unwrap()).unwrap();
    let device = Device::with_faulty(faulty, options(), None).unwrap();
    let region = device.alloc(4096).unwrap();
    let waiters = Waiters::new(&device, 6);
    let reserved = emu.live_mappings();
    let error = device.clone().close_with(Drain::Force).unwrap_err();
    assert!(matches!(error, Error::Wedged(Wedge::Forced)), "{error}");
    for result in waiters.results() {
        assert!(matches!(result, Err(Error::Wedged(Wedge::Forced))), "{result:?}");
    }
    assert_never_released(region);
    drop(device);
    // The regions whose waiters went were idle; the memory of six commands and all rings are not.
    assert!(emu.live_mappings() >= reserved - 3, "{} of {reserved}", emu.live_mappings());
    let again = Device::with_emu(emu.clone(), options(), None);
    assert!(matches!(again, Err(Error::Controller(ControllerError::Claimed))), "{again:?}");
    assert_eq!(emu.violations(), []);
}

#[test]
fn a_device_that_is_late_is_stopped_at_once_and_not_only_when_it_is_closed() {
    let emu = Emu::new(EmuConfig::default().with_namespaces(1, 16 << 20, 512).stepped()).unwrap();
    let faulty = Faulty::over_model(emu.clone(), "hang:opcode=0x02,nth=1".parse().unwrap()).unwrap();
    let device = Device::with_faulty(faulty, options(), None).unwrap();
    let region = device.alloc(4096).unwrap();
    let result = device.namespace().unwrap().read(&region, 0..4096, Lba(0));
    assert!(matches!(result, Err(Error::Wedged(Wedge::Timeout { .. }))), "{result:?}");
    region.release().unwrap();
    open(&emu).close().unwrap();
    emu.assert_clean();
    assert_eq!(emu.live_mappings(), 0);
}

/// Otherwise it would never come to an end: there is always somebody who reads.
#[test]
fn a_close_that_waits_lets_nothing_new_begin() {
    let emu = emu(Duration::from_millis(5));
    let device = open(&emu);
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let device = device.clone();
            thread::spawn(move || {
                let region = device.alloc(4096).unwrap();
                let namespace = device.namespace().unwrap();
                loop {
                    if let Err(error) = namespace.read(&region, 0..4096, Lba(0)) {
                        return error;
                    }
                }
            })
        })
        .collect();
    while submitted(&device) < 8 {
        thread::yield_now();
    }
    let (tell, closed) = mpsc::channel();
    let closer = device.clone();
    thread::spawn(move || tell.send(closer.close_with(Drain::Wait)));
    closed.recv_timeout(Duration::from_secs(30)).expect("it waits for what began after it").unwrap();
    for reader in readers {
        let error = reader.join().unwrap();
        assert!(matches!(error, Error::Closed), "{error}");
    }
    drop(device);
    emu.assert_clean();
    assert_eq!(emu.live_mappings(), 0);
}

#[test]
fn a_grace_that_is_too_short_changes_nothing() {
    let emu = emu(Duration::from_secs(60));
    let device = open(&emu);
    let waiters = Waiters::new(&device, 3);
    let refused = device.clone().close_with(Drain::Grace(Duration::from_millis(1)));
    assert!(matches!(refused, Err(Error::Outstanding { outstanding: 3 })), "{refused:?}");
    let more = Waiters::new(&device, 3);
    let refused = device.clone().close_with(Drain::Check);
    assert!(matches!(refused, Err(Error::Outstanding { outstanding: 6 })), "{refused:?}");
    assert_eq!(device.wedged(), None);
    device.close_with(Drain::Force).unwrap();
    assert!(waiters.results().iter().chain(&more.results()).all(Result::is_err));
}

#[test]
fn a_grace_that_is_long_enough_closes() {
    let emu = emu(Duration::from_millis(20));
    let device = open(&emu);
    let waiters = Waiters::new(&device, 3);
    device.close_with(Drain::Grace(Duration::from_secs(60))).unwrap();
    assert!(waiters.results().iter().all(Result::is_ok));
    emu.assert_clean();
    assert_eq!(emu.live_mappings(), 0);
}

#[test]
fn of_many_who_open_and_close_one_does() {
    let emu = emu(Duration::ZERO);
    for _ in 0..10 {
        let opened: Vec<_> = thread::scope(|scope| {
            let openers: Vec<_> =
                (0..6).map(|_| scope.spawn(|| Device::with_emu(emu.clone(), options(), None))).collect();
            openers.into_iter().filter_map(|opener| opener.join().unwrap().ok()).collect()
        });
        let [device] = &opened[..] else { panic!("{} opened it", opened.len()) };
        let deleted = emu.stats().admin(Opcode::DELETE_SQ.0);
        thread::scope(|scope| {
            for closer in 0..6 {
                let drain = if closer % 2 == 0 { Drain::Wait } else { Drain::Grace(Duration::from_secs(60)) };
                scope.spawn(move || device.clone().close_with(drain).unwrap());
            }
        });
        assert_eq!(emu.stats().admin(Opcode::DELETE_SQ.0), deleted + 3, "each queue is deleted once");
        assert_eq!(emu.live_mappings(), 0);
    }
    emu.assert_clean();
}
