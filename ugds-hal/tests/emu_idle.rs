//! An idle model. Alone in its process, since it counts threads.

mod support;

use core::time::Duration;
use nvme_proto::Nsid;
use nvme_proto::nvm::Flush;
use support::Driver;
use ugds_hal::emu::{EmuConfig, Mode};

/// The processor time of the model's threads in clock ticks, and how many there are.
fn threads() -> (u64, usize) {
    let mut all = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let Some((name, rest)) = stat.split_once(") ") else { continue };
        if name.contains("(emu-") {
            // Fields 14 and 15 of the whole line; the first two are before the name's end.
            let times = rest.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
            all = (all.0 + times.sum::<u64>(), all.1 + 1);
        }
    }
    all
}

/// Waits until there are so many threads: they take their time to start and to vanish from the list.
fn wait_for_threads(count: usize) {
    for _ in 0..500 {
        if threads().1 == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads instead of {count}", threads().1);
}

#[test]
fn an_idle_model_uses_no_processor_and_its_threads_end_with_the_last_handle() {
    for dbbuf in [false, true] {
        let mode = Mode::Threads { workers: 2 };
        let mut driver = Driver::new(EmuConfig { mode, dbbuf, ..EmuConfig::default() });
        let mut queue = driver.open(1, 8);
        queue.run(&Flush { nsid: Nsid(1) }.to_sqe()).unwrap();
        wait_for_threads(2);
        std::thread::sleep(Duration::from_millis(20));
        let (before, _) = threads();
        std::thread::sleep(Duration::from_millis(500));
        let (after, _) = threads();
        assert!(after - before <= 2, "{} ticks of 10 ms while idle", after - before);
        queue.run(&Flush { nsid: Nsid(1) }.to_sqe()).unwrap();
        drop(queue);
        let another = driver.emu.clone();
        drop(driver);
        wait_for_threads(2);
        drop(another);
        wait_for_threads(0);
    }
}
