//! Trace events as Chrome and Perfetto read them.
//!
//! The form is that of "Trace Event Format": complete events (`X`) with microseconds, metadata (`M`) that names the
//! tracks, and flows (`s`, `f`) from a request to its commands. Slices of one track must not overlap partly, so what
//! overlaps goes to another lane of its queue.

use std::io::{BufWriter, Write};

use anyhow::Context;
use serde_json::{Value, json};
use ugds::Instant;

use super::lives::{Life, Lives};
use super::report;
use crate::replacement::Replacement;

/// Writes all of it.
pub(super) fn write(file: &Replacement, uri: &str, lives: &Lives) -> anyhow::Result<()> {
    let events = events(uri, lives);
    let document = json!({
        "displayTimeUnit": "ns",
        "otherData": {
            "ugds": env!("CARGO_PKG_VERSION"),
            "device": uri,
            "lba_bytes": lives.lba_bytes,
            "dropped_events": lives.dropped,
        },
        "traceEvents": events,
    });
    let mut out = BufWriter::new(file.file());
    let written = serde_json::to_writer(&mut out, &document).map_err(std::io::Error::from);
    written.and_then(|()| out.flush()).with_context(|| format!("cannot write {}", file.path().display()))
}

fn events(uri: &str, lives: &Lives) -> Vec<Value> {
    // Times begin with the first request.
    let start = lives.requests.first().map_or(0, |request| request.entered.0);
    let us = |at: Instant| micros(at.0.saturating_sub(start));
    let mut tracks = Tracks::default();
    let mut events = vec![name("process_name", 0, &format!("ugds trace {uri}"))];
    let mut places = Vec::with_capacity(lives.requests.len());
    for (index, request) in lives.requests.iter().enumerate() {
        let track = tracks.place(0, request.entered, request.returned);
        places.push(track);
        events.push(json!({
            "ph": "X", "cat": "request", "name": if request.writes { "write" } else { "read" },
            "pid": PID, "tid": track, "ts": us(request.entered), "dur": between(request.entered, request.returned),
            "args": {
                "request": index, "lba": request.lba, "blocks": request.blocks,
                "len_bytes": request.blocks * u64::from(lives.lba_bytes),
            },
        }));
    }
    for (number, life) in lives.commands.iter().enumerate() {
        let [_, staged, rung, completed, _] = life.times;
        let track = tracks.place(life.qid.0, staged, completed);
        events.push(command(life, lives.lba_bytes, track, us));
        for (phase, from, to) in [("doorbell", staged, rung), ("device", rung, completed)] {
            events.push(json!({
                "ph": "X", "cat": "phase", "name": phase, "pid": PID, "tid": track,
                "ts": us(from), "dur": between(from, to),
            }));
        }
        let flow = |kind: &str, track: u32, at: Instant| {
            json!({
                "ph": kind, "cat": "flow", "name": "command", "id": number, "bp": "e",
                "pid": PID, "tid": track, "ts": us(at),
            })
        };
        // Within the slice of the request, which lasts from before the staging to after the completion.
        events.push(flow("s", places[life.request], staged));
        events.push(flow("f", track, staged));
    }
    events.extend(tracks.names());
    events
}

fn command(life: &Life, lba_bytes: u32, track: u32, us: impl Fn(Instant) -> f64) -> Value {
    let took = between(life.times[1], life.times[3]);
    let [entered, staged, rung, completed, returned] = life.times.map(&us);
    json!({
        "ph": "X", "cat": "command", "name": life.name(),
        "pid": PID, "tid": track, "ts": staged, "dur": took,
        "args": {
            "request": life.request, "qid": life.qid.0, "cid": life.cid.0, "nsid": life.nsid,
            "lba": life.lba, "blocks": life.blocks, "len_bytes": u64::from(life.blocks) * u64::from(lba_bytes),
            "status": report::status(life), "ok": life.status.is_success(),
            "entered_us": entered, "staged_us": staged, "rung_us": rung, "completed_us": completed,
            "returned_us": returned,
        },
    })
}

/// Nanoseconds as the format has them, as exact as they are.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn between(from: Instant, to: Instant) -> f64 {
    micros(to.0.saturating_sub(from.0))
}

fn name(kind: &str, track: u32, text: &str) -> Value {
    json!({ "ph": "M", "name": kind, "pid": PID, "tid": track, "args": { "name": text } })
}

/// The lanes of each queue, and until when each of them is taken. Queue 0 has the requests.
#[derive(Default)]
struct Tracks(std::collections::BTreeMap<u16, Vec<Instant>>);

impl Tracks {
    /// A track for a slice. Slices come in order of their starts.
    fn place(&mut self, queue: u16, from: Instant, to: Instant) -> u32 {
        let lanes = self.0.entry(queue).or_default();
        let lane = lanes.iter().position(|end| *end <= from).unwrap_or_else(|| {
            lanes.push(to);
            lanes.len() - 1
        });
        lanes[lane] = to;
        track(queue, lane)
    }

    fn names(&self) -> impl Iterator<Item = Value> {
        self.0.iter().flat_map(|(&queue, lanes)| {
            (0..lanes.len()).flat_map(move |lane| {
                let whose = if queue == 0 { "requests".to_owned() } else { format!("queue {queue}") };
                let text = if lane == 0 { whose } else { format!("{whose}, {}", lane + 1) };
                let track = track(queue, lane);
                let order = json!({
                    "ph": "M", "name": "thread_sort_index", "pid": PID, "tid": track, "args": { "sort_index": track },
                });
                [name("thread_name", track, &text), order]
            })
        })
    }
}

fn track(queue: u16, lane: usize) -> u32 {
    u32::from(queue) * LANES + lane as u32
}

/// Every track is one process's.
const PID: u32 = 1;
/// More than a queue has commands.
const LANES: u32 = 1 << 15;
