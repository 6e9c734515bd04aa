//! `ugds bench paper URI`: the measurements of the paper, as grids.

mod grid;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use ugds::uri::{Bytes, Location};

use super::job::Load;
use super::json::{self, Json};
use super::plot::{self, Picture};
use super::progress::{Progress, duration_text};
use super::report::{Report, Run};
use super::stand::Stand;
use super::{ENTRIES_MAX, ModeName, Pattern, ask, seconds};
use crate::failure::{Outcome, usage};
use crate::output;
use grid::Grid;

/// Measure the paper's grids: threads, and batches, by the size of requests
///
/// In the mode `sync`, so many threads make blocking requests of so many bytes, one at a time each. In the mode
/// `batch`, one thread keeps a batch of so many entries full. Each combination has a run. Tables tell GiB/s, IOPS and
/// the 99th percentile of the latency.
///
/// What the namespace holds is destroyed, unless --rw leaves out writing. That needs --erase if it is not an emulated
/// one over memory or over a new file. Blocks that were never written are read faster than others by many SSDs: fill
/// an SSD before you believe what it reads.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds bench paper 'emu:?size=1G' --quick
  ugds bench paper vfio:0000:01:00.0 --rw randread --plot read.svg
  ugds bench paper vfio:0000:01:00.0#0+64G --erase --json paper.json

Exit status: 0 all was measured, 1 a request failed, 2 wrong usage.")]
pub(super) struct Args {
    /// A namespace, or a part of it: URI[#OFFSET[+LENGTH]]
    #[arg(value_name = "URI")]
    place: Location,
    /// What to do, with a grid each: read, write, randread, randwrite
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',', value_parser = one_way)]
    #[arg(default_value = "randread,randwrite")]
    rw: Vec<Pattern>,
    /// Bytes of a request, a multiple of the block, up to 9 sizes; 4k,16k,64k,256k,1M if left out
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    bs: Vec<Bytes>,
    /// How requests are made, with a grid each
    #[arg(long, value_enum, value_name = "MODE,...", value_delimiter = ',', default_value = "sync,batch")]
    mode: Vec<ModeName>,
    /// Mode `sync`: threads, each with one request; 1,2,4,8,16 if left out
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Mode `batch`: entries of the batch; 1,2,4,8,16,32,64,128,256,512 if left out
    #[arg(long, value_name = "ENTRIES,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=ENTRIES_MAX))]
    batch: Vec<u32>,
    /// Seconds of each run; 1 if left out
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// For a first look, what is left out is --bs 4k,64k,1M --threads 1,4,16 --batch 1,8,64 --time 0.2
    #[arg(long)]
    quick: bool,
    /// Allow that what the namespace holds is destroyed
    #[arg(long)]
    erase: bool,
    /// What random places are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the result as JSON to a file, or print it and nothing else
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = json::BARE)]
    #[arg(value_parser = json::target())]
    json: Option<json::Target>,
    /// Draw GiB/s: a picture for each grid in one file, a line for each size
    #[arg(long, value_name = "FILE.svg", value_parser = plot::svg_file())]
    plot: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let grids = grids(args)?;
    let loads: Vec<Load> = grids.iter().flat_map(Grid::loads).collect();
    ask(&loads, &args.place.uri, args.erase)?;
    let json = Json::of(args.json.as_ref())?;
    let picture = args.plot.as_deref().map(Picture::of).transpose()?;
    let stand = Stand::open(&args.place)?;
    stand.check(&loads)?;
    let mut report = Report::of(&stand);
    let say = |text: &str| if json.is_output() { Ok(()) } else { output::text(text) };
    say(&report.head())?;
    say(&plan(&loads))?;
    let progress = Progress::of(&loads);
    let mut panels = Vec::new();
    for grid in &grids {
        let runs = measure(&stand, grid, &mut report, &progress)?;
        progress.aside(|| say(&grid.tables(runs)))?;
        panels.push(grid.panel(runs));
    }
    drop(progress);
    stand.close()?;
    // Whichever of the two fails, the other one is there.
    let drawn = picture.map(|picture| picture.write(|| plot::rates(&panels)));
    json.write(&report)?;
    drawn.transpose()?;
    Ok(Outcome::Success)
}

