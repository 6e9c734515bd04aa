//! What a device counts, measures and writes down, seen through the facade.

use std::collections::BTreeMap;
use std::time::Duration;
use ugds::emu::{Emu, EmuConfig};
use ugds::faulty::Faulty;
use ugds::nvme::{Cid, Lba, Qid};
use ugds::traced::{Step, Tracer};
use ugds::{Device, Namespace, Options, QueueClass, Region, Statistics, Stats};

const LATENCY: Duration = Duration::from_micros(80);

/// A device under virtual time, all of whose commands take as long.
fn open(options: Options, change: impl FnOnce(&mut EmuConfig)) -> (Emu, Device) {
    let mut config = EmuConfig::default().with_namespaces(1, 64 << 20, 4096).stepped();
    config.latency = LATENCY;
    change(&mut config);
    let emu = Emu::new(config).unwrap();
    let device = Device::with_emu(emu.clone(), options, None).unwrap();
    (emu, device)
}

fn measured() -> Options {
    let mut options = Options::default();
    options.statistics = Statistics::Latencies;
    options
}

fn parts(device: &Device) -> (Namespace, Region) {
    (device.namespace().unwrap().clone(), device.alloc(1 << 20).unwrap())
}

/// Ten blocking reads, a batch of 16 reads, a flush.
fn work(device: &Device) {
    let (namespace, region) = parts(device);
    for n in 0..10 {
        namespace.read(&region, 0..4096, Lba(n)).unwrap();
    }
    let mut batch = device.batch(16).unwrap();
    for n in 0..16 {
        batch.read(&namespace, &region, n * 4096..(n + 1) * 4096, Lba(n as u64), 0).unwrap();
    }
    batch.submit().unwrap();
    batch.harvest(16, None, &mut Vec::new()).unwrap();
    namespace.flush().unwrap();
}

fn class(stats: &Stats, class: QueueClass) -> (u64, u64, Option<u64>) {
    let classes = stats.classes();
    let found = classes.iter().find(|found| found.class == class).unwrap();
    (found.completed, found.bytes, found.latency.as_ref().map(ugds::Histogram::count))
}

