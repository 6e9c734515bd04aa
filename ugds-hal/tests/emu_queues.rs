//! Queues under pressure: full, shared, out of order, interrupted, shadowed.

mod support;

use core::time::Duration;
use nvme_proto::admin::{AsyncEventRequest, CreateCq, CreateSq, DoorbellBufferConfig, GetLogPage, LogId};
use nvme_proto::event::{Event, NoticeEvent};
use nvme_proto::nvm::Flush;
use nvme_proto::register::Property;
use nvme_proto::status::{command, generic};
use nvme_proto::{BusAddr, Cid, Nsid, Qid, Sqe};
use std::collections::HashSet;
use std::sync::Arc;
use support::{
    Driver, Queue, create_cq, create_sq, delete_cq, delete_sq, in_both_modes, pattern, read, spec, write,
    write_data,
};
use ugds_hal::emu::{AsyncEvent, Breach, EmuConfig, Mode};
use ugds_hal::pcie::ShadowPages;
use ugds_hal::{Backend, Clock, Completion, Port};

fn flush() -> Sqe {
    Flush { nsid: Nsid(1) }.to_sqe()
}

/// Sends `count` commands at once and returns the identifiers in the order of their completion.
fn burst(queue: &mut Queue, count: u16) -> Vec<u16> {
    for cid in 0..count {
        queue.send_as(Cid(cid), &flush());
    }
    queue.port.publish();
    (0..count).map(|_| queue.wait().cid().0).collect()
}

#[test]
fn completions_keep_their_order_unless_disorder_is_asked_for() {
    in_both_modes(|config| {
        let mut driver = Driver::new(EmuConfig { out_of_order: None, ..config.clone() });
        let mut queue = driver.open(1, 64);
        assert_eq!(burst(&mut queue, 63), (0..63).collect::<Vec<_>>());
        let mut driver = Driver::new(EmuConfig { out_of_order: Some(11), ..config });
        let mut queue = driver.open(1, 64);
        let mut seen = burst(&mut queue, 63);
        assert_ne!(seen, (0..63).collect::<Vec<_>>());
        seen.sort_unstable();
        assert_eq!(seen, (0..63).collect::<Vec<_>>());
        driver.emu.assert_clean();
    });
}

#[test]
fn a_seed_determines_the_order() {
    let order = |seed| {
        let mut driver =
            Driver::new(EmuConfig { out_of_order: Some(seed), ..EmuConfig::default() }.stepped());
        burst(&mut driver.open(1, 64), 63)
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

/// Completion queue entries are posted only where there is room, and none is lost.
#[test]
fn a_full_completion_queue_holds_completions_back() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        let memory = driver.buffer(3 * 4096);
        let base = memory.mapping().contiguous().unwrap();
        // One completion queue of four for two submission queues of 32.
        driver.admin.run(&create_cq(1, 4, base).to_sqe()).unwrap();
        for qid in [1, 2] {
            let at = BusAddr(base.0 + u64::from(qid) * 4096);
            driver.admin.run(&create_sq(qid, 1, 32, at).to_sqe()).unwrap();
        }
        for qid in [1_u32, 2] {
            for slot in 0..20_u16 {
                let sqe = flush().with_cid(Cid(slot));
                let offset = qid as usize * 4096 + usize::from(slot) * 64;
                memory.shared().copy_in(offset, nvme_proto::zerocopy::IntoBytes::as_bytes(&sqe)).unwrap();
            }
            driver.emu.store32(0x1000 + qid * 8, 20);
        }
        let mut seen = HashSet::new();
        let clock = driver.emu.clock();
        for position in 0..40_u32 {
            let (slot, phase) = (position % 4, position / 4 % 2 == 0);
            let mut attempt = 0;
            let entry = loop {
                let mut words = [0; 16];
                memory.shared().copy_out(slot as usize * 16, &mut words).unwrap();
                let entry = u128::from_le_bytes(words);
                if (entry >> 112 & 1 == 1) == phase {
                    break entry;
                }
                assert!(attempt < 100_000, "completion {position} is missing");
                clock.relax(attempt);
                attempt += 1;
            };
            assert!(seen.insert(((entry >> 80) as u16, (entry >> 96) as u16)), "twice: {entry:x}");
            // Leave it full now and then.
            if position % 3 == 2 || position > 36 {
                driver.emu.store32(0x100c, (position + 1) % 4);
            }
        }
        assert_eq!(seen.len(), 40);
        driver.emu.assert_clean();
    });
}

