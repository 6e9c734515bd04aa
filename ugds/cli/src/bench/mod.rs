//! `ugds bench`: how fast a namespace is, and whether it gives back what it was given.

mod job;
mod json;
mod paper;
mod pattern;
mod places;
mod plot;
mod progress;
mod report;
mod single;
mod stand;
mod worker;

use std::time::Duration;

use clap::ValueEnum;
use ugds::uri::Uri;

use crate::consent;
use crate::failure::{Outcome, usage};
use job::Load;

/// Measure the throughput and the latency of a namespace
///
/// THREADS times DEPTH requests are outstanding, each of BYTES bytes at a multiple of BYTES. In the mode `sync`, a
/// request blocks its thread, so that each outstanding request is a thread of the operating system. In the mode
/// `batch`, each of THREADS has a batch of ENTRIES requests: those that have ended are replaced by new ones, which
/// are given to the device together. A latency is then the time from there to the harvest.
///
/// Modes that write, and --verify, destroy what the namespace holds. Unless it is an emulated one over memory or
/// over a new file, they need --erase.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds bench 'emu:?size=1G' --rw randread --bs 4k --threads 4 --depth 8 --time 5
  ugds bench 'emu:?latency_us=80&bandwidth_mib=7000' --bs 4k,64k --plot lat.svg
  ugds bench 'emu:?size=1G' --mode batch --batch 32
  ugds bench 'emu:disk.img#1G+256M' --rw randrw --verify --erase
  ugds bench paper 'emu:?size=1G' --quick

Exit status: 0 the time is over, 1 a request failed or --verify found wrong data, 2 wrong usage.")]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    grids: Option<Grids>,
    // Not one of its options has a value if there is a subcommand.
    #[command(flatten)]
    single: Option<single::Args>,
}

/// Many runs with one word.
#[derive(clap::Subcommand)]
enum Grids {
    Paper(paper::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match (&args.grids, &args.single) {
        (Some(Grids::Paper(args)), _) => paper::run(args),
        (None, Some(args)) => single::run(args),
        (None, None) => Err(usage("<URI> is missing")),
    }
}

/// Places and directions of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pattern {
    /// Read one place after the other
    Read,
    /// Write one place after the other
    Write,
    /// Read random places
    Randread,
    /// Write random places
    Randwrite,
    /// Read or write, half and half, random places
    Randrw,
}

impl Pattern {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Randwrite | Self::Randrw)
    }
}

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Blocking requests, one thread of the operating system for each of `depth`.
    Sync { depth: u32 },
    /// Requests in a batch of so many entries, which one thread keeps full.
    Batch { entries: u32 },
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Sync { .. } => ModeName::Sync.text(),
            Self::Batch { .. } => ModeName::Batch.text(),
        }
    }

    /// Requests that one thread of the operating system has out.
    fn lanes(self) -> u32 {
        match self {
            Self::Sync { .. } => 1,
            Self::Batch { entries } => entries,
        }
    }
}

/// The names of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Blocking requests, a thread for each
    Sync,
    /// Batches of requests, one a thread, kept full
    Batch,
}

impl ModeName {
    fn text(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Batch => "batch",
        }
    }
}

/// Fails if one of `loads` destroys what `uri` holds and nobody allowed that.
fn ask(loads: &[Load], uri: &Uri, erase: bool) -> anyhow::Result<()> {
    for load in loads {
        if load.pattern.writes() {
            consent::to_destroy(&load.pattern.name(), uri, erase.into())?;
        }
        if load.verify {
            consent::to_destroy("--verify", uri, erase.into())?;
        }
    }
    Ok(())
}

/// A time from a millisecond to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let accepted = || "a number of seconds from 0.001 to 86400 is accepted".to_owned();
    let number: f64 = text.parse().map_err(|_| accepted())?;
    if (0.001..=86400.0).contains(&number) { Ok(Duration::from_secs_f64(number)) } else { Err(accepted()) }
}

/// Threads of the operating system that a run may start.
const WORKERS_MAX: u32 = 1024;
/// Entries of a batch.
const ENTRIES_MAX: i64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_finite_and_positive() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "inf", "NaN", "1e9", "soon", ""] {
            assert!(seconds(text).unwrap_err().contains("0.001 to 86400"), "{text}");
        }
    }
}
