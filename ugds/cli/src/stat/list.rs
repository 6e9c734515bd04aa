//! All processes that publish statistics.

use std::time::Duration;

use anyhow::bail;
use serde::Serialize;
use ugds::QueueStats;
use ugds::published::{Entry, list};

use super::Args;
use super::answer::{Answer, ask};
use crate::failure::{Outcome, usage};
use crate::output;
use crate::table::Table;
use crate::units;

/// A line of JSON.
#[derive(Serialize)]
struct Row<'a> {
    pid: u32,
    number: u32,
    name: &'a str,
    device: &'a str,
    seconds: f64,
    completed: u64,
    failed: u64,
    bytes: u64,
    outstanding: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.count.is_some() {
        return Err(usage("--count is for one process; `ugds stat PID --count N` is accepted"));
    }
    let (mut found, mut unread) = (Vec::new(), 0);
    for entry in list()? {
        match ask(&entry) {
            Ok(Some(answer)) => found.push((entry, answer)),
            // It was removed.
            Ok(None) => {}
            Err(error) => {
                unread += 1;
                output::complain(&format!("ugds: {error:#}"));
            }
        }
    }
    if args.json {
        found
            .iter()
            .try_for_each(|(entry, answer)| output::line(serde_json::to_string(&row(entry, answer))?))?;
    } else if found.is_empty() {
        output::line(NOBODY)?;
    } else {
        output::text(&table(&found))?;
    }
    if unread != 0 {
        bail!("{unread} devices could not be read");
    }
    Ok(Outcome::Success)
}

fn row<'a>(entry: &Entry, answer: &'a Answer) -> Row<'a> {
    let total = |counter: fn(&QueueStats) -> u64| {
        answer.stats.queues.iter().map(counter).fold(0, u64::saturating_add)
    };
    Row {
        pid: entry.pid,
        number: entry.number,
        name: &answer.name,
        device: &answer.device,
        seconds: answer.stats.elapsed.as_secs_f64(),
        completed: total(|queue| queue.completed),
        failed: total(|queue| queue.failed),
        bytes: total(|queue| queue.bytes),
        outstanding: total(|queue| queue.outstanding.into()),
    }
}

fn table(found: &[(Entry, Answer)]) -> String {
    let mut table = Table::new(&["pid", "device", "open for", "commands", "bytes", "errors", "out", "name"]);
    for (entry, answer) in found {
        let row = row(entry, answer);
        table.row(vec![
            row.pid.to_string(),
            row.number.to_string(),
            units::time(Duration::from_secs_f64(row.seconds).as_secs_f64() * 1e6),
            units::count(row.completed as f64),
            units::count(row.bytes as f64),
            units::count(row.failed as f64),
            row.outstanding.to_string(),
            row.name.chars().take(NAME_CHARACTERS).collect(),
        ]);
    }
    table.render()
}

const NOBODY: &str = "\
no process of this user publishes statistics; `UGDS_STATS=1 PROGRAM` makes one that uses uGDS do so";
/// So that the table fits a terminal.
const NAME_CHARACTERS: usize = 24;
