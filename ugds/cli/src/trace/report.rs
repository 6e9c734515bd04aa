//! What a trace comes to, for people.

use ugds::Instant;

use super::Args;
use super::lives::{Life, Lives, PHASES};
use crate::device::size_text;
use crate::table::Table;
use crate::units;

/// The lives of the first commands, and where the time of all of them went.
pub(super) fn text(args: &Args, path: &str, lives: &Lives) -> String {
    let commands = &lives.commands;
    let mut text = format!(
        "device   {}\npath     {path}\nload     {} of {}, {} requests, {} outstanding\n",
        args.place,
        args.rw.name(),
        size_text(args.bs.0),
        lives.requests.len(),
        args.depth,
    );
    text += &format!("commands {}\n", commands.len());
    if lives.dropped + lives.others != 0 {
        text += &format!(
            "not here {} events for which there was no room, {} commands without a beginning\n",
            lives.dropped, lives.others
        );
    }
    if commands.is_empty() {
        return text;
    }
    text += "\ntimes since the call began\n";
    text += &table(lives, args.show);
    if commands.len() > args.show {
        text += &format!("... and {} more\n", commands.len() - args.show);
    }
    text += "\nwhere the time went\n";
    text += &summary(commands);
    text
}

fn table(lives: &Lives, show: usize) -> String {
    let head =
        ["command", "queue", "cid", "lba", "bytes", "staged", "rung", "completed", "returned", "status"];
    let mut table = Table::new(&head);
    for life in lives.commands.iter().take(show) {
        let since = |at: Instant| units::time(at.0.saturating_sub(life.times[0].0) as f64 / 1e3);
        let [_, staged, rung, completed, returned] = life.times;
        table.row(vec![
            format!("{} {}", life.name(), life.request),
            life.qid.to_string(),
            format!("{:04x}", life.cid.0),
            life.lba.to_string(),
            (u64::from(life.blocks) * u64::from(lives.lba_bytes)).to_string(),
            since(staged),
            since(rung),
            since(completed),
            since(returned),
            if life.status.is_success() { "ok".into() } else { status(life) },
        ]);
    }
    table.render()
}

/// The numbers of the specification's tables.
pub(super) fn status(life: &Life) -> String {
    format!("{:x}h/{:02x}h", life.status.sct(), life.status.sc())
}

fn summary(commands: &[Life]) -> String {
    let all: Vec<[u64; 4]> = commands.iter().map(Life::phases_ns).collect();
    let total: u64 = all.iter().flatten().sum();
    let mut table = Table::new(&["", "share", "mean", "p50", "p99", "max", ""]);
    for (at, (phase, what)) in PHASES.into_iter().zip(MEANINGS).enumerate() {
        let mut times: Vec<u64> = all.iter().map(|phases| phases[at]).collect();
        times.sort_unstable();
        let sum: u64 = times.iter().sum();
        let time = |ns: u64| units::time(ns as f64 / 1e3);
        let rank = |part: f64| times[((part * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1];
        table.row(vec![
            phase.to_owned(),
            format!("{:.1}%", 100.0 * sum as f64 / total.max(1) as f64),
            time(sum / times.len() as u64),
            time(rank(0.5)),
            time(rank(0.99)),
            time(rank(1.0)),
            format!("{what:<WIDEST$}"),
        ]);
    }
    table.render()
}

const MEANINGS: [&str; 4] = [
    "call to ring: checked, split, placed, staged",
    "staged until the device is told",
    "told until the completion is seen",
    "seen until the call returns",
];
/// Of the meanings, which are text and so stand left.
const WIDEST: usize = MEANINGS[0].len();
