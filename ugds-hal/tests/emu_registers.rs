//! Registers, bring-up, and every way in which a controller ends.

mod support;

use core::time::Duration;
use nvme_proto::admin::{AsyncEventRequest, GetLogPage, Identify, LogId};
use nvme_proto::event::{ErrorEvent, Event};
use nvme_proto::log::Smart;
use nvme_proto::nvm::Flush;
use nvme_proto::register::{
    Aqa, Cap, Cc, Csts, DoorbellKind, NSSR_RESET, Property, ShutdownNotification, ShutdownStatus,
    doorbell_offset,
};
use nvme_proto::zerocopy::FromBytes;
use nvme_proto::{Cid, Nsid, PageSize, Qid};
use support::{Driver, csts, enable, in_both_modes, pattern, read, spec, write, write_data};
use ugds_hal::emu::{Breach, Emu, EmuConfig, Mode, Oddities};
use ugds_hal::{Backend, Clock, Direction, HalError, Layout, Port, Stop};

fn stepped(oddities: Oddities) -> Emu {
    Emu::new(EmuConfig { oddities, ..EmuConfig::default() }.stepped()).unwrap()
}

fn set_cc(emu: &Emu, cc: Cc) {
    emu.property_write(Property::CC, cc.into_bits().into()).unwrap();
}

fn enabled() -> Cc {
    Cc::for_page(PageSize::MIN).with_en(true)
}

#[test]
fn capabilities_say_what_was_configured() {
    let config = EmuConfig {
        mqes_z: 298,
        cqr: true,
        timeout: 0,
        dstrd: 3,
        mpsmin: 1,
        mpsmax: 5,
        ..EmuConfig::default()
    };
    let emu = Emu::new(config.stepped()).unwrap();
    let cap = Cap::from_bits(emu.property_read(Property::CAP).unwrap());
    assert_eq!((cap.mqes_z(), cap.cqr(), cap.to(), cap.dstrd()), (298, true, 0, 3));
    assert_eq!((cap.mpsmin(), cap.mpsmax(), cap.command_sets().bits()), (1, 5, 1));
    assert_eq!(emu.property_read(Property::VS).unwrap(), 0x0002_0000);
    assert_eq!(u64::from(emu.load32(0)) | u64::from(emu.load32(4)) << 32, cap.into_bits());
}

#[test]
fn wide_registers_take_halves_and_read_only_ones_nothing() {
    let emu = stepped(Oddities::default());
    emu.store32(0x28, 0x1234_5000);
    emu.store32(0x2c, 0x9abc);
    assert_eq!(emu.property_read(Property::ASQ).unwrap(), 0x9abc_1234_5000);
    emu.store32(0x2c, 1);
    assert_eq!(emu.property_read(Property::ASQ).unwrap(), 0x1_1234_5000);
    assert!(emu.breaches().is_empty());
    let before = emu.property_read(Property::CAP).unwrap();
    for offset in [0x00, 0x08, 0x38, 0x70, 0xf00] {
        emu.store32(offset, 0xffff_ffff);
    }
    assert_eq!(emu.property_read(Property::CAP).unwrap(), before);
    assert_eq!(emu.breaches().len(), 5);
    assert_eq!((emu.load32(0x38), emu.load32(0xf00), emu.load32(0x1000)), (0, 0, 0));
}

#[test]
fn a_configuration_that_can_not_be_is_a_fatal_error() {
    let good = [(Property::AQA, 0x001f_001f), (Property::ASQ, 0x10_0000), (Property::ACQ, 0x20_0000)];
    let attempt = |change: &dyn Fn(&Emu), cc: Cc| {
        let emu = stepped(Oddities::default());
        for (property, value) in good {
            emu.property_write(property, value).unwrap();
        }
        change(&emu);
        set_cc(&emu, cc);
        let status = csts(&emu);
        set_cc(&emu, cc.with_en(false));
        assert!(!csts(&emu).cfs(), "a reset clears it");
        (status.rdy(), status.cfs())
    };
    let nothing = |_: &Emu| {};
    assert_eq!(attempt(&nothing, enabled()), (true, false));
    for cc in [
        enabled().with_mps(5),
        enabled().with_iosqes(0),
        enabled().with_iocqes(5),
        enabled().with_css(nvme_proto::register::CommandSetSelect::ALL),
        enabled().with_ams(1),
        enabled().with_crime(true),
    ] {
        assert_eq!(attempt(&nothing, cc), (false, true), "{cc:?}");
    }
    let write = |property, value| move |emu: &Emu| emu.property_write(property, value).unwrap();
    assert_eq!(attempt(&write(Property::ASQ, 0x10_0800), enabled()), (false, true));
    assert_eq!(attempt(&write(Property::ACQ, 0x20_0004), enabled()), (false, true));
    assert_eq!(attempt(&write(Property::ACQ, 0x20_1000), enabled().with_mps(1)), (false, true));
    assert_eq!(attempt(&write(Property::AQA, 0x001f_0000), enabled()), (false, true));
    assert_eq!(attempt(&write(Property::AQA, 0x0000_001f), enabled()), (false, true));
}