#[test]
fn each_class_has_its_commands_bytes_and_latencies() {
    let (_emu, device) = open(measured(), |_| {});
    work(&device);
    let stats = device.stats();
    assert_eq!(class(&stats, QueueClass::Sync), (10, 40960, Some(10)));
    assert_eq!(class(&stats, QueueClass::Batch), (16, 65536, Some(16)));
    assert_eq!(class(&stats, QueueClass::Control), (1, 0, Some(1)));
    for queue in stats.queues.iter().filter(|queue| queue.completed != 0) {
        let measured = queue.measured.as_ref().unwrap();
        let times = measured.all();
        assert_eq!(times.count(), queue.completed);
        assert!(measured.passes != 0 && measured.passes <= queue.completed);
        assert!(queue.doorbells != 0 && queue.doorbells <= queue.completed);
    }
    let reads = stats.classes().remove(0).latency.unwrap();
    assert!(reads.quantile(0.0) >= LATENCY && reads.quantile(1.0) < 4 * LATENCY, "{reads:?}");
    assert!(stats.elapsed >= 10 * LATENCY);
    let text = stats.to_string();
    assert!(text.contains("sync") && text.contains("control"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_difference_is_what_happened_in_between() {
    let (_emu, device) = open(measured(), |_| {});
    work(&device);
    let before = device.stats();
    assert_eq!(before.since(&before).total(|queue| queue.completed + queue.bytes + queue.doorbells), 0);
    work(&device);
    let between = device.stats().since(&before);
    assert_eq!(class(&between, QueueClass::Sync), (10, 40960, Some(10)));
    assert_eq!(class(&between, QueueClass::Control), (1, 0, Some(1)));
    assert_eq!(between.elapsed, device.stats().elapsed - before.elapsed);
    // A device is as new as one that was just opened to those who saw nothing of it.
    assert_eq!(device.stats().since(&Stats::default()), device.stats());
}

#[test]
fn nothing_is_measured_unless_it_is_asked_for() {
    let (_emu, device) = open(Options::default(), |_| {});
    work(&device);
    let stats = device.stats();
    assert!(stats.queues.iter().all(|queue| queue.measured.is_none()));
    // The flush counts for its neighbours.
    assert_eq!(class(&stats, QueueClass::Batch), (17, 65536, None));
    assert!(device.info().statistics.starts_with("not published"), "{}", device.info().statistics);
    assert!(!device.info().path.contains("traced"));
}

#[test]
fn few_queues_are_shared() {
    let (_emu, device) = open(measured(), |config| config.queues = 1);
    work(&device);
    let stats = device.stats();
    assert_eq!(class(&stats, QueueClass::Shared), (26, 26 * 4096, Some(26)));
    assert_eq!(class(&stats, QueueClass::Control), (1, 0, Some(1)));
}

#[test]
fn errors_are_counted_where_they_happen() {
    let emu = Emu::new(EmuConfig::default().with_namespaces(1, 64 << 20, 4096).stepped()).unwrap();
    let faulty = Faulty::over_model(emu, "media:on=read,lba=100+8".parse().unwrap()).unwrap();
    let device = Device::with_faulty(faulty, measured(), None).unwrap();
    let (namespace, region) = parts(&device);
    namespace.read(&region, 0..4096, Lba(103)).unwrap_err();
    work(&device);
    let classes = device.stats().classes();
    let failed: Vec<_> = classes.iter().map(|class| (class.class, class.failed)).collect();
    assert_eq!(failed, [(QueueClass::Sync, 1), (QueueClass::Batch, 0), (QueueClass::Control, 0)]);
}

/// Each command that completes was staged once and published once before, on a device that answers out of order and a
/// driver that is lied to.
#[test]
fn a_trace_has_the_whole_life_of_each_command() {
    for plan in ["", "delay-cqe:qid=1,nth=3,by=2ms; delay-cqe:qid=2,nth=2,by=1ms; fail:nth=40,status=2/81"] {
        let mut config = EmuConfig::default().with_namespaces(1, 64 << 20, 4096).stepped();
        config.out_of_order = Some(7);
        let tracer = Tracer::new(1 << 12);
        let mut options = measured();
        options.trace = Some(tracer.clone());
        let faulty = Faulty::over_model(Emu::new(config).unwrap(), plan.parse().unwrap()).unwrap();
        let device = Device::with_faulty(faulty, options, None).unwrap();
        assert!(device.info().path.ends_with(", traced"));
        let (namespace, region) = parts(&device);
        drop(tracer.drain());
        let before = device.now();
        for n in 0..8 {
            // One of them may fail.
            let _ = namespace.read(&region, 0..1 << 20, Lba(n * 256));
        }
        let after = device.now();
        let trace = tracer.drain();
        assert_eq!(trace.dropped, 0);
        let mut lives: BTreeMap<(Qid, Cid), Vec<Step>> = BTreeMap::new();
        let (mut completed, mut failed) = (0, 0);
        for event in trace.events.iter().filter(|event| !event.qid.is_admin()) {
            assert!((before..=after).contains(&event.at), "{event:?}");
            assert!(event.about.opcode == 2 && event.about.blocks != 0, "{event:?}");
            let life = lives.entry((event.qid, event.cid)).or_default();
            match event.step {
                Step::Completed(status) => {
                    assert_eq!(life[..], [Step::Staged, Step::Published], "{event:?}");
                    life.clear();
                    completed += 1;
                    failed += u64::from(!status.is_success());
                }
                step => life.push(step),
            }
        }
        let stats = device.stats();
        assert_eq!(completed, stats.total(|queue| queue.completed));
        assert_eq!(failed, stats.total(|queue| queue.failed));
        assert!(lives.values().all(Vec::is_empty), "nothing is outstanding");
    }
}
