//! Batches: what they bring, in which order, and what becomes of them when something fails or goes away.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;
use ugds::emu::{Emu, EmuConfig};
use ugds::faulty::Faulty;
use ugds::nvme::Lba;
use ugds::{Batch, Device, Drain, Error, Namespace, Operation, Options, Outcome, Region, Wedge};
use ugds_hal::{Backend, Clock};

fn stepped(change: impl FnOnce(&mut EmuConfig)) -> Emu {
    let mut config = EmuConfig::default().with_namespaces(2, 16 << 20, 512).stepped();
    change(&mut config);
    Emu::new(config).unwrap()
}

fn options(queues: u16, entries: u16) -> Options {
    let mut options = Options::default();
    (options.queues, options.queue_entries) = (queues, entries);
    options
}

fn open(emu: &Emu, queues: u16, entries: u16) -> Device {
    Device::with_backend(emu.clone(), options(queues, entries), None).unwrap()
}

fn faulty(emu: &Emu, plan: &str) -> Device {
    let faulty = Faulty::over_model(emu.clone(), plan.parse().unwrap()).unwrap();
    Device::with_backend(faulty, options(4, 64), None).unwrap()
}

/// Everything that is left, by cookie.
#[track_caller]
fn all(batch: &mut Batch) -> BTreeMap<u64, Outcome> {
    let mut outcomes = Vec::new();
    batch.harvest(usize::MAX, None, &mut outcomes).unwrap();
    assert!(batch.is_empty());
    let count = outcomes.len();
    let map: BTreeMap<_, _> = outcomes.into_iter().map(|outcome| (outcome.cookie, outcome)).collect();
    assert_eq!(map.len(), count, "each entry ends once");
    map
}

fn reads(batch: &mut Batch, namespace: &Namespace, region: &Region, count: u64, len: usize) {
    for n in 0..count {
        let lba = Lba(n * len as u64 / 512);
        batch.read(namespace, region, n as usize * len..(n as usize + 1) * len, lba, n).unwrap();
    }
}

#[track_caller]
fn assert_left_clean(emu: &Emu) {
    emu.assert_clean();
    assert_eq!(emu.live_mappings(), 0);
}

#[test]
fn operations_namespaces_and_sizes_are_mixed() {
    let emu = stepped(|config| config.out_of_order = Some(7));
    let device = open(&emu, 4, 64);
    let [one, two] = device.namespaces() else { panic!("there are two") };
    let region = device.alloc(8 << 20).unwrap();
    let bytes: Vec<u8> = (0..4 << 20).map(|n| (n / 512) as u8 ^ n as u8).collect();
    region.copy_in(0, &bytes).unwrap();
    let mut batch = device.batch(64).unwrap();
    let parts = [0..512, 512..5120, 5120..1 << 20, 1 << 20..3 << 20, 3 << 20..4 << 20];
    for (cookie, part) in parts.iter().enumerate() {
        let namespace = if cookie % 2 == 0 { one } else { two };
        batch.write(namespace, &region, part.clone(), Lba(part.start as u64 / 512), cookie as u64).unwrap();
    }
    batch.flush(one, 99).unwrap();
    assert_eq!((batch.len(), batch.depth()), (6, 64));
    batch.submit().unwrap();
    let outcomes = all(&mut batch);
    for (cookie, part) in parts.iter().enumerate() {
        let outcome = &outcomes[&(cookie as u64)];
        assert!(outcome.result.is_ok() && outcome.bytes == part.len() as u64, "{outcome:?}");
    }
    assert!(outcomes[&99].result.is_ok());
    for (cookie, part) in parts.iter().enumerate() {
        let namespace = if cookie % 2 == 0 { one } else { two };
        let to = (4 << 20) + part.start..(4 << 20) + part.end;
        batch.read(namespace, &region, to, Lba(part.start as u64 / 512), cookie as u64).unwrap();
    }
    assert!(
        all(&mut batch).values().all(|outcome| outcome.result.is_ok()),
        "a harvest launches what was not submitted"
    );
    let mut back = vec![0; bytes.len()];
    region.copy_out(4 << 20, &mut back).unwrap();
    assert!(back == bytes);
    drop((batch, region));
    device.close().unwrap();
    assert_left_clean(&emu);
}

