//! Many lives of a device in one process: open, use, fault, stop, open again. Nothing may be left of any.

use std::fs;
use ugds::emu::{Emu, EmuConfig};
use ugds::faulty::Faulty;
use ugds::nvme::Lba;
use ugds::{Device, Error, Options};

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    resident_bytes: usize,
    descriptors: usize,
    threads: usize,
}

impl Holdings {
    fn now() -> Self {
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        let count = |path| fs::read_dir(path).unwrap().count();
        Self {
            resident_bytes: pages * 4096,
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
        }
    }
}

fn cycle(emu: &Emu, plan: &str) {
    let faulty = Faulty::over_model(emu.clone(), plan.parse().unwrap()).unwrap();
    let mut options = Options::default();
    (options.queues, options.queue_entries) = (2, 64);
    let device = Device::with_faulty(faulty.clone(), options, None).unwrap();
    let namespace = device.namespace().unwrap().clone();
    let region = device.alloc(256 << 10).unwrap();
    namespace.write(&region, 0..256 << 10, Lba(0)).unwrap();
    let mut told = false;
    for _ in 0..4 {
        match namespace.read(&region, 0..256 << 10, Lba(0)) {
            Ok(()) => {}
            Err(Error::Io(_) | Error::Wedged(_)) => told = true,
            Err(other) => panic!("{plan}: {other}"),
        }
    }
    assert!(faulty.fired() > 0, "{plan}");
    assert!(told || plan.starts_with("delay"), "{plan}: nobody was told");
    drop((region, namespace));
    device.close().unwrap();
    assert_eq!((emu.violations().len(), emu.live_mappings()), (0, 0), "{plan}");
}

/// One life for each kind of fault after which the controller can be stopped.
fn lives(stepped: &Emu, threaded: &EmuConfig, count: usize) {
    for plan in STEPPED.iter().cycle().take(count) {
        cycle(stepped, plan);
    }
    for plan in THREADED.iter().cycle().take(count / 10) {
        cycle(&Emu::new(threaded.clone()).unwrap(), plan);
    }
}

#[test]
fn a_process_keeps_nothing_of_the_devices_it_had() {
    let lives_count = if cfg!(debug_assertions) { 100 } else { 1000 };
    let threaded = EmuConfig::default().with_namespaces(1, 16 << 20, 512);
    let stepped = Emu::new(threaded.clone().stepped()).unwrap();
    lives(&stepped, &threaded, 50);
    let before = Holdings::now();
    lives(&stepped, &threaded, lives_count);
    let after = Holdings::now();
    println!("{lives_count} lives: {before:?} to {after:?}");
    assert_eq!((before.descriptors, before.threads), (after.descriptors, after.threads));
    let growth = after.resident_bytes.saturating_sub(before.resident_bytes);
    assert!(growth < GROWTH_BYTES, "{growth} bytes of memory are left of {lives_count} lives");
}

const STEPPED: [&str; 10] = [
    "drop-cqe:opcode=0x02,nth=3",
    "hang:opcode=0x02,nth=2",
    "duplicate-cqe:opcode=0x02,nth=1",
    "corrupt-cid:opcode=0x02,nth=2,xor=0x8000",
    "corrupt-sqhd:opcode=0x02,nth=1,xor=0x4000",
    "corrupt-phase:opcode=0x02,nth=1",
    "corrupt-status:opcode=0x02,nth=1,status=0/06",
    "cfs:opcode=0x02,nth=2",
    "media:on=read,lba=300+1",
    "delay-cqe:opcode=0x02,nth=1,by=20s",
];
/// Those that are noticed without waiting for a deadline.
const THREADED: [&str; 4] = [
    "duplicate-cqe:opcode=0x02,nth=1",
    "corrupt-cid:opcode=0x02,nth=2,xor=0x8000",
    "cfs:opcode=0x02,nth=2",
    "media:on=read,lba=300+1",
];
/// A life that left its region alone would leave 256 KiB.
const GROWTH_BYTES: usize = 4 << 20;
