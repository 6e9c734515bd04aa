//! A run: its limits, its workers, and what they bring back.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use ugds::uri::{Bytes, Location};
use ugds::{Device, Namespace, QueueStats};

use super::pattern::Mismatch;
use super::progress::Progress;
use super::worker::Worker;
use super::{Mode, Pattern};
use crate::device::{Area, size_text};
use crate::failure::usage;
use crate::measure::Measure;

/// What was asked for.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) pattern: Pattern,
    pub(super) mode: Mode,
    pub(super) request_bytes: u64,
    pub(super) threads: u32,
    pub(super) time: Duration,
    pub(super) seed: u64,
    pub(super) verify: bool,
}

impl Load {
    /// Threads of the operating system.
    pub(super) fn workers(&self) -> u32 {
        match self.mode {
            Mode::Sync { depth } => self.threads * depth,
            Mode::Batch { .. } => self.threads,
        }
    }

    /// How many requests are out, in words.
    pub(super) fn concurrency(&self) -> String {
        match self.mode {
            Mode::Sync { depth } => format!("{} threads x {depth} outstanding", self.threads),
            Mode::Batch { entries } => format!("{} threads x batch of {entries}", self.threads),
        }
    }

    /// Requests that are out at a time.
    pub(super) fn outstanding(&self) -> u32 {
        self.workers() * self.mode.lanes()
    }

    /// Parts of the area that have an order, or versions, of their own.
    pub(super) fn shares(&self) -> u32 {
        if self.verify { self.outstanding() } else { self.workers() }
    }
}

/// A run that is ready to start.
pub(super) struct Job {
    workers: Vec<Worker>,
    time: Duration,
    verify: bool,
}

/// What a run found.
pub(super) struct Results {
    pub(super) read: Measure,
    pub(super) write: Measure,
    /// From the first request to the end of the last.
    pub(super) elapsed: Duration,
    /// In that time.
    pub(super) commands: u64,
    pub(super) doorbells: u64,
    pub(super) verified_blocks: u64,
    /// The first wrong block of each worker.
    pub(super) mismatches: Vec<Mismatch>,
}

impl Results {
    /// Nothing in this time.
    pub(super) fn new(elapsed: Duration) -> Self {
        Self {
            read: Measure::new(),
            write: Measure::new(),
            elapsed,
            commands: 0,
            doorbells: 0,
            verified_blocks: 0,
            mismatches: Vec::new(),
        }
    }
}

impl Job {
    /// # Errors
    /// When `load` doesn't fit `place`, or there is no memory for it.
    pub(super) fn new(
        device: &Device,
        namespace: &Namespace,
        place: &Location,
        load: &Load,
    ) -> anyhow::Result<Self> {
        let slots = fit(namespace, place, load)?;
        let worker = |index| Worker::new(device, namespace, load, slots, index);
        let workers = (0..load.workers()).map(worker).collect::<anyhow::Result<_>>()?;
        Ok(Self { workers, time: load.time, verify: load.verify })
    }

    /// Fills the area if data are to be verified, runs, and checks all of it.
    pub(super) fn run(&mut self, device: &Device, progress: &Progress) -> anyhow::Result<Results> {
        if self.verify {
            progress.now("filling");
            each(&mut self.workers, Worker::fill)?;
        }
        progress.now("");
        let (time, stop) = (self.time, AtomicBool::new(false));
        let before = device.stats();
        let elapsed = each(&mut self.workers, |worker| worker.run(time, &stop))?;
        let after = device.stats();
        if self.verify {
            progress.now("checking");
            each(&mut self.workers, Worker::check_all)?;
        }
        let since = |counter: fn(&QueueStats) -> u64| after.total(counter) - before.total(counter);
        let mut results = collect(&self.workers, elapsed);
        results.commands = since(|queue| queue.submitted);
        results.doorbells = since(|queue| queue.doorbells);
        Ok(results)
    }
}

