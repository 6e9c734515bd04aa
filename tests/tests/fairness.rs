//! Many callers on few queues, in virtual time: nobody starves, and the device has as much to do as with few callers.

use std::time::Duration;
use ugds::emu::{Emu, EmuConfig};
use ugds::nvme::Lba;
use ugds::{Batch, Classes, Device, Options};
use ugds_hal::{Backend, Clock, Instant};

/// How long the reads took in virtual time, and the longest that one of them waited.
struct Took {
    all: Duration,
    worst: Duration,
}

/// `callers` with one read of 4 KiB at a time each, of which they have `reads` together, on a device that takes 20 us for
/// each and moves 1000 MiB/s. One thread plays all callers, so the order is the same each time.
fn run(callers: usize, reads: usize) -> Took {
    let config =
        EmuConfig { latency: Duration::from_micros(20), bandwidth_mib_s: 1000, ..EmuConfig::default() };
    let emu = Emu::new(config.with_namespaces(1, 16 << 20, 512).stepped()).unwrap();
    let mut options = Options::default();
    (options.queues, options.queue_entries, options.classes) = (4, 32, Classes::Shared);
    let device = Device::with_backend(emu.clone(), options, None).unwrap();
    let namespace = device.namespace().unwrap();
    let region = device.alloc(callers * 4096).unwrap();
    let mut batches: Vec<(Batch, Instant)> =
        (0..callers).map(|_| (device.batch(1).unwrap(), Instant(0))).collect();
    let (begin, mut left, mut worst, mut outcomes) = (emu.clock().now(), reads, Duration::ZERO, Vec::new());
    while left != 0 || batches.iter().any(|(batch, _)| !batch.is_empty()) {
        for (caller, (batch, since)) in batches.iter_mut().enumerate() {
            if batch.is_empty() && left != 0 {
                left -= 1;
                let range = caller * 4096..(caller + 1) * 4096;
                batch.read(namespace, &region, range, Lba(caller as u64 * 8), 0).unwrap();
                *since = emu.clock().now();
                batch.submit().unwrap();
            }
            if batch.harvest(0, Some(Duration::ZERO), &mut outcomes).unwrap() != 0 {
                worst = worst.max(emu.clock().now().since(*since));
            }
        }
        emu.step();
    }
    assert!(outcomes.len() == reads && outcomes.iter().all(|outcome| outcome.result.is_ok()));
    Took { all: emu.clock().now().since(begin), worst }
}

#[test]
fn sixty_four_callers_are_no_slower_than_four_and_nobody_starves() {
    let (few, many) = (run(4, 2048), run(64, 2048));
    println!(
        "2048 reads: 4 callers {:?}, worst {:?}; 64 callers {:?}, worst {:?}",
        few.all, few.worst, many.all, many.worst
    );
    assert!(many.all <= few.all, "{:?} and {:?}", few.all, many.all);
    // The pipe alone takes 3.9 us for each of 64, and one may come in behind all others.
    assert!(many.worst < 2 * Duration::from_nanos(20_000 + 64 * 3907), "{:?}", many.worst);
}
