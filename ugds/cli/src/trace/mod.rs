//! `ugds trace`: the life of each command, from the call to its end, and where the time went.

mod chrome;
mod lives;
mod load;
mod report;

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use ugds::Options;
use ugds::traced::Tracer;
use ugds::uri::{Bytes, Location};

use crate::consent;
use crate::device::{Area, namespace, open_with, size_text};
use crate::failure::{Outcome, usage};
use crate::output;
use crate::replacement::Replacement;
use lives::Lives;
use load::{Load, Requests};

/// Show the life of commands, and where their time went
///
/// Makes COUNT requests, and writes down for each command when the call began, when the command was staged in its
/// queue, when the doorbell was rung, when its completion was seen, and when the call returned. With --depth 1
/// requests block, one after the other; with more, a batch of DEPTH requests is kept full.
///
/// FILE.json has all of it as trace events, for https://ui.perfetto.dev or chrome://tracing: a track for each queue, a
/// slice for each command. It is replaced if it exists.
///
/// Patterns that write destroy what the namespace holds. Unless it is an emulated one over memory or over a new file,
/// they need --erase.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds trace 'emu:?latency_us=80'
  ugds trace emu: --rw randread --bs 128k --depth 8 --count 100 -o trace.json
  ugds trace emu:disk.img#1G+256M --rw write --erase

Exit status: 0 the requests succeeded, 1 one of them failed, 2 wrong usage.")]
pub(crate) struct Args {
    /// A namespace, or a part of it: URI[#OFFSET[+LENGTH]]
    #[arg(value_name = "URI")]
    place: Location,
    /// What to do
    #[arg(long, value_enum, default_value_t = Pattern::Read)]
    rw: Pattern,
    /// Bytes of a request, a multiple of the block
    #[arg(long, value_name = "BYTES", default_value = "4k")]
    bs: Bytes,
    /// Requests
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX))]
    count: u32,
    /// Requests outstanding
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX))]
    depth: u32,
    /// Commands in the table; all of them are in the summary and in FILE.json
    #[arg(long, value_name = "N", default_value_t = 8)]
    show: usize,
    /// What random places are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Allow that what the namespace holds is destroyed
    #[arg(long)]
    erase: bool,
    /// Write the trace there
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
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
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Randread => "randread",
            Self::Randwrite => "randwrite",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Randwrite)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.rw.writes() {
        consent::to_destroy(args.rw.name(), &args.place.uri, args.erase.into())?;
    }
    let file = args.output.as_deref().map(Replacement::of).transpose()?;
    let uri = &args.place.uri;
    let tracer = Tracer::new(events(args));
    let mut options = Options::default();
    options.trace = Some(tracer.clone());
    let device = open_with(uri, options)?;
    let namespace = namespace(&device, uri.nsid())?;
    let lba_bytes = namespace.lba_bytes();
    let (offset, len) = (args.place.offset_bytes, args.place.len_bytes);
    let area = Area::within(namespace.len_bytes(), lba_bytes, offset, len)?;
    let load = Load {
        pattern: args.rw,
        request_bytes: args.bs.0,
        count: args.count,
        depth: args.depth,
        seed: args.seed,
        slots: slots(args, area, lba_bytes)?,
        area,
    };
    // What the bringing up left is nobody's question.
    drop(tracer.drain());
    let Requests { requests, failure } = load::run(&device, &namespace, &load)?;
    let trace = tracer.drain();
    let path = device.info().path.clone();
    let lives = Lives::of(&trace, requests, lba_bytes);
    // After one that failed, what it left may keep the device from closing; that it failed matters more.
    let closed = device.close();
    output::text(&report::text(args, &path, &lives))?;
    if let Some(file) = file {
        chrome::write(&file, &uri.to_string(), &lives)?;
        output::line(format!("\ntrace    {}", file.path().display()))?;
        file.commit()?;
    }
    match failure {
        Some(error) => Err(error),
        None => closed.context("close").map(|()| Outcome::Success),
    }
}

/// As many events as one port can have, if all requests went there in the smallest pieces that there are.
fn events(args: &Args) -> usize {
    let pieces = args.bs.0.div_ceil(PIECE_BYTES).saturating_add(1);
    let events = pieces.saturating_mul(args.count.into()).saturating_mul(3);
    usize::try_from(events).unwrap_or(EVENTS_MAX).clamp(Tracer::DEFAULT_EVENTS, EVENTS_MAX)
}

/// How many requests lie side by side in the area.
fn slots(args: &Args, area: Area, lba_bytes: u32) -> anyhow::Result<u64> {
    let bytes = args.bs.0;
    if bytes == 0 || !bytes.is_multiple_of(lba_bytes.into()) || bytes > REQUEST_MAX_BYTES {
        return Err(usage(format!(
            "--bs {}: a multiple of the block, {}, up to {} is accepted",
            args.bs,
            size_text(lba_bytes.into()),
            size_text(REQUEST_MAX_BYTES)
        )));
    }
    let slots = area.len_bytes / bytes;
    if slots < args.depth.into() {
        return Err(usage(format!(
            "{} is too small for {} outstanding requests of {}, each with a place of its own; a larger area, smaller \
             or fewer requests are accepted",
            size_text(area.len_bytes),
            args.depth,
            size_text(bytes)
        )));
    }
    Ok(slots)
}

/// Few enough to be looked at, and to be kept.
const COUNT_MAX: i64 = 100_000;
const DEPTH_MAX: i64 = 1024;
const REQUEST_MAX_BYTES: u64 = 64 << 20;
/// The smallest command that a large request is cut into.
const PIECE_BYTES: u64 = 32 << 10;
/// 40 MiB for each queue.
const EVENTS_MAX: usize = 1 << 20;
