//! What happened to a device, for the report that is made when it is given up.

use nvme_proto::{Cid, Qid, Status};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use ugds_hal::{Instant, Violation, probes};
use ugds_queue::Wedge;

/// Something that happened, rarely enough to be written down: nothing here is recorded per command that succeeds.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Opened { queues: usize, entries: u16 },
    CommandFailed { qid: Qid, status: Status },
    CommandLate { qid: Qid, cid: Cid },
    AbortAnswered { qid: Qid, cid: Cid, aborted: bool },
    AbortFailed { qid: Qid, cid: Cid, reason: String },
    GivenUp(Wedge),
    Stopped,
    NotStopped(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { queues, entries } => write!(f, "opened with {queues} queues of {entries} entries"),
            Self::CommandFailed { qid, status } => write!(f, "queue {qid}: a command failed: {status}"),
            Self::CommandLate { qid, cid } => write!(f, "queue {qid}: command {cid} is late"),
            Self::AbortAnswered { qid, cid, aborted: true } => {
                write!(f, "queue {qid}: the controller aborts command {cid}")
            }
            Self::AbortAnswered { qid, cid, aborted: false } => {
                write!(f, "queue {qid}: the controller does not abort command {cid}")
            }
            Self::AbortFailed { qid, cid, reason } => {
                write!(f, "queue {qid}: command {cid} can't be aborted: {reason}")
            }
            Self::GivenUp(wedge) => write!(f, "given up: {wedge}"),
            Self::Stopped => write!(f, "stopped, with proof: everything was reclaimed"),
            Self::NotStopped(reason) => {
                write!(f, "not proved to have stopped, so everything stays reserved: {reason}")
            }
        }
    }
}

/// Tells whoever watches from outside that a device was given up.
#[cold]
pub(super) fn probe(reason: &Wedge) {
    let (number, qid) = match reason {
        Wedge::UnknownCid { qid, .. } => (1, *qid),
        Wedge::Protocol(Violation::SubmissionHead { qid, .. }) => (2, *qid),
        Wedge::Timeout { qid, .. } => (3, *qid),
        Wedge::ControllerFatal => (4, Qid::ADMIN),
        Wedge::Forced => (5, Qid::ADMIN),
        Wedge::SubsystemReset => (6, Qid::ADMIN),
        Wedge::Gone => (7, Qid::ADMIN),
        _ => (0, Qid::ADMIN),
    };
    probes::wedged(qid, number);
}

/// The last events, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Record {
    events: Mutex<VecDeque<(Instant, Event)>>,
}

impl Record {
    #[cold]
    pub(crate) fn note(&self, at: Instant, event: Event) {
        let mut events = self.lock();
        if events.len() == CAPACITY {
            events.pop_front();
        }
        events.push_back((at, event));
    }

    /// One line an event, with its time in seconds.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(at, event): &(Instant, Event)| format!("{:12.6} s  {event}", at.0 as f64 / 1e9);
        self.lock().iter().map(line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, Event)>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CAPACITY: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_make_room() {
        let record = Record::default();
        for n in 0..300u64 {
            record.note(Instant(n * 1_000_000_000), Event::CommandLate { qid: Qid(1), cid: Cid(n as u16) });
        }
        let lines = record.lines();
        assert_eq!(lines.len(), CAPACITY);
        assert!(lines[0].contains("44.000000 s") && lines[0].contains("0x002c"), "{}", lines[0]);
        assert!(lines[255].contains("299.000000 s"));
    }
}
