//! What a device says of itself, read with distrust: whoever answers may be any program of this user.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use ugds::nvme::Qid;
use ugds::published::{self, Entry, ReadError};
use ugds::{Histogram, Measured, QueueClass, QueueStats, Stats};

/// A device, at one moment.
pub(super) struct Answer {
    pub(super) name: String,
    pub(super) device: String,
    pub(super) stats: Stats,
}

/// Asks a device. `None` when its process is gone.
///
/// # Errors
/// When it can't be asked, or does not answer as a device does.
pub(super) fn ask(entry: &Entry) -> anyhow::Result<Option<Answer>> {
    let line = match published::read(entry) {
        // The process may have ended in the middle of it. Then nobody is there at the second look.
        Err(ReadError::NoLine { .. } | ReadError::System { .. }) => published::read(entry)?,
        other => other?,
    };
    let Some(line) = line else { return Ok(None) };
    let answer = parse(&line).with_context(|| {
        format!(
            "{} does not answer as a device of uGDS does; another program may use it",
            entry.path.display()
        )
    })?;
    Ok(Some(answer))
}

fn parse(line: &str) -> anyhow::Result<Answer> {
    // First, since another version may have other fields.
    let Version { ugds } = serde_json::from_str(line)?;
    if ugds != VERSION {
        bail!("it speaks version {ugds} of the protocol; version {VERSION} is understood");
    }
    let wire: Wire = serde_json::from_str(line)?;
    let mut stats = Stats::default();
    stats.elapsed = Duration::from_nanos(wire.stats.elapsed_ns);
    stats.queues = wire.stats.queues.into_iter().map(queue).collect::<Result<_, _>>()?;
    Ok(Answer { name: printable(&wire.name), device: printable(&wire.device), stats })
}

#[derive(Deserialize)]
struct Version {
    ugds: u64,
}

#[derive(Deserialize)]
struct Wire {
    name: String,
    device: String,
    stats: WireStats,
}

#[derive(Deserialize)]
struct WireStats {
    elapsed_ns: u64,
    queues: Vec<WireQueue>,
}

#[derive(Deserialize)]
#[serde(expecting = "a queue")]
struct WireQueue {
    qid: u16,
    class: String,
    submitted: u64,
    completed: u64,
    failed: u64,
    bytes: u64,
    doorbells: u64,
    outstanding: u32,
    measured: Option<WireMeasured>,
}

#[derive(Deserialize)]
struct WireMeasured {
    passes: u64,
    control_failed: u64,
    data: WireHistogram,
    control: WireHistogram,
}

#[derive(Deserialize)]
struct WireHistogram {
    total_ns: u64,
    buckets: Vec<(usize, u64)>,
}

fn queue(wire: WireQueue) -> anyhow::Result<QueueStats> {
    let mut queue = QueueStats::default();
    queue.qid = Qid(wire.qid);
    let known = [QueueClass::Sync, QueueClass::Batch, QueueClass::Shared, QueueClass::Control];
    let class = known.into_iter().find(|class| class.name() == wire.class);
    queue.class = class.ok_or_else(|| {
        let known = known.map(QueueClass::name).join(", ");
        anyhow!("queue {} has the class `{}`; known are {known}", wire.qid, printable(&wire.class))
    })?;
    queue.submitted = wire.submitted;
    queue.completed = wire.completed;
    queue.failed = wire.failed;
    queue.bytes = wire.bytes;
    queue.doorbells = wire.doorbells;
    queue.outstanding = wire.outstanding;
    queue.measured = wire.measured.map(measured).transpose()?;
    Ok(queue)
}

fn measured(wire: WireMeasured) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    measured.passes = wire.passes;
    measured.control_failed = wire.control_failed;
    measured.data = histogram(wire.data)?;
    measured.control = histogram(wire.control)?;
    Ok(measured)
}

fn histogram(wire: WireHistogram) -> anyhow::Result<Histogram> {
    let mut histogram = Histogram::new();
    for (bucket, count) in wire.buckets {
        if bucket >= Histogram::BUCKETS {
            bail!("a histogram has bucket {bucket}; there are {}", Histogram::BUCKETS);
        }
        histogram.add_to(bucket, count, 0);
    }
    histogram.add_to(0, 0, wire.total_ns);
    Ok(histogram)
}

/// A text that does nothing to a terminal, and is not endless.
fn printable(text: &str) -> String {
    text.chars().take(TEXT_CHARACTERS).map(|c| if c.is_control() { '?' } else { c }).collect()
}

const VERSION: u64 = 1;
const TEXT_CHARACTERS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = r#"{"qid":1,"class":"sync","submitted":3,"completed":2,"failed":1,"bytes":4096,"doorbells":2,
        "outstanding":1,"measured":{"passes":2,"control_failed":0,"data":{"total_ns":9,"buckets":[[4,1],[5,1]]},
        "control":{"total_ns":0,"buckets":[]}}}"#;

    fn answer(version: u64, queues: &str) -> String {
        format!(
            r#"{{"ugds":{version},"pid":1,"name":"n\u001b[2J","device":"d","stats":{{"elapsed_ns":5,"queues":[{queues}]}}}}"#
        )
    }

    #[test]
    fn what_a_device_says_is_understood() {
        let answer = parse(&answer(1, QUEUE)).unwrap();
        assert_eq!((&*answer.name, &*answer.device), ("n?[2J", "d"));
        let queue = &answer.stats.queues[0];
        assert_eq!((queue.qid, queue.class, queue.outstanding), (Qid(1), QueueClass::Sync, 1));
        assert_eq!(queue.measured.as_ref().unwrap().data.count(), 2);
    }

    #[test]
    fn what_no_device_says_is_told() {
        let with = |from: &str, to: &str| answer(1, &QUEUE.replace(from, to));
        for (line, part) in [
            (String::new(), "EOF"),
            ("[]".into(), "expected"),
            ("{".repeat(1000), "line 1"),
            ("[".repeat(100_000), "line 1"),
            (answer(2, ""), "version 2"),
            (answer(1, "7"), "queue"),
            (with("\"sync\"", "\"\u{7}fast\""), "control character"),
            (with("\"sync\"", "\"fast\""), "class `fast`"),
            (with("[4,1]", "[100000,1]"), "bucket 100000"),
            (with("\"qid\":1", "\"qid\":70000"), "u16"),
            (with("4096", "-1"), "u64"),
            (with("4096", "1e99"), "u64"),
        ] {
            let Err(error) = parse(&line) else { panic!("accepted: {line:.200}") };
            let text = format!("{error:#}");
            assert!(text.contains(part), "{line:.200}: {text}");
        }
    }

    #[test]
    fn the_largest_numbers_are_no_panic() {
        let most = QUEUE
            .replace("4096", &u64::MAX.to_string())
            .replace("\"completed\":2", "\"completed\":18446744073709551615");
        let most = most
            .replace("[4,1]", "[4,18446744073709551615]")
            .replace("\"failed\":1", "\"failed\":18446744073709551615");
        let stats = parse(&answer(1, &[&*most, &most].join(","))).unwrap().stats;
        assert_eq!(stats.classes().len(), 1);
        assert!(!stats.to_string().is_empty());
        let _ = stats.since(&stats);
    }
}