#[test]
fn an_identifier_in_use_is_a_conflict() {
    let latency = Duration::from_micros(50);
    let mut driver = Driver::new(EmuConfig { latency, ..EmuConfig::default() }.stepped());
    let mut queue = driver.open(1, 8);
    for cid in [5, 6, 5] {
        queue.send_as(Cid(cid), &flush());
    }
    queue.port.publish();
    let first = queue.wait();
    assert!(first.cid() == Cid(5) && first.status().is(generic::COMMAND_ID_CONFLICT));
    let rest = [queue.wait(), queue.wait()];
    assert!(rest.iter().all(|cqe| cqe.status().is_success()));
    assert_eq!(rest.map(|cqe| cqe.cid().0), [5, 6]);
    assert_eq!(driver.emu.breaches(), [Breach::CommandIdInUse { qid: Qid(1), cid: Cid(5) }]);
}

#[test]
fn the_identifier_that_means_none_is_recorded() {
    let mut driver = Driver::new(EmuConfig::default().stepped());
    let mut queue = driver.open(1, 8);
    queue.send_as(Cid::NONE, &flush());
    queue.port.publish();
    assert!(queue.wait().status().is_success());
    assert_eq!(driver.emu.breaches(), [Breach::CommandIdReserved { qid: Qid(1) }]);
}

/// Two lanes share one full completion queue: the one that does not own it must not sleep on when there is room.
#[test]
fn room_in_a_shared_completion_queue_wakes_all_lanes() {
    for _ in 0..30 {
        let mut driver =
            Driver::new(EmuConfig { mode: Mode::Threads { workers: 2 }, ..EmuConfig::default() });
        let memory = driver.buffer(3 * 4096);
        let base = memory.mapping().contiguous().unwrap();
        driver.admin.run(&create_cq(1, 2, base).to_sqe()).unwrap();
        for qid in [1_u16, 2] {
            let at = BusAddr(base.0 + u64::from(qid) * 4096);
            driver.admin.run(&create_sq(qid, 1, 64, at).to_sqe()).unwrap();
            for slot in 0..60_u16 {
                let offset = usize::from(qid) * 4096 + usize::from(slot) * 64;
                let sqe = flush().with_cid(Cid(slot));
                memory.shared().copy_in(offset, nvme_proto::zerocopy::IntoBytes::as_bytes(&sqe)).unwrap();
            }
        }
        driver.emu.store32(0x1008, 60);
        driver.emu.store32(0x1010, 60);
        let clock = driver.emu.clock();
        for position in 0..120_u32 {
            if position % 40 == 0 {
                // Long enough for both workers to fall asleep.
                std::thread::sleep(Duration::from_micros(500));
            }
            let status = memory.shared().word((position % 2) as usize * 16 + 12).unwrap();
            let phase = u32::from(position / 2 % 2 == 0);
            let mut attempt = 0;
            while status.load(core::sync::atomic::Ordering::Acquire) >> 16 & 1 != phase {
                assert!(attempt < 100_000, "completion {position} is missing");
                clock.relax(attempt);
                attempt += 1;
            }
            driver.emu.store32(0x100c, (position + 1) % 2);
        }
        driver.emu.assert_clean();
    }
}

#[test]
fn deleting_a_queue_ends_its_commands_first() {
    in_both_modes(|config| {
        let latency = Duration::from_secs(3600);
        let mut driver = Driver::new(EmuConfig { latency, ..config });
        let mut queue = driver.open(1, 8);
        for cid in 0..5 {
            queue.send_as(Cid(cid), &flush());
        }
        queue.port.publish();
        let stats = || driver.emu.stats().io(0);
        let mut attempt = 0;
        while stats() < 5 {
            driver.emu.clock().relax(attempt);
            attempt += 1;
        }
        driver.admin.run(&delete_sq(1)).unwrap();
        for cid in 0..5 {
            let cqe = queue.port.next().expect("it was ended before the deletion");
            assert!(cqe.cid() == Cid(cid) && cqe.status().is(generic::ABORTED_SQ_DELETED));
        }
        driver.admin.run(&delete_cq(1)).unwrap();
        assert!(queue.port.next().is_none());
        let mut again = driver.open(1, 8);
        let cid = again.send(&flush());
        assert!(again.try_wait(Duration::from_millis(1)).is_none(), "{cid} takes an hour");
    });
}