#[test]
fn outcomes_come_in_the_order_of_the_device() {
    let emu = stepped(|config| {
        config.out_of_order = Some(3);
        config.latency = Duration::from_micros(10);
    });
    let device = open(&emu, 1, 64);
    let region = device.alloc(64 * 4096).unwrap();
    let mut batch = device.batch(64).unwrap();
    reads(&mut batch, device.namespace().unwrap(), &region, 60, 4096);
    batch.submit().unwrap();
    let mut outcomes = Vec::new();
    assert_eq!(batch.harvest(0, Some(Duration::ZERO), &mut outcomes).unwrap(), 0, "nothing is there yet");
    assert_eq!(batch.harvest_up_to(5, 5, None, &mut outcomes).unwrap(), 5);
    batch.harvest(55, None, &mut outcomes).unwrap();
    let cookies: Vec<u64> = outcomes.iter().map(|outcome| outcome.cookie).collect();
    assert!(!cookies.is_sorted(), "{cookies:?}");
    assert_eq!((outcomes.len(), batch.len()), (60, 0));
}

#[test]
fn a_time_out_brings_what_is_there() {
    let emu = stepped(|config| config.latency = Duration::from_millis(50));
    let device = open(&emu, 4, 64);
    let region = device.alloc(1 << 20).unwrap();
    let mut batch = device.batch(8).unwrap();
    reads(&mut batch, device.namespace().unwrap(), &region, 2, 4096);
    batch.submit().unwrap();
    let (begin, mut outcomes) = (emu.clock().now(), Vec::new());
    assert_eq!(batch.harvest(2, Some(Duration::from_millis(10)), &mut outcomes).unwrap(), 0);
    let waited = emu.clock().now().since(begin);
    assert!((Duration::from_millis(10)..Duration::from_millis(20)).contains(&waited), "{waited:?}");
    assert_eq!(batch.harvest(2, Some(Duration::from_secs(1)), &mut outcomes).unwrap(), 2);
}

#[test]
fn a_batch_is_deeper_than_its_queues_and_used_again() {
    let emu = stepped(|config| config.out_of_order = Some(1));
    let device = open(&emu, 4, 16);
    let region = device.alloc(4096 * 512).unwrap();
    let mut batch = device.batch(4096).unwrap();
    let mut outcomes = Vec::with_capacity(4096);
    for _ in 0..3 {
        reads(&mut batch, device.namespace().unwrap(), &region, 4096, 512);
        assert!(matches!(batch.flush(device.namespace().unwrap(), 0), Err(Error::BatchFull { depth: 4096 })));
        batch.submit().unwrap();
        outcomes.clear();
        assert_eq!(batch.harvest(usize::MAX, None, &mut outcomes).unwrap(), 4096);
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    }
    assert_eq!(device.stats().total(|queue| queue.completed), 3 * 4096);
    drop((batch, region));
    device.close().unwrap();
    assert_left_clean(&emu);
}

#[test]
fn what_is_wrong_is_refused_with_its_value() {
    let (emu, other) = (stepped(|_| {}), stepped(|_| {}));
    let (device, foreign) = (open(&emu, 4, 64), open(&other, 4, 64));
    for depth in [0, Batch::DEPTH_MAX + 1] {
        let error = device.batch(depth).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("a batch of {depth} entries is not possible; 1 to 65536 are accepted")
        );
    }
    let mut batch = device.batch(4).unwrap();
    let (namespace, region) = (device.namespace().unwrap(), device.alloc(8192).unwrap());
    let strange = foreign.alloc(8192).unwrap();
    let mut read = |range, lba| batch.read(namespace, &region, range, Lba(lba), 0);
    assert!(matches!(read(0..100, 0), Err(Error::Alignment { value: 100, .. })));
    assert!(matches!(read(0..16384, 0), Err(Error::ByteRange { end: 16384, .. })));
    assert!(matches!(read(0..1024, 32767), Err(Error::BlockRange { blocks: 2, .. })));
    assert!(matches!(batch.read(namespace, &strange, 0..512, Lba(0), 0), Err(Error::ForeignRegion)));
    let elsewhere = foreign.namespace().unwrap();
    assert!(matches!(
        batch.read(elsewhere, &strange, 0..512, Lba(0), 0),
        Err(Error::ForeignNamespace { .. })
    ));
    assert!(matches!(batch.flush(elsewhere, 0), Err(Error::ForeignNamespace { .. })));
    assert!(batch.is_empty());
    batch.read(namespace, &region, 512..512, Lba(0), 5).unwrap();
    assert!(all(&mut batch)[&5].result.is_ok(), "no bytes are read at once");
}

