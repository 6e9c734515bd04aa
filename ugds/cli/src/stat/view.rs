//! What happened in one interval, as a table or as JSON.

use serde::Serialize;
use ugds::published::Entry;
use ugds::{ClassStats, Histogram, QueueStats, Stats};

use super::answer::Answer;
use crate::output::LINE_CHARACTERS;
use crate::table::Table;
use crate::units;

/// A device in one interval. `--json` prints it.
#[derive(Serialize)]
pub(super) struct View<'a> {
    pid: u32,
    number: u32,
    name: &'a str,
    device: &'a str,
    /// The length of the interval.
    seconds: f64,
    queues: Vec<Queue>,
    classes: Vec<Class>,
}

#[derive(Serialize)]
struct Queue {
    qid: u16,
    class: &'static str,
    #[serde(flatten)]
    rates: Rates,
    doorbells_per_s: f64,
    /// Not measured: nothing.
    passes_per_s: Option<f64>,
    /// Since the device was opened.
    completed_total: u64,
    bytes_total: u64,
    failed_total: u64,
}

#[derive(Serialize)]
struct Class {
    class: &'static str,
    #[serde(flatten)]
    rates: Rates,
}

#[derive(Serialize)]
struct Rates {
    iops: f64,
    bytes_per_s: f64,
    failed: u64,
    outstanding: u32,
    /// Not measured, or nothing completed: nothing.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

impl<'a> View<'a> {
    /// What happened between two answers of a device.
    pub(super) fn between(entry: &Entry, then: &Answer, now: &'a Answer) -> Self {
        let stats = now.stats.since(&then.stats);
        let seconds = stats.elapsed.as_secs_f64();
        Self {
            pid: entry.pid,
            number: entry.number,
            name: &now.name,
            device: &now.device,
            seconds,
            queues: stats.queues.iter().map(|queue| Queue::of(queue, &now.stats, seconds)).collect(),
            classes: stats.classes().iter().map(|class| Class::of(class, seconds)).collect(),
        }
    }

    /// A table for people.
    pub(super) fn text(&self) -> String {
        let title = format!("pid {} device {}: {}, {}", self.pid, self.number, self.name, self.device);
        let mut text: String = title.chars().take(LINE_CHARACTERS).collect();
        text.push('\n');
        let head = ["queue", "IOPS", "bytes/s", "errors", "bells/s", "passes/s", "out", "p50", "p99"];
        let mut table = Table::new(&head);
        let busy = |queue: &&Queue| queue.completed_total != 0 || queue.rates.outstanding != 0;
        for queue in self.queues.iter().filter(busy) {
            let passes = queue.passes_per_s.map_or_else(nothing, units::count);
            let name = format!("{} {}", queue.qid, queue.class);
            table.row(queue.rates.cells(name, units::count(queue.doorbells_per_s), passes));
        }
        for class in &self.classes {
            table.row(class.rates.cells(class.class.into(), nothing(), nothing()));
        }
        text += &table.render();
        let idle = self.queues.len() - self.queues.iter().filter(busy).count();
        if idle != 0 {
            text += &format!("{idle} queues had nothing to do since the device was opened\n");
        }
        text
    }
}

impl Queue {
    fn of(queue: &QueueStats, total: &Stats, seconds: f64) -> Self {
        let whole = total.queues.iter().find(|whole| whole.qid == queue.qid).unwrap_or(queue);
        let latency = queue.measured.as_ref().map(ugds::Measured::all);
        Self {
            qid: queue.qid.0,
            class: queue.class.name(),
            rates: Rates {
                iops: per_second(queue.completed, seconds),
                bytes_per_s: per_second(queue.bytes, seconds),
                failed: queue.failed,
                outstanding: queue.outstanding,
                p50_us: quantile_us(latency.as_ref(), 0.5),
                p99_us: quantile_us(latency.as_ref(), 0.99),
            },
            doorbells_per_s: per_second(queue.doorbells, seconds),
            passes_per_s: queue.measured.as_ref().map(|measured| per_second(measured.passes, seconds)),
            completed_total: whole.completed,
            bytes_total: whole.bytes,
            failed_total: whole.failed,
        }
    }
}

impl Class {
    fn of(class: &ClassStats, seconds: f64) -> Self {
        Self {
            class: class.class.name(),
            rates: Rates {
                iops: per_second(class.completed, seconds),
                bytes_per_s: per_second(class.bytes, seconds),
                failed: class.failed,
                outstanding: class.outstanding,
                p50_us: quantile_us(class.latency.as_ref(), 0.5),
                p99_us: quantile_us(class.latency.as_ref(), 0.99),
            },
        }
    }
}

impl Rates {
    fn cells(&self, name: String, bells: String, passes: String) -> Vec<String> {
        let time = |us: Option<f64>| us.map_or_else(nothing, units::time);
        vec![
            name,
            units::count(self.iops),
            units::count(self.bytes_per_s),
            units::count(self.failed as f64),
            bells,
            passes,
            units::count(self.outstanding.into()),
            time(self.p50_us),
            time(self.p99_us),
        ]
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn quantile_us(times: Option<&Histogram>, part: f64) -> Option<f64> {
    let times = times.filter(|times| times.count() != 0)?;
    Some(times.quantile(part).as_nanos() as f64 / 1e3)
}

fn nothing() -> String {
    "-".into()
}