#[test]
fn queues_are_set_only_while_disabled() {
    let driver = Driver::new(EmuConfig::default().stepped());
    let emu = driver.emu.clone();
    let before = emu.property_read(Property::ASQ).unwrap();
    emu.property_write(Property::ASQ, 0x5000).unwrap();
    assert_eq!(emu.property_read(Property::ASQ).unwrap(), before);
    set_cc(&emu, enabled().with_mps(1));
    assert_eq!(Cc::from_bits(emu.property_read(Property::CC).unwrap() as u32).mps(), 0);
    assert_eq!(emu.breaches().len(), 3);
    assert_eq!(emu.breaches()[2], Breach::ChangedWhileEnabled { offset: 0x14 });
}

#[test]
fn oddities_of_bring_up() {
    let try_enable = |oddities: Oddities| {
        let emu = stepped(oddities);
        let port = emu.open_port(&spec(Qid::ADMIN, 8, PageSize::MIN), None).unwrap();
        set_cc(&emu, enabled());
        let clock = emu.clock();
        let start = clock.now();
        let deadline = start.after(Duration::from_secs(2));
        let mut attempt = 0;
        while !csts(&emu).rdy() && !csts(&emu).cfs() && clock.now() < deadline {
            clock.relax(attempt);
            attempt += 1;
        }
        core::mem::forget(port);
        (csts(&emu), clock.now().since(start))
    };
    let (status, waited) = try_enable(Oddities { never_ready: true, ..Oddities::default() });
    assert!(!status.rdy() && waited >= Duration::from_secs(2));
    let (status, _) = try_enable(Oddities { cfs_on_enable: true, ..Oddities::default() });
    assert!(!status.rdy() && status.cfs());
    let ready_delay = Duration::from_micros(1_234_567);
    let (status, waited) = try_enable(Oddities { ready_delay, ..Oddities::default() });
    assert!(status.rdy());
    assert_eq!(waited, ready_delay, "to the nanosecond");
    let (status, _) = try_enable(Oddities { gone_after_register_reads: Some(1), ..Oddities::default() });
    assert!(status.is_gone());

    let gone = stepped(Oddities { gone: true, ..Oddities::default() });
    assert_eq!(gone.property_read(Property::CAP).unwrap(), u64::MAX);
    let stopped = gone.stop(Stop::Disable(Duration::from_secs(1)));
    assert!(matches!(stopped, Err(HalError::Gone { .. })));
}

#[test]
fn enabling_and_disabling_too_early_is_recorded() {
    let delay = Duration::from_millis(1);
    let emu = stepped(Oddities { ready_delay: delay, disable_delay: delay, ..Oddities::default() });
    let port = emu.open_port(&spec(Qid::ADMIN, 8, PageSize::MIN), None).unwrap();
    set_cc(&emu, enabled());
    set_cc(&emu, enabled().with_en(false));
    enable(&emu, PageSize::MIN);
    set_cc(&emu, enabled().with_en(false));
    assert!(csts(&emu).rdy());
    set_cc(&emu, enabled());
    assert_eq!(emu.breaches(), [Breach::DisabledBeforeReady, Breach::EnabledBeforeIdle]);
    enable(&emu, PageSize::MIN);
    core::mem::forget(port);
}