#[test]
fn one_that_fails_fails_alone() {
    let emu = stepped(|config| config.out_of_order = Some(5));
    let device = faulty(&emu, "media:on=read,lba=16+1; media:on=read,lba=4096+1");
    let namespace = device.namespace().unwrap();
    let region = device.alloc(2 << 20).unwrap();
    let mut batch = device.batch(64).unwrap();
    reads(&mut batch, namespace, &region, 8, 4096);
    // Eight commands of 128 KiB each, of which the fifth fails.
    batch.read(namespace, &region, 1 << 20..2 << 20, Lba(4096 - 1024), 100).unwrap();
    batch.submit().unwrap();
    for (cookie, outcome) in all(&mut batch) {
        match (cookie, outcome.result) {
            (2, Err(Error::Io(failure))) => {
                assert_eq!(
                    (failure.operation, failure.lba, failure.len_bytes),
                    (Operation::Read, Lba(16), 4096)
                );
                assert_eq!((outcome.bytes, failure.done_bytes), (0, 0));
            }
            (100, Err(Error::Io(failure))) => {
                assert_eq!((failure.lba, failure.done_bytes), (Lba(4096), 512 << 10));
                assert_eq!(outcome.bytes, 512 << 10);
            }
            (2 | 100, other) => panic!("{cookie}: {other:?}"),
            (_, result) => assert!(result.is_ok() && outcome.bytes == 4096),
        }
    }
    drop((batch, region));
    device.close().unwrap();
    assert_left_clean(&emu);
}

#[test]
fn what_the_device_was_not_given_is_cancelled() {
    let emu = stepped(|config| config.latency = Duration::from_millis(1));
    let device = open(&emu, 1, 8);
    let region = device.alloc(4 << 20).unwrap();
    let namespace = device.namespace().unwrap();
    let mut batch = device.batch(64).unwrap();
    reads(&mut batch, namespace, &region, 20, 4096);
    assert_eq!(batch.cancel(3), 1);
    assert_eq!(batch.cancel(3), 0, "it has ended");
    // Seven slots.
    assert_eq!(batch.submit().unwrap(), 12);
    assert_eq!((batch.cancel(0), batch.cancel(19)), (0, 1), "the device has the first");
    assert_eq!(batch.cancel_all(), 11);
    let outcomes = all(&mut batch);
    let cancelled =
        outcomes.values().filter(|outcome| matches!(outcome.result, Err(Error::Cancelled))).count();
    assert_eq!((outcomes.len(), cancelled), (20, 13));
    // A large one of which the device has a part: that part ends first.
    batch.read(namespace, &region, 0..4 << 20, Lba(0), 50).unwrap();
    assert_eq!(batch.submit().unwrap(), 1);
    assert_eq!(batch.cancel(50), 1);
    let mut outcomes = Vec::new();
    assert_eq!(batch.harvest(0, Some(Duration::ZERO), &mut outcomes).unwrap(), 0);
    batch.harvest(1, None, &mut outcomes).unwrap();
    let [outcome] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(matches!(outcome.result, Err(Error::Cancelled)));
    assert!((1..4 << 20).contains(&outcome.bytes), "{}", outcome.bytes);
    assert_eq!(device.stats().total(|queue| queue.outstanding.into()), 0);
    drop((batch, region));
    device.close().unwrap();
    assert_left_clean(&emu);
}

