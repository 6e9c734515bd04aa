//! A run: its limits, its workers, and what they bring back.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use ugds::uri::{Bytes, Location};
use ugds::{Device, Namespace, QueueStats, Region};

use super::Pattern;
use super::pattern::Mismatch;
use super::worker::{Share, Worker};
use crate::device::{Area, size_text};
use crate::failure::usage;
use crate::measure::Measure;

/// What was asked for.
pub(super) struct Limits {
    pub(super) pattern: Pattern,
    pub(super) request_bytes: u64,
    pub(super) workers: u32,
    pub(super) time: Duration,
    pub(super) seed: u64,
    pub(super) verify: bool,
}

/// A run that is ready to start.
pub(super) struct Job {
    workers: Vec<Worker>,
    time: Duration,
    verify: bool,
    memory_path: String,
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

impl Job {
    pub(super) fn new(
        device: &Device,
        namespace: &Namespace,
        place: &Location,
        limits: &Limits,
    ) -> anyhow::Result<Self> {
        let area =
            Area::within(namespace.len_bytes(), namespace.lba_bytes(), place.offset_bytes, place.len_bytes)?;
        let slots = slots(area, namespace.lba_bytes(), limits)?;
        let mut workers = Vec::new();
        for index in 0..limits.workers {
            let region = region(device, limits.request_bytes)?;
            let share = Share::of(index, limits, area, slots);
            workers.push(Worker::new(namespace.clone(), region, share, limits, index)?);
        }
        let memory_path = workers.first().map(Worker::memory_path).unwrap_or_default();
        Ok(Self { workers, time: limits.time, verify: limits.verify, memory_path })
    }

    pub(super) fn memory_path(&self) -> String {
        self.memory_path.clone()
    }

    /// On a terminal, what a run is doing; nothing elsewhere or in a short run.
    fn progress(&self) -> ProgressBar {
        if self.time < PROGRESS_FROM && !self.verify {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{msg} {elapsed} {spinner}") {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        bar
    }

    /// Fills the area if data are to be verified, runs, and checks all of it.
    pub(super) fn run(&mut self, device: &Device) -> anyhow::Result<Results> {
        let bar = self.progress();
        if self.verify {
            bar.set_message("filling");
            each(&mut self.workers, Worker::fill)?;
        }
        bar.set_message("running");
        let (time, stop) = (self.time, AtomicBool::new(false));
        let before = device.stats();
        let elapsed = each(&mut self.workers, |worker| worker.run(time, &stop))?;
        let after = device.stats();
        if self.verify {
            bar.set_message("checking");
            each(&mut self.workers, Worker::check_all)?;
        }
        bar.finish_and_clear();
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
    let mut results = Results {
        read: Measure::new(),
        write: Measure::new(),
        elapsed,
        commands: 0,
        doorbells: 0,
        verified_blocks: 0,
        mismatches: Vec::new(),
    };
    for worker in workers {
        results.read.merge(worker.read_times());
        results.write.merge(worker.write_times());
        results.verified_blocks += worker.verified_blocks();
        results.mismatches.extend(worker.mismatch().cloned());
    }
    results
}

/// How many requests lie side by side in `area`.
fn slots(area: Area, lba_bytes: u32, limits: &Limits) -> anyhow::Result<u64> {
    let bytes = limits.request_bytes;
    if bytes == 0 || !bytes.is_multiple_of(lba_bytes.into()) || bytes > REQUEST_MAX_BYTES {
        return Err(usage(format!(
            "--bs {}: a multiple of the block, {}, up to {} is accepted",
            Bytes(bytes),
            size_text(lba_bytes.into()),
            size_text(REQUEST_MAX_BYTES)
        )));
    }
    let slots = area.len_bytes / bytes;
    if slots < limits.workers.into() {
        return Err(usage(format!(
            "{} is too small for {} outstanding requests of {} (threads times depth), each with a place of its own; \
             a larger area, smaller or fewer requests are accepted",
            size_text(area.len_bytes),
            limits.workers,
            size_text(bytes)
        )));
    }
    if limits.verify && slots > VERIFY_SLOTS_MAX {
        return Err(usage(format!(
            "--verify of {} in requests of {} has to remember {slots} versions; at most {VERIFY_SLOTS_MAX} \
             are accepted: URI#OFFSET+LENGTH takes a part of the namespace",
            size_text(area.len_bytes),
            size_text(bytes)
        )));
    }
    Ok(slots)
}

fn region(device: &Device, len_bytes: u64) -> anyhow::Result<Region> {
    device.alloc(len_bytes as usize).context("cannot register memory")
}

/// Shorter runs end before anyone wonders.
const PROGRESS_FROM: Duration = Duration::from_secs(2);
/// Rare enough to be lost in the noise of what is measured.
const TICK: Duration = Duration::from_millis(250);
const REQUEST_MAX_BYTES: u64 = 64 << 20;
/// 256 MiB of versions.
const VERIFY_SLOTS_MAX: u64 = 1 << 26;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request_bytes: u64, workers: u32, verify: bool) -> Result<u64, String> {
        let area = Area { offset_bytes: 0, len_bytes: 1 << 40 };
        let pattern = Pattern::Randread;
        let limits = Limits { pattern, request_bytes, workers, time: Duration::ZERO, seed: 0, verify };
        slots(area, 4096, &limits).map_err(|error| error.to_string())
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
