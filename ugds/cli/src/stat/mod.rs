//! `ugds stat`: what goes through the devices of running processes.

mod answer;
mod list;
mod view;
mod watch;

use std::time::Duration;

use crate::failure::Outcome;

/// Show what goes through the devices of running processes
///
/// Without PID, lists the processes of this user that publish statistics, with all that went through their devices
/// so far. With PID, shows rates, outstanding commands, errors and latencies of each queue and each class, again and
/// again until the process ends.
///
/// A process publishes when its environment has UGDS_STATS=1, or UGDS_STATS=counters for no latencies, which costs
/// nothing; or when it asks for that itself, as `ugds bench` does, without latencies unless UGDS_STATS=1. Nobody but the
/// same user, and root, can read it. Latencies go from the doorbell to the pass that saw the completion.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds stat
  ugds stat 4711 --interval 0.5
  ugds stat 4711 --count 10 --json >rates.jsonl

Exit status: 0 all was shown, 1 something could not be read, 2 wrong usage.")]
pub(crate) struct Args {
    /// The process
    pid: Option<u32>,
    /// Seconds between two views
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Views; until the process ends if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print JSON, an object on a line for each device and view
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match args.pid {
        None => list::run(args),
        Some(pid) => watch::run(args, pid),
    }
}

/// A time from ten milliseconds to an hour.
fn interval(text: &str) -> Result<Duration, String> {
    let accepted = || "a number of seconds from 0.01 to 3600 is accepted".to_owned();
    let number: f64 = text.parse().map_err(|_| accepted())?;
    if (0.01..=3600.0).contains(&number) { Ok(Duration::from_secs_f64(number)) } else { Err(accepted()) }
}
