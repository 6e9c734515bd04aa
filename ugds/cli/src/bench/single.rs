//! `ugds bench URI`: one load, with requests of one size or of several, one after the other.

use std::path::PathBuf;
use std::time::Duration;

use ugds::uri::{Bytes, Location};

use super::job::{Load, Results};
use super::plot::{self, Curve, Picture, Weight};
use super::progress::Progress;
use super::report::Report;
use super::stand::Stand;
use super::{ENTRIES_MAX, Mode, ModeName, Pattern, WORKERS_MAX, ask, seconds};
use crate::device::size_text;
use crate::failure::{Outcome, usage};
use crate::output;

#[derive(clap::Args)]
// The name that it would have is that of the command.
#[group(id = "load")]
pub(super) struct Args {
    /// A namespace, or a part of it: URI[#OFFSET[+LENGTH]]
    #[arg(value_name = "URI")]
    place: Location,
    /// What to do
    #[arg(long, value_enum, default_value_t = Pattern::Randread)]
    rw: Pattern,
    /// Bytes of a request, a multiple of the block; several sizes have a run each
    #[arg(long, value_name = "BYTES,...", default_value = "4k", value_delimiter = ',')]
    bs: Vec<Bytes>,
    /// Groups of requests: of DEPTH in the mode `sync`, or a batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Requests outstanding for each of THREADS; 1 if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: Option<u32>,
    /// How requests are made
    #[arg(long, value_enum, default_value_t = ModeName::Sync)]
    mode: ModeName,
    /// Entries of each batch in the mode `batch`; 32 if left out
    #[arg(long, value_name = "ENTRIES", value_parser = clap::value_parser!(u32).range(1..=ENTRIES_MAX))]
    batch: Option<u32>,
    /// Seconds of a run
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
    /// Draw the latencies, up to the slowest of 100000 requests: a line for each size and direction
    #[arg(long, value_name = "FILE.svg", value_parser = plot::svg_file())]
    plot: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let loads = loads(args)?;
    ask(&loads, &args.place.uri, args.erase)?;
    let picture = args.plot.as_deref().map(Picture::of).transpose()?;
    let stand = Stand::open(&args.place)?;
    stand.check(&loads)?;
    let mut report = Report::of(&stand);
    let results = measure(&stand, &loads, &mut report)?;
    stand.close()?;
    // Whichever of the two fails, the other one is there.
    let drawn =
        picture.map(|picture| picture.write(|| plot::tails(&title(&loads[0]), &curves(&loads, &results))));
    print(args, &loads[0], &report)?;
    drawn.transpose()?;
    Ok(complain(&results))
}

fn loads(args: &Args) -> anyhow::Result<Vec<Load>> {
    let mode = mode(args)?;
    let load = |bytes: &Bytes| Load {
        pattern: args.rw,
        mode,
        request_bytes: bytes.0,
        threads: args.threads,
        time: args.time,
        seed: args.seed,
        verify: args.verify,
    };
    let loads: Vec<Load> = args.bs.iter().map(load).collect();
    let workers = loads.first().map_or(0, Load::workers);
    if workers > WORKERS_MAX {
        let (threads, depth) = (args.threads, args.depth.unwrap_or(1));
        return Err(usage(format!(
            "--threads {threads} times --depth {depth} is {workers} requests; at most {WORKERS_MAX} are accepted"
        )));
    }
    Ok(loads)
}

fn mode(args: &Args) -> anyhow::Result<Mode> {
    match (args.mode, args.depth, args.batch) {
        (ModeName::Sync, depth, None) => Ok(Mode::Sync { depth: depth.unwrap_or(1) }),
        (ModeName::Batch, None, entries) => Ok(Mode::Batch { entries: entries.unwrap_or(ENTRIES) }),
        (ModeName::Sync, _, Some(entries)) => Err(usage(format!(
            "--batch {entries} is for --mode batch; --mode sync has --depth for more requests at a time"
        ))),
        (ModeName::Batch, Some(depth), _) => Err(usage(format!(
            "--depth {depth} is for --mode sync; --mode batch has --batch for more requests at a time"
        ))),
    }
}

/// Runs the loads up to the first that finds wrong data.
fn measure(stand: &Stand, loads: &[Load], report: &mut Report) -> anyhow::Result<Vec<Results>> {
    let progress = Progress::of(loads);
    let mut all = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        progress.begin(index, load);
        let results = stand.run(load, &progress)?;
        report.add(load, &results);
        let wrong = !results.mismatches.is_empty();
        all.push(results);
        if wrong {
            break;
        }
    }
    Ok(all)
}

fn print(args: &Args, load: &Load, report: &Report) -> anyhow::Result<()> {
    if args.json {
        return output::json(report);
    }
    let sizes: Vec<String> = report.runs.iter().map(|run| size_text(run.bs_bytes)).collect();
    let seconds: f64 = report.runs.iter().map(|run| run.seconds).sum();
    output::text(&report.head())?;
    output::line(format!(
        "load     {} of {}, {}, {}, {seconds:.2} s\n",
        load.pattern.name(),
        sizes.join(", "),
        load.concurrency(),
        load.mode.name(),
    ))?;
    output::text(&report.table())?;
    output::line(format!(
        "\ncommands {}, submission doorbells {}",
        report.total(|run| run.commands),
        report.total(|run| run.doorbells)
    ))?;
    if args.verify {
        output::line(format!("verified {} blocks", report.total(|run| run.verified_blocks.unwrap_or(0))))?;
    }
    Ok(())
}

fn title(load: &Load) -> String {
    format!("{}, {}, {}", load.pattern.name(), load.concurrency(), load.mode.name())
}

fn curves(loads: &[Load], results: &[Results]) -> Vec<Curve> {
    let of_run = |(index, (load, results)): (usize, (&Load, &Results))| {
        [("read", Weight::Bold, &results.read), ("write", Weight::Thin, &results.write)]
            .into_iter()
            .filter(|(.., measure)| !measure.is_empty())
            .map(|(direction, weight, measure)| Curve {
                label: format!("{direction} {}", size_text(load.request_bytes)),
                colour: index,
                weight,
                points: measure.tail(),
            })
            .collect::<Vec<_>>()
    };
    loads.iter().zip(results).enumerate().flat_map(of_run).collect()
}

/// Tells of wrong data.
fn complain(results: &[Results]) -> Outcome {
    let mut outcome = Outcome::Success;
    for mismatch in results.iter().flat_map(|results| &results.mismatches) {
        output::complain(&format!("ugds: error: {mismatch}"));
        outcome = Outcome::Mismatch;
    }
    outcome
}

/// Entries of a batch if nobody says otherwise.
const ENTRIES: u32 = 32;
