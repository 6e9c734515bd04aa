//! Controllers of every oddity, brought up and shut down. The model's record of DMA and of live mappings shows that
//! what fails half-way leaves nothing behind.

use nvme_proto::{Nsid, PageSize};
use std::sync::Arc;
use std::time::Duration;
use ugds_hal::emu::{Emu, EmuConfig, NamespaceConfig, Oddities};
use ugds_hal::{Backend, Clock};
use ugds_mem::{FormatError, Io};
use ugds_queue::controller::{Controller, ControllerError, NotClosed, Options, RefusedReason};
use ugds_queue::{QueuePair, SubmitError};

fn stepped(change: impl FnOnce(&mut EmuConfig)) -> Emu {
    let mut config = EmuConfig::default().with_namespaces(1, 16 << 20, 512).stepped();
    change(&mut config);
    Emu::new(config).unwrap()
}

fn bring_up(emu: &Emu, change: impl FnOnce(&mut Options)) -> Result<Controller<Emu>, ControllerError> {
    let mut options = Options::default();
    change(&mut options);
    Controller::bring_up(Arc::new(emu.clone()), options)
}

/// Nothing that a device does after it was given up is a violation, and nothing stays mapped.
fn assert_clean(emu: &Emu) {
    assert_eq!(emu.violations(), []);
    assert_eq!(emu.live_mappings(), 0);
}

fn flush(emu: &Emu, queue: &mut QueuePair<<Emu as Backend>::Port>) {
    let _ticket = queue.submit(&Io::flush(Nsid(1)), 1).unwrap();
    queue.ring();
    let deadline = emu.clock().now().after(Duration::from_secs(1));
    loop {
        if queue.reap(|done| assert!(done.status().is_success(), "{}", done.status())).unwrap() != 0 {
            return;
        }
        assert!(emu.clock().now() < deadline, "no answer");
        emu.clock().relax(0);
    }
}

