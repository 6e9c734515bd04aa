//! What went through a device.

mod class;
mod json;
mod table;

pub use class::{ClassStats, QueueClass};

use nvme_proto::Qid;
use std::time::Duration;
use ugds_hal::Histogram;
use ugds_hal::metered::Reading;
use ugds_queue::Counters;

pub(crate) use json::text as json_text;

/// What a device counts and measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statistics {
    /// What the queues count anyway, at no cost.
    #[default]
    Counters,
    /// Passes and latencies too: from the doorbell that told the device about a command to the pass that saw its
    /// completion. The clock is read once for each of these, and each command costs some hundred instructions more, on
    /// ports of another kind than those of a device without.
    Latencies,
}

/// Counters of a device since it was opened, or [`since`](Self::since) an earlier state.
///
/// Shown, it is a table with a row for each queue and each class.
///
/// # Examples
///
/// ```
/// use ugds::{Device, Options, Statistics, nvme::Lba};
///
/// let mut options = Options::default();
/// options.statistics = Statistics::Latencies;
/// let device = Device::open_with("emu:?size=16M", options)?;
/// let region = device.alloc(4096)?;
/// let before = device.stats();
/// device.namespace()?.read(&region, 0..4096, Lba(0))?;
/// let stats = device.stats().since(&before);
/// assert_eq!((stats.total(|queue| queue.completed), stats.total(|queue| queue.bytes)), (1, 4096));
/// println!("{stats}");
/// # Ok::<(), ugds::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The time in which all this happened, by the device's clock.
    pub elapsed: Duration,
    /// One entry for each open I/O queue.
    pub queues: Vec<QueueStats>,
}

/// Counters of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue.
    pub qid: Qid,
    /// What it is for.
    pub class: QueueClass,
    /// Commands given to the device.
    pub submitted: u64,
    /// Commands that came back.
    pub completed: u64,
    /// Commands that came back with an error.
    pub failed: u64,
    /// Bytes moved by commands that came back without one.
    pub bytes: u64,
    /// Times the submission doorbell was rung.
    pub doorbells: u64,
    /// Commands outstanding now.
    pub outstanding: u32,
    /// What is measured with [`Statistics::Latencies`] only.
    pub measured: Option<Measured>,
}

/// Passes and latencies of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measured {
    /// Passes over the completion queue that found something.
    pub passes: u64,
    /// Latencies of reads and writes.
    pub data: Histogram,
    /// Latencies of flushes and the like, which name no blocks.
    pub control: Histogram,
    /// Of these, those that came back with an error.
    pub control_failed: u64,
}

impl Stats {
    /// The sum of one counter over all queues, such as `stats.total(|q| q.bytes)`.
    #[must_use]
    pub fn total(&self, counter: impl Fn(&QueueStats) -> u64) -> u64 {
        self.queues.iter().map(counter).sum()
    }

    /// What happened since `earlier`, which is an older state of the same device. What is outstanding is so now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let queue = |now: &QueueStats| {
            let then = earlier.queues.iter().find(|then| then.qid == now.qid);
            then.map_or_else(|| now.clone(), |then| now.since(then))
        };
        Self {
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            queues: self.queues.iter().map(queue).collect(),
        }
    }

    /// The same as JSON on one line. Histograms are lists of `[bucket, count]`; [`Histogram::start_of`] says which times
    /// a bucket has.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::of(self)
    }

    /// Adds what the meters say.
    pub(crate) fn measure(&mut self, readings: &[Reading]) {
        for queue in &mut self.queues {
            // The last, should a queue have been opened more than once.
            let reading = readings.iter().rev().find(|reading| reading.qid == queue.qid);
            queue.measured = reading.map(|reading| Measured {
                passes: reading.passes,
                data: reading.data.clone(),
                control: reading.control.clone(),
                control_failed: reading.control_failed,
            });
        }
    }
}

impl QueueStats {
    pub(crate) fn new(
        class: QueueClass,
        (qid, counters, bytes, outstanding): (Qid, Counters, u64, u32),
    ) -> Self {
        Self {
            qid,
            class,
            submitted: counters.submitted,
            completed: counters.completed,
            failed: counters.failed,
            bytes,
            doorbells: counters.rings,
            outstanding,
            measured: None,
        }
    }

    fn since(&self, then: &Self) -> Self {
        let measured = self.measured.as_ref().map(|now| match &then.measured {
            Some(then) => now.since(then),
            None => now.clone(),
        });
        Self {
            submitted: self.submitted.saturating_sub(then.submitted),
            completed: self.completed.saturating_sub(then.completed),
            failed: self.failed.saturating_sub(then.failed),
            bytes: self.bytes.saturating_sub(then.bytes),
            doorbells: self.doorbells.saturating_sub(then.doorbells),
            measured,
            ..*self
        }
    }
}

impl Measured {
    /// The latencies of all commands.
    #[must_use]
    pub fn all(&self) -> Histogram {
        let mut all = self.data.clone();
        all.merge(&self.control);
        all
    }

    fn since(&self, then: &Self) -> Self {
        Self {
            passes: self.passes.saturating_sub(then.passes),
            data: self.data.since(&then.data),
            control: self.control.since(&then.control),
            control_failed: self.control_failed.saturating_sub(then.control_failed),
        }
    }
}