#[test]
fn doorbells_are_judged() {
    in_both_modes(|config| {
        let mut driver = Driver::new(EmuConfig { dstrd: 2, ..config });
        let mut queue = driver.open(1, 8);
        let ring = |qid, kind, value| driver.emu.store32(doorbell_offset(Qid(qid), kind, 2) as u32, value);
        ring(2, DoorbellKind::SubmissionTail, 1);
        ring(900, DoorbellKind::CompletionHead, 1);
        ring(1, DoorbellKind::SubmissionTail, 8);
        ring(1, DoorbellKind::SubmissionTail, 0);
        ring(1, DoorbellKind::CompletionHead, 1);
        assert_eq!(driver.emu.breaches().len(), 5);
        // None of them moved the queue.
        queue.run(&Flush { nsid: Nsid(1) }.to_sqe()).unwrap();
        // Two kinds of event, but one log: the first one is told until the log is read.
        let first = driver.admin.run(&AsyncEventRequest.to_sqe()).unwrap();
        assert_eq!(Event::from_result(first as u32), Event::error(ErrorEvent::INVALID_DOORBELL_REGISTER));
        let cid = driver.admin.send(&AsyncEventRequest.to_sqe());
        assert!(driver.admin.try_wait(Duration::from_millis(2)).is_none());
        driver.fetch_while_waiting(&GetLogPage::new(LogId::ERROR, 64).unwrap().to_sqe());
        driver.emu.store32(doorbell_offset(Qid(1), DoorbellKind::SubmissionTail, 2) as u32, 99);
        let second = driver.admin.wait();
        assert_eq!(second.cid(), cid);
        assert_eq!(Event::from_result(second.result()), Event::error(ErrorEvent::INVALID_DOORBELL_VALUE));
    });
}

#[test]
fn doorbells_before_ready_do_nothing() {
    let emu = stepped(Oddities::default());
    let port = emu.open_port(&spec(Qid::ADMIN, 8, PageSize::MIN), None).unwrap();
    emu.store32(0x1000, 1);
    assert_eq!(emu.breaches(), [Breach::DoorbellNotReady { qid: Qid::ADMIN }]);
    enable(&emu, PageSize::MIN);
    assert!(!emu.step());
    core::mem::forget(port);
}

/// A driver that frees memory once `RDY` is 0 relies on this.
#[test]
fn no_access_follows_once_ready_reads_as_zero() {
    for workers in [1, 3] {
        for round in 0..20 {
            let config = EmuConfig { mode: Mode::Threads { workers }, ..EmuConfig::default() };
            let mut driver = Driver::new(config);
            let mut queues: Vec<_> = (1..=4).map(|qid| driver.open(qid, 64)).collect();
            let buffer = driver.buffer(128 << 10);
            let pointer = support::pointer(&driver.emu, driver.page, &buffer, 128 << 10);
            for queue in &mut queues {
                for cid in 0..60 {
                    queue.send_as(Cid(cid), &read(0, 256).to_sqe().with_data_pointer(pointer.pointer));
                }
                queue.port.publish();
            }
            std::thread::sleep(Duration::from_micros(50 * round));
            driver.emu.stop(Stop::Disable(Duration::from_secs(5))).unwrap();
            // Everything is marked; nothing of it may change.
            buffer.shared().fill(0, 128 << 10, 0xee).unwrap();
            let before = driver.emu.stats();
            std::thread::sleep(Duration::from_micros(300));
            assert!(support::contents(&buffer, 128 << 10).iter().all(|byte| *byte == 0xee));
            assert_eq!(driver.emu.stats(), before);
            for queue in queues {
                assert!(driver.emu.close_port(queue.port, None).is_ok());
            }
            assert!(driver.emu.close_port(driver.admin.port, None).is_ok());
            drop((buffer, pointer));
            driver.emu.assert_clean();
            assert_eq!(driver.emu.live_mappings(), 0);
        }
    }
}

#[test]
fn commands_run_on_until_ready_is_zero() {
    let delay = Duration::from_millis(1);
    let latency = Duration::from_micros(10);
    let oddities = Oddities { disable_delay: delay, ..Oddities::default() };
    let mut driver = Driver::new(EmuConfig { latency, oddities, ..EmuConfig::default() }.stepped());
    let mut queue = driver.open(1, 8);
    queue.send(&Flush { nsid: Nsid(1) }.to_sqe());
    set_cc(&driver.emu, enabled().with_en(false));
    driver.emu.run_until_idle();
    assert!(!csts(&driver.emu).rdy());
    assert!(queue.port.next().is_some(), "it was done before the controller stopped");
}

