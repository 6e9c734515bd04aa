//! Everything at once for a while: blocking calls and batches of many threads, of all sizes, with cancellations, on a
//! device that completes out of order. `UGDS_SOAK_SECONDS` says for how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use ugds::emu::{Emu, EmuConfig, Mode};
use ugds::nvme::Lba;
use ugds::{Device, Error, Options, Region};
use ugds_tests::oracle::Random;

/// One caller's blocks, and the byte that each of them is filled with, if that is known.
struct Caller<'d> {
    device: &'d Device,
    region: Region,
    first: u64,
    known: Vec<Option<u8>>,
    random: Random,
}

impl<'d> Caller<'d> {
    fn new(device: &'d Device, number: u64) -> Self {
        let region = device.alloc(BLOCKS * BLOCK).unwrap();
        let first = number * BLOCKS as u64;
        Self { device, region, first, known: vec![None; BLOCKS], random: Random::new(number) }
    }

    /// A run of blocks: short ones are as likely as long ones.
    fn blocks(&mut self) -> (usize, usize) {
        let count = 1 + (self.random.below(BLOCKS as u64) >> self.random.below(10)) as usize;
        (self.random.below((BLOCKS - count) as u64 + 1) as usize, count)
    }

    fn blocking(&mut self) {
        let namespace = self.device.namespace().unwrap();
        let (at, count) = self.blocks();
        let (range, lba) = (at * BLOCK..(at + count) * BLOCK, Lba(self.first + at as u64));
        if self.random.below(2) == 0 {
            let byte = self.random.below(256) as u8;
            self.region.copy_in(range.start, &vec![byte; range.len()]).unwrap();
            namespace.write(&self.region, range, lba).unwrap();
            self.known[at..at + count].fill(Some(byte));
        } else {
            namespace.read(&self.region, range, lba).unwrap();
            self.check(at, count);
        }
        if self.random.below(50) == 0 {
            namespace.flush().unwrap();
        }
    }

    /// Writes disjoint runs by one batch and reads them back by another, some of it cancelled.
    fn batch(&mut self) {
        let namespace = self.device.namespace().unwrap();
        let mut batch = self.device.batch(64).unwrap();
        let byte = self.random.below(256) as u8;
        self.region.copy_in(0, &vec![byte; BLOCKS * BLOCK]).unwrap();
        let runs: Vec<(usize, usize)> =
            (0..BLOCKS / RUN).map(|n| (n * RUN, self.blocks().1.min(RUN))).collect();
        for (cookie, &(at, count)) in runs.iter().enumerate() {
            let range = at * BLOCK..(at + count) * BLOCK;
            batch.write(namespace, &self.region, range, Lba(self.first + at as u64), cookie as u64).unwrap();
        }
        batch.submit().unwrap();
        if self.random.below(3) == 0 {
            batch.cancel_all();
        }
        let mut outcomes = Vec::new();
        while !batch.is_empty() {
            let least = self.random.below(8) as usize;
            batch.harvest(least, Some(Duration::from_millis(self.random.below(5))), &mut outcomes).unwrap();
        }
        for outcome in &outcomes {
            let (at, count) = runs[outcome.cookie as usize];
            let known = match &outcome.result {
                Ok(()) => Some(byte),
                Err(Error::Cancelled) => None,
                Err(other) => panic!("{other}"),
            };
            self.known[at..at + count].fill(known);
        }
        for (cookie, &(at, count)) in runs.iter().enumerate() {
            let range = at * BLOCK..(at + count) * BLOCK;
            batch.read(namespace, &self.region, range, Lba(self.first + at as u64), cookie as u64).unwrap();
        }
        outcomes.clear();
        batch.harvest(usize::MAX, None, &mut outcomes).unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()) && outcomes.len() == runs.len());
        for (at, count) in runs {
            self.check(at, count);
        }
    }

    fn check(&self, at: usize, count: usize) {
        let mut bytes = vec![0; count * BLOCK];
        self.region.copy_out(at * BLOCK, &mut bytes).unwrap();
        for (block, known) in bytes.chunks(BLOCK).zip(&self.known[at..at + count]) {
            if let Some(byte) = known {
                assert!(block.iter().all(|found| found == byte), "{:#x} is not {byte:#x}", block[0]);
            }
        }
    }
}

#[test]
fn everything_at_once_for_a_while() {
    let seconds = std::env::var("UGDS_SOAK_SECONDS").ok();
    let seconds =
        seconds.map_or(1, |seconds| seconds.parse().expect("UGDS_SOAK_SECONDS is a number of seconds"));
    let config = EmuConfig {
        out_of_order: Some(11),
        latency: Duration::from_micros(30),
        vwc: true,
        mode: Mode::Threads { workers: 2 },
        ..EmuConfig::default()
    };
    let emu = Emu::new(config.with_namespaces(1, CALLERS * (BLOCKS * BLOCK) as u64, BLOCK as u32)).unwrap();
    let mut options = Options::default();
    (options.queues, options.queue_entries) = (4, 16);
    let device = Device::with_backend(emu.clone(), options, None).unwrap();
    let (end, rounds) = (Instant::now() + Duration::from_secs(seconds), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let (device, rounds) = (&device, &rounds);
            scope.spawn(move || {
                let mut caller = Caller::new(device, number);
                while Instant::now() < end {
                    if number % 2 == 0 {
                        caller.blocking();
                    } else {
                        caller.batch();
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} rounds in {seconds} s: {:?}", rounds.into_inner(), device.stats());
    assert_eq!(device.stats().total(|queue| queue.outstanding.into()), 0);
    device.close().unwrap();
    emu.assert_clean();
    assert_eq!(emu.live_mappings(), 0);
}

const CALLERS: u64 = 8;
const BLOCK: usize = 512;
const BLOCKS: usize = 1024;
/// Blocks between two runs of a batch.
const RUN: usize = 64;
