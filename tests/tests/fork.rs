//! What a child may do with a device that its parent opened: nothing, and it is told so. And what a process leaves that
//! ends without a word.
//!
//! The child of a fork has its own copy of the controller model, so what the child does to the device is to be seen in
//! that copy.
//!
//! UNSAFETY: forks. Each child runs one closure and exits.

#![allow(unsafe_code)]

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use ugds::emu::{Emu, EmuConfig};
use ugds::nvme::Lba;
use ugds::nvme::register::{Cc, Csts, Property};
use ugds::{Device, Drain, Error, Options};

/// Runs `f` in a child, which must come to its end.
#[track_caller]
fn in_child(f: impl FnOnce()) {
    // SAFETY: the child is one thread, which uses what it inherited as safe code may, and exits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
        }
        ForkResult::Child => {
            // One that hangs is killed: the parent waits for it.
            alarm::set(10);
            let ended = catch_unwind(AssertUnwindSafe(f));
            if let Err(panic) = &ended {
                let text = panic.downcast_ref::<String>().map_or("it panicked", String::as_str);
                // Past the capture of the test's output, which ends with the parent.
                let _ = writeln!(std::io::stderr(), "in the child: {text}");
            }
            std::process::exit(i32::from(ended.is_err()));
        }
    }
}

fn small() -> EmuConfig {
    EmuConfig::default().with_namespaces(1, 16 << 20, 512)
}

fn open(config: EmuConfig) -> (Emu, Device) {
    let emu = Emu::new(config).unwrap();
    let device = Device::with_emu(emu.clone(), Options::default(), None).unwrap();
    (emu, device)
}

#[track_caller]
fn assert_forked<T: std::fmt::Debug>(what: &str, result: &Result<T, Error>) {
    assert!(matches!(result, Err(Error::Forked)), "{what}: {result:?}");
}

const DRAINS: [Drain; 4] = [Drain::Check, Drain::Grace(Duration::from_secs(1)), Drain::Wait, Drain::Force];

#[test]
fn every_call_of_a_child_is_refused_and_the_device_hears_nothing_of_it() {
    let (emu, device) = open(small().stepped());
    let (_other_emu, other) = open(small().stepped());
    let namespace = device.namespace().unwrap().clone();
    let region = device.alloc(64 << 10).unwrap();
    let foreign = other.alloc(4096).unwrap();
    namespace.write(&region, 0..4096, Lba(0)).unwrap();
    let mut batch = Some(device.batch(4).unwrap());
    batch.as_mut().unwrap().read(&namespace, &region, 0..4096, Lba(0), 0).unwrap();
    batch.as_mut().unwrap().submit().unwrap();
    let before = emu.stats();
    in_child(|| {
        let mut batch = batch.take().unwrap();
        assert_forked("submit", &batch.submit());
        assert_forked("harvest", &batch.harvest(1, None, &mut Vec::new()));
        assert_forked("batch", &device.batch(4));
        drop(batch);
        assert_forked("read", &namespace.read(&region, 0..4096, Lba(0)));
        assert_forked("write", &namespace.write(&region, 0..4096, Lba(0)));
        assert_forked("flush", &namespace.flush());
        assert_forked("alloc", &device.alloc(4096));
        assert_forked("share", &device.share(&foreign));
        assert_forked("events", &device.events());
        for drain in DRAINS {
            assert_forked("close", &device.clone().close_with(drain));
        }
        assert_eq!(device.stats().queues, [], "there is nothing to count here");
        assert_eq!(device.wedged(), None);
        assert_eq!(emu.stats(), before, "no doorbell rung, no register read, no command fetched");
    });
    drop(batch);
    namespace.read(&region, 0..4096, Lba(0)).unwrap();
    drop((region, namespace));
    device.close().unwrap();
    emu.assert_clean();
}

#[test]
fn a_child_releases_no_region_and_does_not_wait_for_one() {
    let (emu, device) = open(small().stepped());
    let mut region = Some(device.alloc(64 << 10).unwrap());
    let mapped = emu.live_mappings();
    in_child(|| {
        let mut left = region.take().unwrap();
        for drain in DRAINS {
            let (back, error) = left.release_with(drain).unwrap_err();
            assert!(matches!(error, Error::Forked), "{drain:?}: {error}");
            left = back;
        }
        assert_eq!(emu.live_mappings(), mapped, "what the device may write to stays mapped");
    });
    region.unwrap().release().unwrap();
    device.close().unwrap();
    assert_eq!(emu.live_mappings(), 0);
}

