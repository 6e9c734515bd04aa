//! Counters as a table for people, no wider than a terminal.

use super::Stats;
use std::fmt;
use std::time::Duration;
use ugds_hal::Histogram;

/// The columns, the widest cell that each can have, and 76 characters together.
const HEAD: [(&str, usize); 9] = [
    ("queue", 7),
    ("commands", 8),
    ("bytes", 7),
    ("errors", 6),
    ("bells", 6),
    ("passes", 6),
    ("out", 5),
    ("p50", 6),
    ("p99", 6),
];

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, &HEAD.map(|(name, _)| name.to_owned()))?;
        for queue in &self.queues {
            let measured = queue.measured.as_ref();
            let [p50, p99] = percentiles(measured.map(super::Measured::all).as_ref());
            row(
                f,
                &[
                    queue.qid.to_string(),
                    count(queue.completed),
                    count(queue.bytes),
                    count(queue.failed),
                    count(queue.doorbells),
                    measured.map_or_else(nothing, |measured| count(measured.passes)),
                    count(queue.outstanding.into()),
                    p50,
                    p99,
                ],
            )?;
        }
        for class in self.classes() {
            let [p50, p99] = percentiles(class.latency.as_ref());
            let (name, outstanding) = (class.class.name().to_owned(), count(class.outstanding.into()));
            let cells = [count(class.completed), count(class.bytes), count(class.failed)];
            let [completed, bytes, failed] = cells;
            row(f, &[name, completed, bytes, failed, nothing(), nothing(), outstanding, p50, p99])?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, cells: &[String; HEAD.len()]) -> fmt::Result {
    for (index, (cell, (_, width))) in cells.iter().zip(HEAD).enumerate() {
        match index {
            0 => write!(f, "{cell:<width$}")?,
            _ => write!(f, "  {cell:>width$}")?,
        }
    }
    writeln!(f)
}

fn nothing() -> String {
    "-".into()
}

fn percentiles(times: Option<&Histogram>) -> [String; 2] {
    match times.filter(|times| times.count() != 0) {
        Some(times) => [0.5, 0.99].map(|part| time(times.quantile(part))),
        None => [nothing(), nothing()],
    }
}

/// A number with three digits and a power of 1000.
fn count(number: u64) -> String {
    let mut scaled = number as f64;
    for unit in ["", "k", "M", "G", "T", "P"] {
        if scaled < 999.5 {
            return if unit.is_empty() { number.to_string() } else { digits(scaled) + unit };
        }
        scaled /= 1000.0;
    }
    digits(scaled) + "E"
}

fn time(time: Duration) -> String {
    let mut scaled = time.as_nanos() as f64;
    for unit in ["ns", "us", "ms"] {
        if scaled < 999.5 {
            return digits(scaled) + unit;
        }
        scaled /= 1000.0;
    }
    digits(scaled) + "s"
}

fn digits(number: f64) -> String {
    let decimals = match number {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::super::{Measured, QueueClass, QueueStats};
    use super::*;
    use nvme_proto::Qid;

    #[test]
    fn cells_are_narrow_whatever_is_in_them() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1.00k"), (u64::MAX, "18.4E"), (123_456, "123k")]
        {
            assert_eq!(count(number), text);
        }
        for (ns, text) in [(12, "12.0ns"), (999_600, "1.00ms"), (68_000_000_000, "68.0s")] {
            assert_eq!(time(Duration::from_nanos(ns)), text);
        }
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let mut times = Histogram::new();
        times.add(Duration::from_nanos(999_400), u64::MAX);
        let queue = |qid, class| QueueStats {
            qid: Qid(qid),
            class,
            submitted: u64::MAX,
            completed: u64::MAX,
            failed: u64::MAX,
            bytes: u64::MAX,
            doorbells: u64::MAX,
            outstanding: 4095,
            measured: Some(Measured {
                passes: u64::MAX,
                data: times.clone(),
                control: Histogram::new(),
                control_failed: 0,
            }),
        };
        let queues = vec![queue(1, QueueClass::Sync), queue(65534, QueueClass::Batch)];
        let text = Stats { elapsed: Duration::from_secs(1), queues }.to_string();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let columns = |line: &str| line.split_whitespace().count();
        assert!(text.lines().all(|line| columns(line) == HEAD.len()), "{text}");
    }
}
