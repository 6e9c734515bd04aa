//! The meters of a device, each written by its port and read by anybody.

use crate::observed::{About, Observer, Watch};
use crate::{Histogram, Instant, PortSpec};
use nvme_proto::{Cid, Qid, Status};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The meters of all ports of one device. Clones are the same meters.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    /// Locked to open a port and to read, never to count. Lock order: no other is taken under it.
    meters: Arc<Mutex<Vec<Arc<Meter>>>>,
}

/// What a port's meter says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reading {
    /// The queue.
    pub qid: Qid,
    /// Doorbells that told the device about commands.
    pub doorbells: u64,
    /// Passes that found completions.
    pub passes: u64,
    /// The times from a command's doorbell to the pass that saw its completion, of commands that move data or name
    /// blocks.
    pub data: Histogram,
    /// The same of all other commands, such as a flush.
    pub control: Histogram,
    /// Of the commands in `control`, those that came back with an error.
    pub control_failed: u64,
}

/// Written by one port with plain loads and stores, all relaxed: each number stands for itself, and a reader that comes
/// in between finds one of two commands counted.
#[derive(Debug)]
struct Meter {
    qid: Qid,
    doorbells: AtomicU64,
    passes: AtomicU64,
    control_failed: AtomicU64,
    data: Times,
    control: Times,
}

#[derive(Debug)]
struct Times {
    counts: Box<[AtomicU64]>,
    total_ns: AtomicU64,
}

impl Meters {
    /// No meters yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the meter of each port that was ever opened. A queue that was opened again has several readings.
    #[must_use]
    pub fn read(&self) -> Vec<Reading> {
        self.meters().iter().map(|meter| meter.read()).collect()
    }

    fn meters(&self) -> MutexGuard<'_, Vec<Arc<Meter>>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Meters {
    type Watch = PortMeter;

    fn watch(&self, spec: &PortSpec) -> PortMeter {
        let meter = Arc::new(Meter {
            qid: spec.qid,
            doorbells: AtomicU64::new(0),
            passes: AtomicU64::new(0),
            control_failed: AtomicU64::new(0),
            data: Times::new(),
            control: Times::new(),
        });
        self.meters().push(Arc::clone(&meter));
        PortMeter(meter)
    }

    fn remark(&self) -> Option<&'static str> {
        None
    }
}

impl Meter {
    fn read(&self) -> Reading {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reading {
            qid: self.qid,
            doorbells: load(&self.doorbells),
            passes: load(&self.passes),
            data: self.data.read(),
            control: self.control.read(),
            control_failed: load(&self.control_failed),
        }
    }
}

impl Times {
    fn new() -> Self {
        Self {
            counts: (0..Histogram::BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            total_ns: AtomicU64::new(0),
        }
    }

    #[inline]
    fn add(&self, ns: u64) {
        add(&self.counts[Histogram::bucket_of(ns)], 1);
        add(&self.total_ns, ns);
    }

    fn read(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (bucket, count) in self.counts.iter().enumerate() {
            histogram.add_to(bucket, count.load(Ordering::Relaxed), 0);
        }
        histogram.add_to(0, 0, self.total_ns.load(Ordering::Relaxed));
        histogram
    }
}

/// No locked instruction: only one port writes a counter.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Measures one port.
#[derive(Debug)]
pub struct PortMeter(Arc<Meter>);

impl Watch for PortMeter {
    fn wants_time_of_staging(&self) -> bool {
        false
    }

    #[inline]
    fn staged(&mut self, _: Instant, _: Cid, _: &About) {}

    #[inline]
    fn published(&mut self, _: Instant, _: Cid, _: &About) {}

    #[inline]
    fn rung(&mut self, _: usize) {
        add(&self.0.doorbells, 1);
    }

    #[inline]
    fn completed(&mut self, at: Instant, _: Cid, status: Status, about: &About, rung_at: Instant) {
        let ns = at.0.saturating_sub(rung_at.0);
        if about.blocks != 0 {
            self.0.data.add(ns);
        } else {
            self.0.control.add(ns);
            if !status.is_success() {
                add(&self.0.control_failed, 1);
            }
        }
    }

    fn stray(&mut self, _: Instant, _: Cid, _: Status) {}

    #[inline]
    fn passed(&mut self) {
        add(&self.0.passes, 1);
    }
}