#[test]
fn a_reset_forgets_queues_and_a_shutdown_ends_in_complete() {
    in_both_modes(|config| {
        let oddities = Oddities { shutdown_delay: Duration::from_millis(3), ..Oddities::default() };
        let mut driver = Driver::new(EmuConfig { vwc: true, oddities, ..config });
        let mut queue = driver.open(1, 8);
        write_data(&driver, &mut queue, write(0, 8), &pattern(1, 4096)).unwrap();
        assert_eq!(driver.emu.unflushed_bytes(), 4096);
        set_cc(&driver.emu, enabled().with_shn(ShutdownNotification::NORMAL));
        assert_eq!(csts(&driver.emu).shst(), ShutdownStatus::IN_PROGRESS);
        let clock = driver.emu.clock();
        clock.wait_until(clock.now().after(Duration::from_millis(5)));
        assert_eq!(csts(&driver.emu).shst(), ShutdownStatus::COMPLETE);
        assert_eq!(driver.emu.unflushed_bytes(), 0);
        driver.emu.power_cycle();
        let mut again = Driver::on(&driver.emu, PageSize::MIN);
        let log = again.fetch::<512>(&GetLogPage::new(LogId::SMART, 512).unwrap().to_sqe()).unwrap();
        let smart = Smart::read_from_bytes(&log).unwrap();
        assert_eq!((smart.power_cycles.get(), smart.unsafe_shutdowns.get()), (2, 0));
        let mut queue = again.open(1, 8);
        queue.run(&Flush { nsid: Nsid(1) }.to_sqe()).unwrap();
    });
}

#[test]
fn a_shutdown_may_never_complete() {
    let oddities = Oddities { shutdown_never_completes: true, ..Oddities::default() };
    let driver = Driver::new(EmuConfig { oddities, ..EmuConfig::default() }.stepped());
    set_cc(&driver.emu, enabled().with_shn(ShutdownNotification::ABRUPT));
    let clock = driver.emu.clock();
    clock.wait_until(clock.now().after(Duration::from_secs(60)));
    assert_eq!(csts(&driver.emu).shst(), ShutdownStatus::IN_PROGRESS);
    driver.shut_down().assert_clean();
}

#[test]
fn a_subsystem_reset_says_that_it_occurred() {
    in_both_modes(|config| {
        let driver = Driver::new(config);
        driver.emu.property_write(Property::NSSR, 1).unwrap();
        assert!(csts(&driver.emu).rdy());
        driver.emu.property_write(Property::NSSR, NSSR_RESET.into()).unwrap();
        let status = csts(&driver.emu);
        assert!(!status.rdy() && status.nssro());
        assert_eq!(driver.emu.property_read(Property::AQA).unwrap(), u64::from(Aqa::new().into_bits()));
        driver.emu.property_write(Property::CSTS, Csts::new().with_nssro(true).into_bits().into()).unwrap();
        assert!(!csts(&driver.emu).nssro());
        let mut again = Driver::on(&driver.emu, PageSize::MIN);
        again.identify(Identify::controller()).unwrap();
    });
}

#[test]
fn surprise_removal_reads_as_all_ones_and_stops_everything() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        let mut queue = driver.open(1, 8);
        driver.emu.remove();
        assert!(csts(&driver.emu).is_gone());
        queue.send(&Flush { nsid: Nsid(1) }.to_sqe());
        assert!(queue.try_wait(Duration::from_millis(5)).is_none());
        assert!(matches!(driver.emu.stop(Stop::Disable(Duration::ZERO)), Err(HalError::Gone { .. })));
        driver.emu.plug_in();
        assert_eq!(driver.emu.property_read(Property::CC).unwrap(), 0);
        assert!(driver.emu.stop(Stop::Disable(Duration::from_secs(1))).is_ok());
        let mut again = Driver::on(&driver.emu, PageSize::MIN);
        again.open(1, 8).run(&Flush { nsid: Nsid(1) }.to_sqe()).unwrap();
    });
}

#[test]
fn queue_memory_that_is_not_mapped_is_a_fatal_error() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        let layout = Layout { len_bytes: 4096, align_bytes: 4096, direction: Direction::DeviceReads };
        let memory = driver.emu.memory(layout).unwrap();
        let base = memory.mapping().contiguous().unwrap();
        // A completion queue that the device may not write.
        driver.admin.run(&support::create_cq(1, 16, base).to_sqe()).unwrap();
        driver.admin.run(&support::create_sq(1, 1, 16, base).to_sqe()).unwrap();
        driver.emu.store32(0x1008, 1);
        let clock = driver.emu.clock();
        let deadline = clock.now().after(Duration::from_secs(5));
        let mut attempt = 0;
        while !csts(&driver.emu).cfs() && clock.now() < deadline {
            clock.relax(attempt);
            attempt += 1;
        }
        assert!(csts(&driver.emu).cfs());
        assert_eq!(driver.emu.violations().len(), 1);
    });
}
