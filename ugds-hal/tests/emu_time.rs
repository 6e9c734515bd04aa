//! Virtual time: exact, and the same each time.

mod support;

use core::time::Duration;
use nvme_proto::Cid;
use nvme_proto::nvm::{Flush, ReadWrite};
use support::{Driver, Queue, blocks, in_both_modes, pattern, pointer, read, read_data, write, write_data};
use ugds_hal::emu::EmuConfig;
use ugds_hal::{Backend, Clock, Instant, Port};

/// The device of the scheduling model: 10 us access time and a pipe of about 7 GB/s.
fn model() -> EmuConfig {
    let latency = Duration::from_micros(10);
    EmuConfig { latency, bandwidth_mib_s: 6676, mdts: 0, ..EmuConfig::default() }.stepped()
}

fn submit(driver: &Driver, queue: &mut Queue, command: ReadWrite, len: u64) {
    let buffer = driver.buffer(len as usize);
    let pointer = pointer(&driver.emu, driver.page, &buffer, len);
    queue.send(&command.to_sqe().with_data_pointer(pointer.pointer));
    // The device may use it until the end of the test.
    core::mem::forget((buffer, pointer));
}

fn wait(driver: &Driver, queue: &mut Queue) -> Instant {
    queue.wait();
    driver.emu.clock().now()
}

#[test]
fn a_small_read_takes_its_access_time_and_waits_behind_what_is_in_the_pipe() {
    let mut driver = Driver::new(model());
    let (mut small, mut large) = (driver.open(1, 8), driver.open(2, 8));
    let start = driver.emu.clock().now();
    submit(&driver, &mut small, read(0, 8), 4096);
    let alone = wait(&driver, &mut small).since(start);
    assert_eq!(alone, Duration::from_nanos(10_585));

    let start = driver.emu.clock().now();
    for index in 0..4 {
        submit(&driver, &mut large, ReadWrite { blocks: blocks(2048), ..write(index * 2048, 1) }, 1 << 20);
    }
    // The large ones are fetched first.
    assert!(driver.emu.step());
    submit(&driver, &mut small, read(0, 8), 4096);
    let behind = wait(&driver, &mut small).since(start);
    let expected = 10_000 + 4 * (1_u64 << 20) * 1_000_000_000 / (6676 << 20);
    assert!(behind.as_nanos() as u64 >= expected && behind < Duration::from_micros(620), "{behind:?}");
}

#[test]
fn queues_are_served_in_turn() {
    let mut driver = Driver::new(model());
    let mut queues: Vec<_> = (1..=3).map(|qid| driver.open(qid, 16)).collect();
    for queue in &mut queues {
        for cid in 0..4 {
            queue.send_as(Cid(cid), &read(0, 1).to_sqe());
        }
    }
    for queue in &mut queues {
        queue.port.publish();
    }
    // All data pointers are 0: that is refused, but in turn.
    let mut order = Vec::new();
    while driver.emu.step() {
        for (index, queue) in queues.iter_mut().enumerate() {
            while queue.port.next().is_some() {
                order.push(index);
            }
        }
    }
    let turns: Vec<_> = order.chunks(3).map(|turn| turn.iter().sum::<usize>()).collect();
    assert_eq!(turns, [3; 4], "{order:?}");
}

#[test]
fn the_same_description_gives_the_same_history() {
    let history = || {
        let mut driver = Driver::new(EmuConfig { out_of_order: Some(42), ..model() });
        let mut queues: Vec<_> = (1..=2).map(|qid| driver.open(qid, 64)).collect();
        let mut history = Vec::new();
        for queue in &mut queues {
            for cid in 0..40 {
                queue.send_as(Cid(cid), &Flush { nsid: nvme_proto::Nsid(1) }.to_sqe());
            }
            queue.port.publish();
        }
        while driver.emu.step() {
            for (index, queue) in queues.iter_mut().enumerate() {
                while let Some(cqe) = queue.port.next() {
                    history.push((driver.emu.clock().now(), index, cqe.cid()));
                }
                queue.port.retire().unwrap();
            }
        }
        history
    };
    let first = history();
    assert_eq!(first.len(), 80);
    assert_eq!(first, history());
}

#[test]
fn waiting_moves_the_model_to_the_deadline_and_not_beyond() {
    let latency = Duration::from_secs(40);
    let mut driver = Driver::new(EmuConfig { latency, ..EmuConfig::default() }.stepped());
    let mut queue = driver.open(1, 8);
    let clock = driver.emu.clock().clone();
    let start = clock.now();
    queue.send(&Flush { nsid: nvme_proto::Nsid(1) }.to_sqe());
    assert!(queue.try_wait(Duration::from_secs(30)).is_none(), "a timeout of 30 s is seen");
    let waited = clock.now().since(start);
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(31), "{waited:?}");
    clock.wait_until(start.after(Duration::from_secs(35)));
    assert_eq!(clock.now(), start.after(Duration::from_secs(35)));
    assert!(queue.port.next().is_none());
    clock.wait_until(start.after(Duration::from_secs(50)));
    assert!(queue.port.next().is_some());
    assert!(!driver.emu.step());
}

#[test]
fn in_threads_time_is_approximate() {
    let latency = Duration::from_millis(3);
    in_both_modes(|config| {
        let mut driver = Driver::new(EmuConfig { latency, ..config });
        let mut queue = driver.open(1, 8);
        let start = driver.emu.clock().now();
        let data = pattern(1, 4096);
        write_data(&driver, &mut queue, write(0, 8), &data).unwrap();
        assert_eq!(read_data(&driver, &mut queue, read(0, 8), 4096).unwrap(), data);
        let took = driver.emu.clock().now().since(start);
        assert!(took >= Duration::from_millis(6), "{took:?}");
    });
}
