//! What runs found, as JSON has it and as people read it.

use std::time::Duration;

use serde::Serialize;
use ugds::uri::Bytes;

use super::Mode;
use super::job::{Load, Results};
use super::stand::Stand;
use crate::measure::{self, Measure, Summary};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) place: String,
    pub(super) device_path: String,
    pub(super) memory_path: String,
    pub(super) runs: Vec<Run>,
}

/// A load and what it came to.
#[derive(Serialize)]
pub(super) struct Run {
    pub(super) rw: String,
    pub(super) mode: &'static str,
    pub(super) bs_bytes: u64,
    pub(super) threads: u32,
    /// Blocking requests for each of `threads`. `null` in the mode `batch`.
    pub(super) depth: Option<u32>,
    /// Entries of each thread's batch. `null` in the mode `sync`.
    pub(super) batch: Option<u32>,
    pub(super) seconds: f64,
    pub(super) read: Option<Summary>,
    pub(super) write: Option<Summary>,
    /// Blocks that were compared, and found right. `null` without `--verify`.
    pub(super) verified_blocks: Option<u64>,
    pub(super) commands: u64,
    pub(super) doorbells: u64,
}

impl Report {
    /// No runs yet.
    pub(super) fn of(stand: &Stand) -> Self {
        Self {
            place: stand.place().to_string(),
            device_path: stand.device_path(),
            memory_path: stand.memory_path().to_owned(),
            runs: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, load: &Load, results: &Results) {
        self.runs.push(Run::of(load, results));
    }

    /// What is the same in all runs, and known before them.
    pub(super) fn head(&self) -> String {
        format!("place    {}\ndevice   {}\nmemory   {}\n", self.place, self.device_path, self.memory_path)
    }

    /// A row for each direction of each run. Runs are told apart by the sizes of their requests.
    pub(super) fn table(&self) -> String {
        let name = |run: &Run, direction: &str| match self.runs.len() {
            1 => direction.to_owned(),
            _ => format!("{direction} {}", Bytes(run.bs_bytes)),
        };
        let rows: Vec<(String, &Summary)> = self
            .runs
            .iter()
            .flat_map(|run| [("read", run, &run.read), ("write", run, &run.write)])
            .filter_map(|(direction, run, summary)| Some((name(run, direction), summary.as_ref()?)))
            .collect();
        measure::table(rows.iter().map(|(name, summary)| (name.as_str(), *summary)))
    }

    /// The sum over all runs.
    pub(super) fn total(&self, what: impl Fn(&Run) -> u64) -> u64 {
        self.runs.iter().map(what).sum()
    }
}

impl Run {
    pub(super) fn of(load: &Load, results: &Results) -> Self {
        let (depth, batch) = match load.mode {
            Mode::Sync { depth } => (Some(depth), None),
            Mode::Batch { entries } => (None, Some(entries)),
        };
        Self {
            rw: load.pattern.name(),
            mode: load.mode.name(),
            bs_bytes: load.request_bytes,
            threads: load.threads,
            depth,
            batch,
            seconds: results.elapsed.as_secs_f64(),
            read: summary(&results.read, results.elapsed),
            write: summary(&results.write, results.elapsed),
            verified_blocks: load.verify.then_some(results.verified_blocks),
            commands: results.commands,
            doorbells: results.doorbells,
        }
    }

    /// The numbers of a run that only reads or only writes; none if no request ended.
    pub(super) fn one_way(&self) -> Option<&Summary> {
        self.read.as_ref().or(self.write.as_ref())
    }
}

fn summary(measure: &Measure, elapsed: Duration) -> Option<Summary> {
    (!measure.is_empty()).then(|| measure.summary(elapsed))
}