#[test]
fn every_ordinary_variety_comes_up_works_and_goes_down() {
    type Change = fn(&mut EmuConfig);
    let varieties: [(&str, Change); 13] = [
        ("default", |_| {}),
        ("no ready timeout (TO=0)", |config| config.timeout = 0),
        ("slow to become ready", |config| {
            config.timeout = 0;
            config.oddities.ready_delay = Duration::from_secs(3);
        }),
        ("slow to stop", |config| config.oddities.disable_delay = Duration::from_secs(2)),
        ("slow to shut down", |config| config.oddities.shutdown_delay = Duration::from_secs(4)),
        ("MQES=0", |config| config.mqes_z = 0),
        ("MQES=1", |config| config.mqes_z = 1),
        ("MQES=65535", |config| config.mqes_z = 65535),
        ("DSTRD=3", |config| config.dstrd = 3),
        ("MPSMIN=1", |config| (config.mpsmin, config.mpsmax) = (1, 3)),
        ("contiguous queues required", |config| config.cqr = true),
        ("shadow doorbells", |config| config.dbbuf = true),
        ("SGL", |config| config.sgl = true),
    ];
    for (name, change) in varieties {
        let emu = stepped(change);
        let mut controller = bring_up(&emu, |_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        let scan = controller.scan().unwrap();
        assert_eq!(scan.namespaces.len(), 1, "{name}");
        let mut queue = controller.open_queue().unwrap();
        flush(&emu, &mut queue);
        controller.shut_down(vec![queue]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_clean(&emu);
        // The same device again, in the same process.
        bring_up(&emu, |_| {}).unwrap().shut_down(vec![]).unwrap();
        assert_clean(&emu);
    }
}

#[test]
fn ring_sizes_are_what_the_device_takes_and_a_power_of_two() {
    for (mqes_z, wanted, entries) in [
        (1023, 1024, 1024),
        (1023, 300, 256),
        (298, 1024, 256),
        (299, 1024, 256),
        (65535, u16::MAX, 4096),
        (65535, 4096, 4096),
        (0, 1024, 2),
        (1, 1024, 2),
        (2, 1024, 2),
        (1023, 0, 2),
    ] {
        let emu = stepped(|config| config.mqes_z = mqes_z);
        let mut controller = bring_up(&emu, |options| options.queue_entries = wanted).unwrap();
        assert_eq!(controller.facts().queue_entries, entries, "MQES {mqes_z}, {wanted} wanted");
        let queue = controller.open_queue().unwrap();
        assert_eq!(queue.slots(), entries - 1);
        controller.shut_down(vec![queue]).unwrap();
        assert_clean(&emu);
    }
}

#[test]
fn transfers_are_bounded_by_mdts_in_units_of_the_smallest_page() {
    for (mdts, mpsmin, bytes) in [
        (0, 0, 128 << 10),
        (1, 0, 8 << 10),
        (1, 1, 16 << 10),
        (5, 0, 128 << 10),
        (8, 0, 1 << 20),
        (9, 0, 1 << 20),
        (9, 2, 1 << 20),
    ] {
        let emu = stepped(|config| {
            config.mdts = mdts;
            (config.mpsmin, config.mpsmax) = (mpsmin, 4);
        });
        let controller = bring_up(&emu, |_| {}).unwrap();
        assert_eq!(controller.facts().max_transfer_bytes, bytes, "MDTS {mdts}, MPSMIN {mpsmin}");
        assert_eq!(Some(controller.facts().page), PageSize::from_exponent(mpsmin));
        controller.shut_down(vec![]).unwrap();
    }
}

#[test]
fn fewer_queues_than_asked_for_are_taken_as_they_come() {
    for (grant, wanted, expected) in
        [((3, 3), 8, 3), ((2, 7), 8, 2), ((7, 2), 8, 2), ((1, 1), 8, 1), ((8, 8), 4, 4)]
    {
        let emu = stepped(|config| config.oddities.grant_queues = Some(grant));
        let mut controller = bring_up(&emu, |options| options.queues = wanted).unwrap();
        assert_eq!(controller.facts().queues, expected, "{grant:?} granted");
        let queues: Vec<_> = (0..expected).map(|_| controller.open_queue().unwrap()).collect();
        match controller.open_queue() {
            Err(ControllerError::NoQueueLeft { granted }) => assert_eq!(granted, expected),
            other => panic!("{other:?}"),
        }
        controller.shut_down(queues).unwrap();
        assert_clean(&emu);
    }
}

#[test]
fn a_bring_up_that_fails_says_why_and_leaves_nothing() {
    type Change = fn(&mut Oddities);
    type Check = fn(&ControllerError) -> bool;
    let failures: [(&str, Change, Check); 5] = [
        (
            "never ready",
            |odd| odd.never_ready = true,
            |error| matches!(error, ControllerError::NotReady { .. }),
        ),
        ("fatal", |odd| odd.cfs_on_enable = true, |error| matches!(error, ControllerError::FatalOnEnable)),
        ("gone", |odd| odd.gone = true, |error| matches!(error, ControllerError::Gone)),
        (
            "no queues",
            |odd| odd.refuse_number_of_queues = true,
            |error| matches!(error, ControllerError::Admin(_)),
        ),
        (
            "slower than it may be",
            |odd| odd.ready_delay = Duration::from_secs(60),
            |error| matches!(error, ControllerError::NotReady { .. }),
        ),
    ];
    for (name, change, check) in failures {
        let emu = stepped(|config| change(&mut config.oddities));
        let error = bring_up(&emu, |_| {}).err().unwrap_or_else(|| panic!("{name}: came up"));
        assert!(check(&error), "{name}: {error:?}");
        assert_clean(&emu);
    }
}

#[test]
fn a_device_that_vanishes_ends_every_wait_and_leaks_what_it_may_write_to() {
    let mut came_up = false;
    for reads in 0..400 {
        let emu = stepped(|config| config.oddities.gone_after_register_reads = Some(reads));
        match bring_up(&emu, |_| {}) {
            Ok(controller) => {
                came_up = true;
                assert!(!matches!(controller.shut_down(vec![]), Err(ControllerError::NotShutDown { .. })));
            }
            Err(ControllerError::Gone | ControllerError::Hal(_)) => {}
            Err(other) => panic!("after {reads} reads: {other:?}"),
        }
        assert_eq!(emu.violations(), [], "after {reads} reads");
    }
    assert!(came_up, "some of the devices lived long enough");
}

#[test]
fn a_shutdown_that_never_completes_is_told_and_the_device_is_stopped() {
    let emu = stepped(|config| config.oddities.shutdown_never_completes = true);
    let mut controller = bring_up(&emu, |_| {}).unwrap();
    let queue = controller.open_queue().unwrap();
    assert!(matches!(controller.shut_down(vec![queue]), Err(ControllerError::NotShutDown { .. })));
    assert_clean(&emu);
}

#[test]
fn queues_are_closed_and_their_identifiers_used_again() {
    let emu = stepped(|config| config.queues = 2);
    let mut controller = bring_up(&emu, |options| options.queues = 2).unwrap();
    for _ in 0..5 {
        let first = controller.open_queue().unwrap();
        let second = controller.open_queue().unwrap();
        assert_eq!((first.qid().0, second.qid().0), (1, 2));
        controller.close_queue(second).unwrap();
        controller.close_queue(first).unwrap();
    }
    controller.shut_down(vec![]).unwrap();
    assert_clean(&emu);
}

#[test]
fn a_queue_with_a_command_outstanding_is_not_closed_but_stopped_with_the_device() {
    let emu = stepped(|config| config.latency = Duration::from_secs(3600));
    let mut controller = bring_up(&emu, |_| {}).unwrap();
    let mut queue = controller.open_queue().unwrap();
    let _ticket = queue.submit(&Io::flush(Nsid(1)), 0).unwrap();
    queue.ring();
    let Err(NotClosed::Outstanding(queue)) = controller.close_queue(queue) else { panic!("closed") };
    assert_eq!(queue.outstanding(), 1);
    controller.shut_down(vec![*queue]).unwrap();
    assert_clean(&emu);
}

#[test]
fn memory_of_another_device_is_refused() {
    let (emu, other) = (stepped(|_| {}), stepped(|_| {}));
    let mut controller = bring_up(&emu, |_| {}).unwrap();
    let mut elsewhere = bring_up(&other, |_| {}).unwrap();
    let namespace = controller.scan().unwrap().namespaces.remove(0);
    let region = ugds_mem::host::allocate(4096).unwrap();
    let mapped = region.attach(elsewhere.domain()).unwrap();
    let transfer = mapped.transfer(0, 4096, ugds_hal::Direction::DeviceWrites).unwrap();
    let read = Io::read(namespace.nsid(), namespace.format(), nvme_proto::Lba(0), transfer).unwrap();
    let mut queue = controller.open_queue().unwrap();
    assert!(matches!(queue.submit(&read, 0), Err(SubmitError::ForeignMemory { .. })));
    assert_eq!(queue.outstanding(), 0);
    let theirs = elsewhere.open_queue().unwrap();
    drop((mapped, region));
    elsewhere.shut_down(vec![theirs]).unwrap();
    controller.shut_down(vec![queue]).unwrap();
    assert_clean(&emu);
    assert_clean(&other);
}

#[test]
fn namespaces_are_found_where_they_are_and_unfit_ones_refused_with_the_reason() {
    let emu = stepped(|config| {
        let size = 8 << 20;
        let with = |nsid, lba_bytes, metadata_bytes| NamespaceConfig {
            metadata_bytes,
            ..NamespaceConfig::new(nsid, size, lba_bytes)
        };
        config.namespaces = vec![
            with(3, 512, 0),
            with(4, 512, 8),
            with(1000, 4096, 0),
            with(70_000, 4096, 64),
            NamespaceConfig { attached: false, ..NamespaceConfig::new(80_000, size, 512) },
        ];
    });
    let mut controller = bring_up(&emu, |_| {}).unwrap();
    let scan = controller.scan().unwrap();
    let usable: Vec<_> =
        scan.namespaces.iter().map(|ns| (ns.nsid().0, ns.format().block_shift(), ns.blocks())).collect();
    assert_eq!(usable, [(3, 9, (8 << 20) / 512), (1000, 12, (8 << 20) / 4096)]);
    let refused: Vec<_> = scan.refused.iter().map(|refused| (refused.nsid.0, &refused.reason)).collect();
    for ((nsid, reason), (expected, bytes)) in refused.iter().zip([(4, 8), (70_000, 64)]) {
        assert_eq!(*nsid, expected);
        assert!(
            matches!(reason, RefusedReason::Format(FormatError::Metadata { metadata_bytes, .. }) if *metadata_bytes == bytes),
            "{reason:?}"
        );
    }
    assert_eq!(refused.len(), 2);
    controller.shut_down(vec![]).unwrap();
}
