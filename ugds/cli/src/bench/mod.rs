//! `ugds bench`: how fast a namespace is, and whether it gives back what it was given.

mod job;
mod pattern;
mod worker;

use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use ugds::Device;
use ugds::uri::{Bytes, Location};

use crate::consent::{self, Erase};
use crate::device::{namespace, open, size_text};
use crate::failure::{Outcome, usage};
use crate::measure::{self, Summary};
use crate::output;
use job::{Job, Limits, Results};

/// Measure the throughput and the latency of a namespace
///
/// THREADS times DEPTH requests are outstanding, each of BS bytes at a multiple of BS. In the mode `sync`, a request
/// blocks its thread, so that each outstanding request is a thread of the operating system.
///
/// Modes that write, and --verify, destroy what the namespace holds. Unless it is an emulated one over memory or
/// over a new file, they need --erase.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds bench 'emu:?size=1G' --rw randread --bs 4k --threads 4 --depth 8 --time 5
  ugds bench 'emu:?latency_us=80&bandwidth_mib=7000' --rw read --bs 1M
  ugds bench 'emu:disk.img#1G+256M' --rw randrw --verify --erase

Exit status: 0 the time is over, 1 a request failed or --verify found wrong data, 2 wrong usage.")]
pub(crate) struct Args {
    /// A namespace, or a part of it: URI[#OFFSET[+LENGTH]]
    #[arg(value_name = "URI")]
    place: Location,
    /// What to do
    #[arg(long, value_enum, default_value_t = Pattern::Randread)]
    rw: Pattern,
    /// Bytes of a request, a multiple of the block
    #[arg(long, value_name = "BYTES", default_value = "4k")]
    bs: Bytes,
    /// Groups of DEPTH requests
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Requests outstanding for each of THREADS
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// How requests are made
    #[arg(long, value_enum, default_value_t = Mode::Sync)]
    mode: Mode,
    /// Seconds to run
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    time: Duration,
    /// Fill the area first, then check all that is read against (seed, block, version), and all of it at the end
    #[arg(long)]
    verify: bool,
    /// Allow that what the namespace holds is destroyed
    #[arg(long)]
    erase: bool,
    /// What random places and verified data are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON and nothing else
    #[arg(long)]
    json: bool,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Blocking requests, a thread for each
    Sync,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    place: String,
    device_path: String,
    memory_path: String,
    rw: String,
    mode: &'static str,
    bs_bytes: u64,
    threads: u32,
    depth: u32,
    seconds: f64,
    read: Option<Summary>,
    write: Option<Summary>,
    /// Blocks that were compared, and found right. `null` without `--verify`.
    verified_blocks: Option<u64>,
    commands: u64,
    doorbells: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    ask(args)?;
    let device = open(&args.place.uri)?;
    let namespace = namespace(&device, args.place.uri.nsid())?;
    let mut job = Job::new(&device, &namespace, &args.place, &limits(args))?;
    let results = job.run(&device)?;
    let report = report(args, &device, &job, &results);
    drop(job);
    device.close().context("close")?;
    print(args, &report)?;
    Ok(complain(&results))
}

fn ask(args: &Args) -> anyhow::Result<()> {
    let erase = Erase::from(args.erase);
    if args.rw.writes() {
        consent::to_destroy(&args.rw.name(), &args.place.uri, erase)?;
    }
    if args.verify {
        consent::to_destroy("--verify", &args.place.uri, erase)?;
    }
    let workers = args.threads * args.depth;
    if workers > WORKERS_MAX {
        return Err(usage(format!(
            "--threads {} times --depth {} is {workers} requests; at most {WORKERS_MAX} are accepted",
            args.threads, args.depth
        )));
    }
    Ok(())
}

fn limits(args: &Args) -> Limits {
    Limits {
        pattern: args.rw,
        request_bytes: args.bs.0,
        workers: args.threads * args.depth,
        time: args.time,
        seed: args.seed,
        verify: args.verify,
    }
}

fn report(args: &Args, device: &Device, job: &Job, results: &Results) -> Report {
    let summary =
        |measure: &measure::Measure| (!measure.is_empty()).then(|| measure.summary(results.elapsed));
    Report {
        place: args.place.to_string(),
        device_path: device.info().path.to_string(),
        memory_path: job.memory_path(),
        rw: args.rw.name(),
        mode: "sync",
        bs_bytes: args.bs.0,
        threads: args.threads,
        depth: args.depth,
        seconds: results.elapsed.as_secs_f64(),
        read: summary(&results.read),
        write: summary(&results.write),
        verified_blocks: args.verify.then_some(results.verified_blocks),
        commands: results.commands,
        doorbells: results.doorbells,
    }
}

fn print(args: &Args, report: &Report) -> anyhow::Result<()> {
    if args.json {
        return output::json(report);
    }
    output::line(format!("place    {}", report.place))?;
    output::line(format!("device   {}", report.device_path))?;
    output::line(format!("memory   {}", report.memory_path))?;
    output::line(format!(
        "load     {} of {}, {} threads x {} outstanding, {}, {:.2} s\n",
        report.rw,
        size_text(report.bs_bytes),
        report.threads,
        report.depth,
        report.mode,
        report.seconds
    ))?;
    let rows = [("read", &report.read), ("write", &report.write)];
    output::text(&measure::table(rows.iter().filter_map(|(name, row)| Some((*name, row.as_ref()?)))))?;
    output::line(format!("\ncommands {}, submission doorbells {}", report.commands, report.doorbells))?;
    match report.verified_blocks {
        Some(blocks) => output::line(format!("verified {blocks} blocks")),
        None => Ok(()),
    }
}

/// Tells of wrong data.
fn complain(results: &Results) -> Outcome {
    for mismatch in &results.mismatches {
        output::complain(&format!("ugds: error: {mismatch}"));
    }
    if results.mismatches.is_empty() { Outcome::Success } else { Outcome::Mismatch }
}

/// A time from a millisecond to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let accepted = || "a number of seconds from 0.001 to 86400 is accepted".to_owned();
    let number: f64 = text.parse().map_err(|_| accepted())?;
    if (0.001..=86400.0).contains(&number) { Ok(Duration::from_secs_f64(number)) } else { Err(accepted()) }
}

/// Threads of the operating system that a run may start.
const WORKERS_MAX: u32 = 1024;

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