/// Runs `body` for each worker, in a thread of its own, all at once. Returns the time from the start of all to the
/// end of the last.
fn each(
    workers: &mut [Worker],
    body: impl Fn(&mut Worker) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Duration> {
    // Closed while it is locked for writing. Behind it stands whether all threads are there.
    let gate = RwLock::new(false);
    std::thread::scope(|scope| {
        let mut go = gate.write().unwrap_or_else(PoisonError::into_inner);
        let spawn = |worker| {
            let through = || *gate.read().unwrap_or_else(PoisonError::into_inner);
            let body = &body;
            std::thread::Builder::new()
                .spawn_scoped(scope, move || if through() { body(worker) } else { Ok(()) })
        };
        let threads: io::Result<Vec<_>> = workers.iter_mut().map(spawn).collect();
        *go = threads.is_ok();
        drop(go);
        let start = Instant::now();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        // All are waited for before the first error is told.
        let ended: Vec<_> = threads.context("cannot start a thread")?.into_iter().map(join).collect();
        ended.into_iter().collect::<anyhow::Result<()>>()?;
        Ok(start.elapsed())
    })
}

fn collect(workers: &[Worker], elapsed: Duration) -> Results {
    let mut results = Results::new(elapsed);
    for worker in workers {
        results.read.merge(worker.read_times());
        results.write.merge(worker.write_times());
        results.verified_blocks += worker.verified_blocks();
        results.mismatches.extend(worker.mismatch().cloned());
    }
    results
}

/// The bytes that `load` uses, and how many of its requests lie side by side in them.
///
/// # Errors
/// When `load` doesn't fit `place`.
pub(super) fn fit(namespace: &Namespace, place: &Location, load: &Load) -> anyhow::Result<(Area, u64)> {
    let lba_bytes = namespace.lba_bytes();
    let area = Area::within(namespace.len_bytes(), lba_bytes, place.offset_bytes, place.len_bytes)?;
    Ok((area, slots(area, lba_bytes, load)?))
}

fn slots(area: Area, lba_bytes: u32, load: &Load) -> anyhow::Result<u64> {
    let bytes = load.request_bytes;
    if bytes == 0 || !bytes.is_multiple_of(lba_bytes.into()) || bytes > REQUEST_MAX_BYTES {
        return Err(usage(format!(
            "--bs {}: a multiple of the block, {}, up to {} is accepted",
            Bytes(bytes),
            size_text(lba_bytes.into()),
            size_text(REQUEST_MAX_BYTES)
        )));
    }
    let slots = area.len_bytes / bytes;
    if slots < load.outstanding().into() {
        return Err(usage(format!(
            "{} is too small for {} outstanding requests of {} (threads times depth or batch), each with a place of \
             its own; a larger area, smaller or fewer requests are accepted",
            size_text(area.len_bytes),
            load.outstanding(),
            size_text(bytes)
        )));
    }
    if load.verify && slots > VERIFY_SLOTS_MAX {
        return Err(usage(format!(
            "--verify of {} in requests of {} has to remember {slots} versions; at most {VERIFY_SLOTS_MAX} \
             are accepted: URI#OFFSET+LENGTH takes a part of the namespace",
            size_text(area.len_bytes),
            size_text(bytes)
        )));
    }
    Ok(slots)
}

const REQUEST_MAX_BYTES: u64 = 64 << 20;
/// 256 MiB of versions.
const VERIFY_SLOTS_MAX: u64 = 1 << 26;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request_bytes: u64, workers: u32, verify: bool) -> Result<u64, String> {
        let area = Area { offset_bytes: 0, len_bytes: 1 << 40 };
        let pattern = Pattern::Randread;
        let (time, threads) = (Duration::ZERO, workers);
        let load =
            Load { pattern, mode: Mode::Sync { depth: 1 }, request_bytes, threads, time, seed: 0, verify };
        slots(area, 4096, &load).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_named() {
        assert_eq!(asked(4096, 1024, false), Ok(1 << 28));
        assert!(asked(0, 1, false).unwrap_err().contains("--bs 0"));
        assert!(asked(1000, 1, false).unwrap_err().contains("4 KiB"));
        assert!(asked(128 << 20, 1, false).unwrap_err().contains("64 MiB"));
        assert!(asked(4096, 1, true).unwrap_err().contains("268435456 versions"));
        assert!(asked(64 << 20, 20000, false).unwrap_err().contains("20000 outstanding requests"));
    }
}