#[test]
fn what_a_child_drops_is_not_taken_from_the_device() {
    let (emu, device) = open(small().stepped());
    let namespace = device.namespace().unwrap().clone();
    let region = device.alloc(64 << 10).unwrap();
    region.copy_in(0, &[7; 4096]).unwrap();
    namespace.write(&region, 0..4096, Lba(0)).unwrap();
    let before = emu.stats();
    let mut held = Some((device, namespace, region));
    in_child(|| {
        drop(held.take());
        assert_eq!(emu.stats(), before, "no queue is deleted, and no shutdown announced");
        let [configuration, status] = [Property::CC, Property::CSTS].map(|which| emu.load32(which.offset()));
        assert!(Cc::from_bits(configuration).en() && Csts::from_bits(status).rdy(), "it runs on");
    });
    let (device, namespace, region) = held.unwrap();
    namespace.read(&region, 4096..8192, Lba(0)).unwrap();
    let mut bytes = [0; 4096];
    region.copy_out(4096, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 4096]);
    drop((namespace, region));
    device.close().unwrap();
    emu.assert_clean();
}

#[test]
fn a_child_opens_a_device_of_its_own() {
    let (_emu, _device) = open(small().stepped());
    in_child(|| {
        let (emu, device) = open(small().stepped());
        let region = device.alloc(4096).unwrap();
        device.namespace().unwrap().read(&region, 0..4096, Lba(0)).unwrap();
        drop(region);
        device.close().unwrap();
        emu.assert_clean();
    });
}

/// The locks of the device may be held when the process forks, and nobody in the child will ever unlock them.
#[test]
fn a_fork_in_the_middle_of_io_stops_neither_the_parent_nor_the_child() {
    let (emu, device) = open(small());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_until(&device, &stop))).collect();
        for _ in 0..20 {
            let mut inherited = Some(device.clone());
            in_child(|| {
                let device = inherited.take().unwrap();
                assert_forked("alloc", &device.alloc(4096));
                assert_forked("close", &device.clone().close_with(Drain::Force));
                assert_eq!(device.stats().queues, []);
            });
        }
        stop.store(true, Ordering::Relaxed);
        let read: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert_eq!(device.stats().total(|queue| queue.completed), read, "each read has ended once");
    });
    device.close().unwrap();
    emu.assert_clean();
}

/// Reads until it is told to stop, and says how often it has.
fn read_until(device: &Device, stop: &AtomicBool) -> u64 {
    let region = device.alloc(4096).unwrap();
    let namespace = device.namespace().unwrap();
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        namespace.read(&region, 0..4096, Lba(0)).unwrap();
        reads += 1;
    }
    reads
}

/// Whoever waits ends with the process, and what was flushed is there for the next one.
#[test]
fn a_process_that_exits_in_the_middle_of_io_ends_at_once_and_leaves_what_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let config = || small().with_file(&image);
    in_child(|| {
        let (_emu, device) = open(EmuConfig { latency: Duration::from_millis(5), ..config() });
        let region = device.alloc(4096).unwrap();
        let namespace = device.namespace().unwrap().clone();
        region.copy_in(0, &[9; 4096]).unwrap();
        namespace.write(&region, 0..4096, Lba(8)).unwrap();
        namespace.flush().unwrap();
        for _ in 0..4 {
            let (namespace, region) = (namespace.clone(), region.clone());
            thread::spawn(move || while namespace.read(&region, 0..4096, Lba(0)).is_ok() {});
        }
        while device.stats().total(|queue| queue.outstanding.into()) == 0 {
            thread::yield_now();
        }
        std::process::exit(0);
    });
    let (_emu, device) = open(config());
    let region = device.alloc(4096).unwrap();
    device.namespace().unwrap().read(&region, 0..4096, Lba(8)).unwrap();
    let mut bytes = [0; 4096];
    region.copy_out(0, &mut bytes).unwrap();
    assert_eq!(bytes, [9; 4096]);
}

/// A child has no thread to answer with, and what it drops is its parent's.
#[test]
fn a_child_neither_answers_for_its_parent_nor_takes_its_socket_away() {
    let options = || Options::default().publish_statistics("fork");
    let device = Device::with_emu(Emu::new(small()).unwrap(), options(), None).unwrap();
    let (_, path) = device.info().statistics.split_once("published at ").unwrap();
    let entry = || {
        let entries = ugds::published::list().unwrap();
        entries.into_iter().find(|entry| entry.path == Path::new(path)).unwrap()
    };
    let mut inherited = Some(device.clone());
    in_child(|| {
        assert_eq!(device.stats().queues, []);
        assert_forked("close", &device.clone().close());
        drop(inherited.take());
        let namespaces = device.namespaces().len();
        assert_eq!(namespaces, 1);
    });
    drop(inherited);
    let answer = ugds::published::read(&entry()).unwrap().unwrap();
    assert!(answer.contains("\"name\":\"fork\"") && answer.contains("\"qid\":1"), "{answer}");
    let (place, entry) = (PathBuf::from(path), entry());
    // Each thread has a folder, which may be there for a moment after the thread was joined.
    let answers = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
        names.filter(|name| name.trim_end() == "ugds-stats").count()
    };
    assert_eq!(answers(), 1);
    device.close().unwrap();
    while answers() != 0 {
        thread::yield_now();
    }
    assert!(!place.exists());
    assert_eq!(ugds::published::read(&entry).unwrap(), None);
}