#[test]
fn a_batch_that_is_dropped_in_flight_frees_nothing_under_the_device() {
    for (count, len) in [(32, 4096), (2, 1 << 20)] {
        let emu = stepped(|config| config.latency = Duration::from_millis(1));
        let device = open(&emu, 2, 16);
        let region = device.alloc(2 << 20).unwrap();
        let mut batch = device.batch(64).unwrap();
        reads(&mut batch, device.namespace().unwrap(), &region, count, len);
        batch.submit().unwrap();
        drop(device);
        // The batch alone keeps all of it.
        drop(region);
        drop(batch);
        assert_left_clean(&emu);
    }
}

#[test]
fn a_batch_that_is_forgotten_keeps_its_memory() {
    let emu = stepped(|config| config.latency = Duration::from_millis(1));
    let device = open(&emu, 2, 16);
    let region = device.alloc(64 << 10).unwrap();
    let mut batch = device.batch(16).unwrap();
    reads(&mut batch, device.namespace().unwrap(), &region, 8, 4096);
    batch.submit().unwrap();
    std::mem::forget(batch);
    drop(region);
    // Nobody looks for these commands but whoever closes the device.
    device.close_with(Drain::Wait).unwrap();
    emu.run_until_idle();
    emu.assert_clean();
}

#[test]
fn a_region_in_a_batch_is_not_released() {
    let emu = stepped(|_| {});
    let device = open(&emu, 4, 64);
    let region = device.alloc(8192).unwrap();
    let mut batch = device.batch(4).unwrap();
    batch.read(device.namespace().unwrap(), &region, 0..4096, Lba(0), 0).unwrap();
    let (region, error) = region.release().unwrap_err();
    assert!(matches!(error, Error::Cloned { clones: 1 }), "{error}");
    all(&mut batch);
    region.release().unwrap();
}

#[test]
fn a_close_tells_every_entry() {
    let emu = stepped(|config| config.latency = Duration::from_secs(20));
    let device = open(&emu, 4, 16);
    let region = device.alloc(1 << 20).unwrap();
    let mut batch = device.batch(128).unwrap();
    reads(&mut batch, device.namespace().unwrap(), &region, 100, 4096);
    let left = batch.submit().unwrap();
    assert!(left > 0);
    let refused = device.clone().close();
    assert!(matches!(refused, Err(Error::Outstanding { outstanding: 30 })), "{refused:?}");
    device.clone().close_with(Drain::Force).unwrap();
    let outcomes = all(&mut batch);
    assert_eq!(outcomes.len(), 100);
    assert!(outcomes.values().all(|outcome| matches!(outcome.result, Err(Error::Wedged(Wedge::Forced)))));
    batch.read(device.namespace().unwrap(), &region, 0..4096, Lba(0), 1).unwrap();
    assert!(matches!(batch.submit(), Err(Error::Wedged(Wedge::Forced))));
    assert!(matches!(all(&mut batch)[&1].result, Err(Error::Wedged(Wedge::Forced))));
    drop((batch, region, device));
    assert_left_clean(&emu);
}

#[test]
fn a_closed_device_begins_nothing() {
    let emu = stepped(|_| {});
    let device = open(&emu, 4, 16);
    let region = device.alloc(4096).unwrap();
    let mut batch = device.batch(4).unwrap();
    batch.read(device.namespace().unwrap(), &region, 0..4096, Lba(0), 1).unwrap();
    device.clone().close().unwrap();
    assert!(matches!(batch.submit(), Err(Error::Closed)));
    assert!(matches!(all(&mut batch)[&1].result, Err(Error::Closed)));
    assert!(matches!(device.batch(4), Err(Error::Closed)));
}

