//! An I/O path that somebody watches.

use super::flights::{Flight, Flights};
use super::{About, Watch};
use crate::{Clock, Command, Instant, Port, Reaped, Violation, probes};
use nvme_proto::{Cid, Cqe, Qid, Status};

/// A port that somebody watches. It does what the port inside does.
#[derive(Debug)]
pub struct ObservedPort<P, C, W> {
    port: P,
    observed: Seen<C, W>,
}

/// What is known of the port's commands, and who is told.
#[derive(Debug)]
struct Seen<C, W> {
    clock: C,
    watch: W,
    qid: Qid,
    wants_time_of_staging: bool,
    flights: Flights,
    /// What the device was not told about yet. Room for every command.
    staged: Vec<Cid>,
    /// When the clock was read last.
    latest: Instant,
    /// The time of the pass that is under way, once it found something.
    pass_at: Option<Instant>,
}

impl<P: Port, C: Clock, W: Watch> ObservedPort<P, C, W> {
    pub(super) fn new(port: P, clock: C, watch: W, qid: Qid) -> Self {
        let entries = port.entries();
        let observed = Seen {
            clock,
            qid,
            wants_time_of_staging: watch.wants_time_of_staging(),
            watch,
            flights: Flights::new(entries),
            staged: Vec::with_capacity(entries.into()),
            latest: Instant::default(),
            pass_at: None,
        };
        Self { port, observed }
    }

    pub(super) fn into_parts(self) -> (P, W) {
        (self.port, self.observed.watch)
    }

    pub(super) fn qid(&self) -> Qid {
        self.observed.qid
    }
}

impl<C: Clock, W: Watch> Seen<C, W> {
    #[inline]
    fn staged(&mut self, cid: Cid, command: &Command<'_>) {
        let about = About::of(self.qid, &command.sqe());
        if self.staged.is_empty() && self.wants_time_of_staging {
            self.latest = self.clock.now();
        }
        if self.staged.len() == self.staged.capacity() {
            // Only a caller that breaks its promise stages more than there are entries.
            return;
        }
        self.staged.push(cid);
        self.flights.insert(cid, Flight { about, rung_at: None });
        self.watch.staged(self.latest, cid, &about);
        probes::staged(self.qid, cid, about.opcode, about.nsid.0, about.slba.0, about.blocks);
    }

    /// The device was told at `at` about all that was staged.
    fn rung(&mut self, at: Instant) {
        self.latest = at;
        for &cid in &self.staged {
            if let Some(flight) = self.flights.find(cid) {
                flight.rung_at = Some(at);
                self.watch.published(at, cid, &flight.about);
            }
        }
        self.watch.rung(self.staged.len());
        probes::rung(self.qid, self.staged.len(), at);
        self.staged.clear();
    }

    #[inline]
    fn completed(&mut self, cid: Cid, status: Status) {
        let clock = &self.clock;
        let at = *self.pass_at.get_or_insert_with(|| clock.now());
        self.latest = at;
        match self.flights.take_rung(cid) {
            Some((about, rung_at)) => {
                self.watch.completed(at, cid, status, &about, rung_at);
                probes::completed(self.qid, cid, status, at.since(rung_at), about.opcode, about.slba.0);
            }
            None => {
                self.watch.stray(at, cid, status);
                probes::stray(self.qid, cid, status);
            }
        }
    }

    #[inline]
    fn passed(&mut self) {
        if self.pass_at.take().is_some() {
            self.watch.passed();
        }
    }
}

impl<P: Port, C: Clock, W: Watch> Port for ObservedPort<P, C, W> {
    #[inline]
    fn entries(&self) -> u16 {
        self.port.entries()
    }

    #[inline]
    fn stage(&mut self, cid: Cid, command: &Command<'_>) {
        self.port.stage(cid, command);
        self.observed.staged(cid, command);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        if self.observed.staged.is_empty() {
            return self.port.publish();
        }
        // Before the device can know, so that nothing seems to end before it began.
        let at = self.observed.clock.now();
        let told = self.port.publish();
        if told {
            self.observed.rung(at);
        }
        told
    }

    #[inline]
    fn next(&mut self) -> Option<Cqe> {
        let Some(cqe) = self.port.next() else {
            // Whoever kept what was found for himself does not retire it: the next one is seen at another time.
            self.observed.passed();
            return None;
        };
        self.observed.completed(cqe.cid(), cqe.status());
        Some(cqe)
    }

    #[inline]
    fn retire(&mut self) -> Result<(), Violation> {
        self.observed.passed();
        self.port.retire()
    }

    #[inline]
    fn one<E: From<Violation>>(&mut self, each: impl FnOnce(Reaped<'_>) -> Result<(), E>) -> Result<bool, E> {
        let observed = &mut self.observed;
        let found = self.port.one(|reaped| {
            observed.completed(reaped.cid(), reaped.status());
            each(reaped)
        });
        self.observed.passed();
        found
    }

    #[inline]
    fn pass<E: From<Violation>>(
        &mut self,
        mut each: impl FnMut(Reaped<'_>) -> Result<(), E>,
    ) -> (usize, Result<(), E>) {
        let observed = &mut self.observed;
        let passed = self.port.pass(|reaped| {
            observed.completed(reaped.cid(), reaped.status());
            each(reaped)
        });
        self.observed.passed();
        passed
    }
}