#[test]
fn queues_may_lie_in_scattered_pages() {
    let mut driver = Driver::new(EmuConfig::default().stepped());
    let memory = driver.buffer(8 * 4096);
    let base = memory.mapping().contiguous().unwrap();
    let page = |index: u64| BusAddr(base.0 + index * 4096);
    // The list of the submission queue's pages, out of order, and that of the completion queue's only page.
    for (slot, index) in [(0, 5_u64), (1, 3), (2, 4), (8, 6)] {
        memory.shared().copy_in(slot * 8, &page(index).0.to_le_bytes()).unwrap();
    }
    let cq = CreateCq { physically_contiguous: false, ..create_cq(1, 192, BusAddr(base.0 + 64)) };
    driver.admin.run(&cq.to_sqe()).unwrap();
    let sq = CreateSq { physically_contiguous: false, ..create_sq(1, 1, 192, base) };
    driver.admin.run(&sq.to_sqe()).unwrap();
    for slot in 0..191_usize {
        let place = [5, 3, 4][slot / 64] * 4096 + slot % 64 * 64;
        let sqe = flush().with_cid(Cid(slot as u16));
        memory.shared().copy_in(place, nvme_proto::zerocopy::IntoBytes::as_bytes(&sqe)).unwrap();
    }
    driver.emu.store32(0x1008, 191);
    driver.emu.run_until_idle();
    for slot in 0..191_usize {
        let mut entry = [0; 16];
        memory.shared().copy_out(6 * 4096 + slot * 16, &mut entry).unwrap();
        assert_eq!(entry[12..], [slot as u8, (slot >> 8) as u8, 1, 0]);
    }
    driver.emu.assert_clean();
}

#[test]
fn interrupts_follow_completions_of_queues_that_want_them() {
    in_both_modes(|config| {
        let mut driver = Driver::new(EmuConfig { vectors: 4, ..config });
        let mut open = |qid, completion| {
            let mut spec = spec(Qid(qid), 8, driver.page);
            spec.completion = completion;
            let port = driver.emu.open_port(&spec, Some(&mut driver.admin)).unwrap();
            Queue::new(&driver.emu, port)
        };
        let mut with = open(1, Completion::Interrupt(3));
        let mut without = open(2, Completion::Poll);
        let event = driver.emu.event(3).unwrap();
        assert!(driver.emu.event(4).is_err());
        without.run(&flush()).unwrap();
        assert_eq!(event.clear().unwrap(), 0);
        with.run(&flush()).unwrap();
        let clock = driver.emu.clock();
        let mut signals = 0;
        for attempt in 0..10_000 {
            signals += event.clear().unwrap();
            if signals != 0 {
                break;
            }
            clock.relax(attempt);
        }
        assert_eq!(signals, 1);
        assert!(driver.emu.event(0).unwrap().clear().unwrap() > 0, "the admin queue has vector 0");
    });
}

#[test]
fn masked_vectors_wait_when_interrupts_are_not_msix() {
    let mut driver = Driver::new(EmuConfig { vectors: 2, msix: false, ..EmuConfig::default() }.stepped());
    let mut spec = spec(Qid(1), 8, driver.page);
    spec.completion = Completion::Interrupt(1);
    let port = driver.emu.open_port(&spec, Some(&mut driver.admin)).unwrap();
    let mut queue = Queue::new(&driver.emu, port);
    let event = driver.emu.event(1).unwrap();
    driver.emu.property_write(Property::INTMS, 0b10).unwrap();
    assert_eq!(driver.emu.property_read(Property::INTMC).unwrap(), 0b10);
    queue.run(&flush()).unwrap();
    queue.run(&flush()).unwrap();
    assert_eq!(event.clear().unwrap(), 0);
    driver.emu.property_write(Property::INTMC, 0b10).unwrap();
    assert_eq!(event.clear().unwrap(), 1);
    queue.run(&flush()).unwrap();
    assert_eq!(event.clear().unwrap(), 1);
}