#[test]
fn late_commands_are_aborted_and_the_others_stand() {
    let emu = stepped(|config| config.latency = Duration::from_secs(3600));
    let device = open(&emu, 4, 64);
    let region = device.alloc(1 << 20).unwrap();
    let mut batch = device.batch(16).unwrap();
    reads(&mut batch, device.namespace().unwrap(), &region, 3, 4096);
    batch.read(device.namespace().unwrap(), &region, 0..512 << 10, Lba(0), 9).unwrap();
    batch.submit().unwrap();
    let begin = emu.clock().now();
    let outcomes = all(&mut batch);
    assert!(outcomes.values().all(|outcome| matches!(outcome.result, Err(Error::Io(_)))), "{outcomes:?}");
    let waited = emu.clock().now().since(begin);
    assert!((Duration::from_secs(30)..Duration::from_secs(60)).contains(&waited), "{waited:?}");
    assert_eq!(device.wedged(), None);
    drop((batch, region));
    device.close().unwrap();
    assert_left_clean(&emu);
}

#[test]
fn a_device_that_hangs_is_given_up_and_every_entry_told() {
    let emu = stepped(|_| {});
    let device = faulty(&emu, "hang:opcode=0x02,nth=20");
    let region = device.alloc(1 << 20).unwrap();
    let mut batch = device.batch(64).unwrap();
    reads(&mut batch, device.namespace().unwrap(), &region, 64, 4096);
    batch.submit().unwrap();
    let outcomes = all(&mut batch);
    let told = outcomes.values().filter(|outcome| match &outcome.result {
        Ok(()) => false,
        Err(error) => {
            assert!(matches!(error, Error::Wedged(Wedge::Timeout { .. })), "{error}");
            true
        }
    });
    assert!((1..=64).contains(&told.count()));
    drop((batch, region, device));
    assert_left_clean(&emu);
}

#[test]
fn a_poll_that_never_waits_finds_the_late_too() {
    let emu = stepped(|_| {});
    let device = faulty(&emu, "drop-cqe:opcode=0x02,nth=2");
    let region = device.alloc(64 << 10).unwrap();
    let mut batch = device.batch(8).unwrap();
    reads(&mut batch, device.namespace().unwrap(), &region, 4, 4096);
    batch.submit().unwrap();
    let mut outcomes = Vec::new();
    for _ in 0..100_000 {
        batch.harvest(0, Some(Duration::ZERO), &mut outcomes).unwrap();
        emu.clock().wait_until(emu.clock().now().after(Duration::from_millis(50)));
        if batch.is_empty() {
            break;
        }
    }
    assert_eq!(outcomes.iter().filter(|outcome| outcome.result.is_ok()).count(), 3);
    let told = |outcome: &Outcome| matches!(outcome.result, Err(Error::Wedged(Wedge::Timeout { .. })));
    assert!(outcomes.iter().any(told), "{outcomes:?}");
}

#[test]
fn many_batches_of_many_threads_share_the_queues() {
    let config = EmuConfig { latency: Duration::from_micros(100), ..EmuConfig::default() };
    let emu = Emu::new(config.with_namespaces(1, 16 << 20, 512)).unwrap();
    let device = open(&emu, 2, 16);
    thread::scope(|scope| {
        for caller in 0..12u64 {
            let device = &device;
            scope.spawn(move || {
                let region = device.alloc(64 << 10).unwrap();
                let namespace = device.namespace().unwrap();
                let mut batch = device.batch(16).unwrap();
                for round in 0..10u8 {
                    region.copy_in(0, &vec![caller as u8 ^ round << 4; 32 << 10]).unwrap();
                    for n in 0..8 {
                        let lba = Lba(caller * 64 + n as u64 * 8);
                        batch.write(namespace, &region, n * 4096..(n + 1) * 4096, lba, n as u64).unwrap();
                    }
                    batch.submit().unwrap();
                    assert!(all(&mut batch).values().all(|outcome| outcome.result.is_ok()));
                    batch.read(namespace, &region, 32 << 10..64 << 10, Lba(caller * 64), 0).unwrap();
                    batch.submit().unwrap();
                    assert!(all(&mut batch)[&0].result.is_ok());
                    let mut back = vec![0; 32 << 10];
                    region.copy_out(32 << 10, &mut back).unwrap();
                    assert!(back.iter().all(|&byte| byte == caller as u8 ^ round << 4));
                }
            });
        }
    });
    device.close().unwrap();
    assert_left_clean(&emu);
}
