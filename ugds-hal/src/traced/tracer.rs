//! Whoever gives each port its ring, and reads them.

use super::event::{Event, Step};
use super::ring::{Pen, Ring};
use crate::observed::{About, Observer, Watch};
use crate::{Instant, PortSpec};
use nvme_proto::{Cid, Qid, Status};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The record of all ports of one device. Clones are the same record; it outlives the device.
#[derive(Clone)]
pub struct Tracer {
    events: usize,
    /// Locked to open a port and to read, never to write. Lock order: no other is taken under it.
    rings: Arc<Mutex<Rings>>,
}

/// The rings of ports, by their queues.
type Rings = Vec<(Qid, Arc<Ring>)>;

/// Events, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// The events of all ports, by their times. Those of one port are in the order in which they happened.
    pub events: Vec<Event>,
    /// Events that had to make room before anybody read them.
    pub dropped: u64,
}

impl Tracer {
    /// What a ring holds unless more or less is wanted: 1365 commands, and 160 KiB.
    pub const DEFAULT_EVENTS: usize = 4096;

    /// A record that holds the last `events` events of each port, rounded up to a power of two. A command makes three.
    #[must_use]
    pub fn new(events: usize) -> Self {
        Self { events: events.clamp(1, EVENTS_MAX), rings: Arc::default() }
    }

    /// Reads what is there, without taking it away. Events may be written meanwhile; they are not waited for.
    #[must_use]
    pub fn snapshot(&self) -> Trace {
        self.read(Ring::snapshot)
    }

    /// Reads what is there and takes it away, so that the next call brings what came later.
    #[must_use]
    pub fn drain(&self) -> Trace {
        self.read(Ring::drain)
    }

    fn read(&self, read: impl Fn(&Ring) -> super::ring::Read) -> Trace {
        let mut trace = Trace::default();
        for (qid, ring) in &*self.rings() {
            let read = read(ring);
            trace.dropped += read.dropped;
            trace.events.extend(read.events.into_iter().map(|words| Event::of_words(*qid, words)));
        }
        // Stable, so that events of one port with the same time stay in order.
        trace.events.sort_by_key(|event| event.at);
        trace
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Tracer {
    type Watch = PortTrace;

    fn watch(&self, spec: &PortSpec) -> PortTrace {
        let mut rings = self.rings();
        // The ring of a port of that name that is closed goes on. One that is quarantined keeps its own.
        let free = rings.iter().filter(|(qid, _)| *qid == spec.qid).find_map(|(_, ring)| ring.pen());
        let pen = free.or_else(|| {
            let ring = Arc::new(Ring::new(self.events));
            let pen = ring.pen();
            rings.push((spec.qid, ring));
            pen
        });
        PortTrace { qid: spec.qid, pen }
    }

    fn remark(&self) -> Option<&'static str> {
        Some("traced")
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Writes down what happens at one port.
#[derive(Debug)]
pub struct PortTrace {
    qid: Qid,
    /// A new ring's is always there.
    pen: Option<Pen>,
}

impl PortTrace {
    #[inline]
    fn write(&mut self, at: Instant, cid: Cid, about: &About, step: Step) {
        if let Some(pen) = &mut self.pen {
            pen.write(Event::new(at, self.qid, cid, *about, step).to_words());
        }
    }
}

impl Watch for PortTrace {
    fn wants_time_of_staging(&self) -> bool {
        true
    }

    #[inline]
    fn staged(&mut self, at: Instant, cid: Cid, about: &About) {
        self.write(at, cid, about, Step::Staged);
    }

    #[inline]
    fn published(&mut self, at: Instant, cid: Cid, about: &About) {
        self.write(at, cid, about, Step::Published);
    }

    fn rung(&mut self, _: usize) {}

    #[inline]
    fn completed(&mut self, at: Instant, cid: Cid, status: Status, about: &About, _: Instant) {
        self.write(at, cid, about, Step::Completed(status));
    }

    fn stray(&mut self, at: Instant, cid: Cid, status: Status) {
        self.write(at, cid, &About::default(), Step::Stray(status));
    }

    fn passed(&mut self) {}
}

/// 16 million events are 640 MiB for each port.
const EVENTS_MAX: usize = 1 << 24;