#[test]
fn events_come_once_and_only_when_asked_for() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        driver.emu.raise_namespace_changed(Nsid(1));
        driver.enable_events();
        let requests: Vec<_> = (0..4).map(|_| driver.admin.send(&AsyncEventRequest.to_sqe())).collect();
        let fifth = driver.admin.send(&AsyncEventRequest.to_sqe());
        let cqe = driver.admin.wait();
        assert!(cqe.cid() == fifth && cqe.status().is(command::AER_LIMIT_EXCEEDED));
        driver.emu.raise_namespace_changed(Nsid(1));
        driver.emu.raise_namespace_changed(Nsid(1));
        let cqe = driver.admin.wait();
        assert_eq!(cqe.cid(), requests[0]);
        let notice = Event::notice(NoticeEvent::NAMESPACE_CHANGED, LogId::CHANGED_NAMESPACES);
        assert_eq!(Event::from_result(cqe.result()), notice);
        driver.emu.raise_namespace_changed(Nsid(1));
        assert!(driver.admin.try_wait(Duration::from_millis(2)).is_none(), "its log was not read");
        driver.emu.set_temperature(400);
        assert_eq!(driver.admin.wait().result(), 0x0002_0101, "another kind comes through");
        let get = GetLogPage::new(LogId::CHANGED_NAMESPACES, 4096).unwrap();
        driver.fetch_while_waiting(&GetLogPage { retain_event: true, ..get }.to_sqe());
        driver.emu.raise_namespace_changed(Nsid(1));
        assert!(driver.admin.try_wait(Duration::from_millis(2)).is_none(), "it was read with RAE");
        driver.fetch_while_waiting(&get.to_sqe());
        driver.emu.raise_namespace_changed(Nsid(1));
        assert_eq!(driver.admin.wait().cid(), requests[2]);
        driver.emu.raise(AsyncEvent::Reliability);
        assert!(driver.admin.try_wait(Duration::from_millis(2)).is_none(), "SMART was not read");
    });
}

#[test]
fn namespaces_change_under_the_driver() {
    let mut driver = Driver::new(EmuConfig::default().stepped());
    driver.enable_events();
    let mut queue = driver.open(1, 8);
    driver.admin.send(&AsyncEventRequest.to_sqe());
    assert!(driver.emu.resize(Nsid(1), 1 << 20));
    assert!(driver.admin.wait().status().is_success());
    assert!(!driver.emu.resize(Nsid(1), 2 << 30));
    let status = queue.run(&read(2048, 1).to_sqe()).unwrap_err();
    assert!(status.is(generic::LBA_OUT_OF_RANGE));
    assert!(driver.emu.set_attached(Nsid(1), false));
    assert!(queue.run(&flush()).unwrap_err().is(generic::INVALID_NAMESPACE_OR_FORMAT));
    assert!(driver.emu.set_attached(Nsid(1), true) && driver.emu.set_write_protected(Nsid(1), true));
    let refused = write_data(&driver, &mut queue, write(0, 1), &[0; 512]).unwrap_err();
    assert!(refused.is(generic::NAMESPACE_WRITE_PROTECTED));
    let log: [u8; 8] =
        driver.fetch(&GetLogPage::new(LogId::CHANGED_NAMESPACES, 8).unwrap().to_sqe()).unwrap();
    assert_eq!(log, [1, 0, 0, 0, 0, 0, 0, 0]);
    let log: [u8; 8] =
        driver.fetch(&GetLogPage::new(LogId::CHANGED_NAMESPACES, 8).unwrap().to_sqe()).unwrap();
    assert_eq!(log, [0; 8], "it was read");
}

fn with_shadow(config: EmuConfig) -> Driver {
    let mut driver = Driver::new(EmuConfig { dbbuf: true, ..config });
    let pages = ShadowPages::allocate(&driver.emu, driver.page, driver.emu_dstrd()).unwrap();
    let (shadow, event_idx) = pages.addresses().unwrap();
    driver.admin.run(&DoorbellBufferConfig { shadow, event_idx }.to_sqe()).unwrap();
    driver.shadow = Some(Arc::new(pages));
    driver
}

