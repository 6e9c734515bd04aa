//! One process, again and again.

use std::io::IsTerminal;
use std::thread;

use anyhow::bail;
use ugds::published::{Entry, list};

use super::Args;
use super::answer::{Answer, ask};
use super::view::View;
use crate::failure::Outcome;
use crate::output;

pub(super) fn run(args: &Args, pid: u32) -> anyhow::Result<Outcome> {
    let mut then = look(pid)?;
    if then.is_empty() {
        bail!(
            "process {pid} of this user publishes no statistics; `ugds stat` lists those that do, and \
             `UGDS_STATS=1 PROGRAM` makes one that uses uGDS do so"
        );
    }
    let live = !args.json && std::io::stdout().is_terminal();
    let mut views = 0;
    while args.count.is_none_or(|count| views < count) {
        thread::sleep(args.interval);
        let now = look(pid)?;
        if now.is_empty() {
            // It ended, or closed its devices.
            return Ok(Outcome::Success);
        }
        show(args, live, &then, &now)?;
        then = now;
        views += 1;
    }
    Ok(Outcome::Success)
}

/// All devices of a process.
fn look(pid: u32) -> anyhow::Result<Vec<(Entry, Answer)>> {
    let mut found = Vec::new();
    for entry in list()?.into_iter().filter(|entry| entry.pid == pid) {
        found.extend(ask(&entry)?.map(|answer| (entry, answer)));
    }
    Ok(found)
}

fn show(args: &Args, live: bool, then: &[(Entry, Answer)], now: &[(Entry, Answer)]) -> anyhow::Result<()> {
    let mut text = String::new();
    for (entry, now) in now {
        // One that was opened meanwhile has its first view after the next interval.
        let Some((_, then)) = then.iter().find(|(known, _)| known == entry) else { continue };
        let view = View::between(entry, then, now);
        if args.json {
            output::line(serde_json::to_string(&view)?)?;
        } else {
            text += &view.text();
            text.push('\n');
        }
    }
    if live {
        // At once, so that nothing flickers.
        text = format!("{CLEAR}{text}");
    }
    output::text(&text)
}

/// To the upper left corner, and clear what is below.
const CLEAR: &str = "\x1b[H\x1b[J";
