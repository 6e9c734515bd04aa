//! Many callers on few queues: everybody is served, by one that polls while the others sleep.

use std::thread;
use std::time::{Duration, Instant};
use ugds::emu::{Emu, EmuConfig};
use ugds::nvme::Lba;
use ugds::{Classes, Device, Options, Policy};

fn device(latency: Duration, queues: u16, change: impl FnOnce(&mut Options)) -> (Emu, Device) {
    let config = EmuConfig { latency, ..EmuConfig::default() };
    let emu = Emu::new(config.with_namespaces(1, 16 << 20, 512)).unwrap();
    let mut options = Options::default();
    options.queues = queues;
    change(&mut options);
    let device = Device::with_backend(emu.clone(), options, None).unwrap();
    (emu, device)
}

/// `callers` threads, each of which writes and reads its own blocks.
fn write_and_read(device: &Device, callers: u64, rounds: u64) {
    thread::scope(|scope| {
        for caller in 0..callers {
            scope.spawn(move || {
                let region = device.alloc(8192).unwrap();
                let namespace = device.namespace().unwrap();
                for round in 0..rounds {
                    let (lba, mark) = (Lba(caller * 8), (caller << 32 | round).to_le_bytes());
                    region.copy_in(0, &mark).unwrap();
                    namespace.write(&region, 0..4096, lba).unwrap();
                    namespace.read(&region, 4096..8192, lba).unwrap();
                    let mut back = [0; 8];
                    region.copy_out(4096, &mut back).unwrap();
                    assert_eq!(back, mark);
                }
            });
        }
    });
}

#[test]
fn many_threads_share_few_queues() {
    for (latency_us, queues, classes) in
        [(0, 1, Classes::Shared), (300, 2, Classes::Parted), (300, 4, Classes::Parted)]
    {
        let (emu, device) =
            device(Duration::from_micros(latency_us), queues, |options| options.classes = classes);
        write_and_read(&device, 24, 10);
        let stats = device.stats();
        assert_eq!(stats.total(|queue| queue.completed), 24 * 10 * 2);
        assert_eq!(stats.total(|queue| queue.outstanding.into()), 0);
        device.close().unwrap();
        emu.assert_clean();
        assert_eq!(emu.live_mappings(), 0);
    }
}

/// If each waited for the one before, 32 of them would take two seconds.
#[test]
fn callers_that_sleep_have_their_commands_in_flight() {
    let (emu, device) = device(Duration::from_millis(60), 1, |_| {});
    let begin = Instant::now();
    write_and_read(&device, 32, 1);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    device.close().unwrap();
    emu.assert_clean();
}

/// A thread that waits uses no processor unless it is the one that polls.
#[test]
fn those_who_wait_sleep_but_for_one() {
    let (_emu, device) = device(Duration::from_millis(500), 1, |_| {});
    let slept: Vec<u64> = thread::scope(|scope| {
        let callers: Vec<_> = (0..6)
            .map(|_| {
                let device = &device;
                scope.spawn(move || {
                    let region = device.alloc(512).unwrap();
                    device.namespace().unwrap().read(&region, 0..512, Lba(0)).unwrap();
                    processor_ms()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    // The model gives the poller's processor up in steps of 20 us, so even that one uses little.
    let busy = slept.iter().filter(|&&ms| ms > 20).count();
    assert!(busy <= 1, "{slept:?} ms of processor time");
}

/// The processor time of this thread so far.
fn processor_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

#[test]
fn every_policy_brings_every_byte() {
    for policy in [Policy::LeastLoaded, Policy::RoundRobin, Policy::HeldQueue] {
        let (emu, device) = device(Duration::from_micros(50), 3, |options| options.policy = policy);
        write_and_read(&device, 4, 10);
        let used = device.stats().queues.iter().filter(|queue| queue.submitted != 0).count();
        assert!(used >= 2, "{policy:?} used {used} queues");
        device.close().unwrap();
        emu.assert_clean();
    }
}

/// A request of the paper's policy stays on its queue; ours is spread.
#[test]
fn a_held_queue_has_the_whole_request() {
    for (policy, most) in [(Policy::HeldQueue, 1), (Policy::LeastLoaded, 4)] {
        let (_emu, device) = device(Duration::from_millis(1), 4, |options| {
            (options.policy, options.classes) = (policy, Classes::Shared);
        });
        let region = device.alloc(4 << 20).unwrap();
        device.namespace().unwrap().read(&region, 0..4 << 20, Lba(0)).unwrap();
        let used = device.stats().queues.iter().filter(|queue| queue.submitted != 0).count();
        assert_eq!(used, most, "{policy:?}");
    }
}

#[test]
fn classes_keep_to_their_queues() {
    let (_emu, device) = device(Duration::ZERO, 4, |_| {});
    let region = device.alloc(4096).unwrap();
    let namespace = device.namespace().unwrap();
    for _ in 0..8 {
        namespace.write(&region, 0..4096, Lba(0)).unwrap();
        namespace.flush().unwrap();
    }
    let submitted: Vec<u64> = device.stats().queues.iter().map(|queue| queue.submitted).collect();
    assert_eq!((submitted[0] + submitted[1], submitted[2], submitted[3]), (8, 0, 8));
}

/// A backend that the facade has never heard of.
#[test]
fn any_backend_is_driven() {
    let device = Device::with_backend(ugds_null::Null::new(), Options::default(), None).unwrap();
    assert_eq!(device.info().queues, 8);
    let namespace = device.namespace().unwrap();
    let region = device.alloc(2 << 20).unwrap();
    namespace.read(&region, 0..4096, Lba(5)).unwrap();
    namespace.read(&region, 0..2 << 20, Lba(0)).unwrap();
    namespace.flush().unwrap();
    assert_eq!(device.stats().total(|queue| queue.completed), 18);
    drop(region);
    device.close().unwrap();
}