fn grids(args: &Args) -> anyhow::Result<Vec<Grid>> {
    check(args)?;
    let defaults = if args.quick { &QUICK } else { &FULL };
    let sizes: Vec<Bytes> = or(&args.bs, defaults.sizes.iter().map(|size| Bytes(*size)));
    let mut grids = Vec::new();
    for &mode in &args.mode {
        let rows = match mode {
            ModeName::Sync => or(&args.threads, defaults.threads.iter().copied()),
            ModeName::Batch => or(&args.batch, defaults.entries.iter().copied()),
        };
        let (time, seed) = (args.time.unwrap_or(defaults.time), args.seed);
        let grid = |&pattern| Grid { pattern, mode, rows: rows.clone(), sizes: sizes.clone(), time, seed };
        grids.extend(args.rw.iter().map(grid));
    }
    Ok(grids)
}

/// Refuses options without a meaning.
fn check(args: &Args) -> anyhow::Result<()> {
    if args.bs.len() > SIZES_MAX {
        return Err(usage(format!("--bs has {} sizes; at most {SIZES_MAX} are accepted", args.bs.len())));
    }
    for (given, option, mode) in
        [(&args.threads, "--threads", ModeName::Sync), (&args.batch, "--batch", ModeName::Batch)]
    {
        if !given.is_empty() && !args.mode.contains(&mode) {
            let mode = mode.text();
            return Err(usage(format!("{option} is for the mode {mode}, which --mode leaves out")));
        }
    }
    Ok(())
}

/// What was asked for, or these if nothing was.
fn or<T: Clone>(asked: &[T], defaults: impl Iterator<Item = T>) -> Vec<T> {
    if asked.is_empty() { defaults.collect() } else { asked.to_vec() }
}

/// What is ahead.
fn plan(loads: &[Load]) -> String {
    let total: Duration = loads.iter().map(|load| load.time).sum();
    let each = loads.first().map_or(Duration::ZERO, |load| load.time);
    format!("plan     {} runs of {}, about {}\n", loads.len(), duration_text(each), duration_text(total))
}

/// Runs `grid` and returns its part of `report`.
fn measure<'r>(
    stand: &Stand,
    grid: &Grid,
    report: &'r mut Report,
    progress: &Progress,
) -> anyhow::Result<&'r [Run]> {
    let first = report.runs.len();
    for load in grid.loads() {
        progress.begin(report.runs.len(), &load);
        let results = stand.run(&load, progress)?;
        report.add(&load, &results);
    }
    Ok(&report.runs[first..])
}

/// A pattern that reads or writes and not both: a cell has one number.
fn one_way(text: &str) -> Result<Pattern, String> {
    let pattern = Pattern::from_str(text, false).ok().filter(|pattern| *pattern != Pattern::Randrw);
    pattern
        .ok_or_else(|| format!("there is no grid `{text}`; read, write, randread and randwrite are accepted"))
}

/// What is measured if nobody says otherwise.
struct Defaults {
    sizes: &'static [u64],
    threads: &'static [u32],
    entries: &'static [u32],
    time: Duration,
}

const FULL: Defaults = Defaults {
    sizes: &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
    threads: &[1, 2, 4, 8, 16],
    entries: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    time: Duration::from_secs(1),
};
const QUICK: Defaults = Defaults {
    sizes: &[4 << 10, 64 << 10, 1 << 20],
    threads: &[1, 4, 16],
    entries: &[1, 8, 64],
    time: Duration::from_millis(200),
};
/// Columns that fit a terminal.
const SIZES_MAX: usize = 9;