#[test]
fn shadow_doorbells_lose_no_wake_up() {
    for mode in [Mode::Stepped, Mode::Threads { workers: 1 }, Mode::Threads { workers: 2 }] {
        let mut driver = with_shadow(EmuConfig { mode, ..EmuConfig::default() });
        let mut queues: Vec<_> = (1..=3).map(|qid| driver.open(qid, 16)).collect();
        let before = driver.emu.stats();
        for round in 0..2000_u32 {
            for queue in &mut queues {
                queue.run(&flush()).unwrap();
            }
            if round % 64 == 0 && mode != Mode::Stepped {
                // Long enough for the workers to fall asleep.
                std::thread::sleep(Duration::from_micros(400));
            }
        }
        for queue in &mut queues {
            assert_eq!(burst(queue, 15).len(), 15);
        }
        let after = driver.emu.stats();
        assert_eq!(after.completions - before.completions, 6045);
        driver.emu.assert_clean();
        for queue in queues {
            driver.close(queue);
        }
        let emu = driver.shut_down();
        emu.assert_clean();
        assert_eq!(emu.live_mappings(), 0);
    }
}

#[test]
fn shadow_doorbells_work_with_a_full_completion_queue_and_end_with_a_reset() {
    for mode in [Mode::Stepped, Mode::Threads { workers: 1 }] {
        let mut driver = with_shadow(EmuConfig { mode, ..EmuConfig::default() });
        let mut queue = driver.open(1, 4);
        for _ in 0..500 {
            for cid in 0..3 {
                queue.send_as(Cid(cid), &flush());
                queue.port.publish();
            }
            let mut done = 0;
            let mut attempt = 0;
            while done < 3 {
                if queue.port.next().is_some() {
                    done += 1;
                    queue.port.retire().unwrap();
                } else {
                    assert!(attempt < 1_000_000, "a completion is missing");
                    driver.emu.clock().relax(attempt);
                    attempt += 1;
                }
            }
        }
        driver.emu.assert_clean();
        let emu = driver.shut_down();
        assert!(emu.close_port(queue.port, None).is_ok());
        // Without Doorbell Buffer Config the registers count again.
        let mut again = Driver::on(&emu, nvme_proto::PageSize::MIN);
        again.open(1, 4).run(&flush()).unwrap();
        emu.assert_clean();
    }
}

#[test]
fn a_register_that_differs_from_its_shadow_is_recorded() {
    let mut driver = with_shadow(EmuConfig::default().stepped());
    let _queue = driver.open(1, 8);
    driver.emu.store32(0x1008, 3);
    assert_eq!(driver.emu.breaches(), [Breach::ShadowDiffers { qid: Qid(1), register: 3, shadow: 0 }]);
    assert!(!driver.emu.step());
}

/// Many queues and threads at once, with data that is checked.
#[test]
fn queues_do_not_mix_their_data() {
    for out_of_order in [None, Some(5)] {
        let config =
            EmuConfig { mode: Mode::Threads { workers: 3 }, queues: 6, out_of_order, ..EmuConfig::default() };
        let mut driver = Driver::new(config);
        let queues: Vec<_> = (1..=6).map(|qid| driver.open(qid, 32)).collect();
        let (emu, page) = (&driver.emu, driver.page);
        std::thread::scope(|scope| {
            for (index, mut queue) in queues.into_iter().enumerate() {
                scope.spawn(move || {
                    let buffer = support::buffer(emu, 8192);
                    let pointer = support::pointer(emu, page, &buffer, 8192).pointer;
                    for round in 0..60_u64 {
                        let lba = index as u64 * 10_000 + round * 16;
                        let data = pattern(lba, 8192);
                        buffer.shared().copy_in(0, &data).unwrap();
                        queue.run(&write(lba, 16).to_sqe().with_data_pointer(pointer)).unwrap();
                        buffer.shared().fill(0, 8192, 0).unwrap();
                        queue.run(&read(lba, 16).to_sqe().with_data_pointer(pointer)).unwrap();
                        assert!(support::contents(&buffer, 8192) == data, "queue {index} round {round}");
                    }
                });
            }
        });
        driver.emu.assert_clean();
    }
}
