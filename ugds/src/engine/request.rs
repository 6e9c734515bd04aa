//! One blocking request: many commands in flight, one answer.

use super::channel::{Claim, Refused};
use super::core::Core;
use super::record::Event;
use super::wait::{Watch, look, wait};
use crate::Error;
use crate::error::{IoFailure, Operation};
use nvme_proto::{Lba, Status};
use std::iter::Peekable;
use std::sync::Arc;
use ugds_hal::{Backend, Clock, Direction as Access};
use ugds_mem::{Io, Mapped, MemError};
use ugds_queue::controller::Namespace;
use ugds_sched::{Limits, Piece, Split};

/// Which way the data goes, from the caller's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A validated request: the bytes of `mapped` from `offset` on, and as many blocks from `lba` on.
pub(crate) struct Request<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) limits: &'a Limits,
    pub(crate) mapped: &'a Arc<Mapped>,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) lba: Lba,
    pub(crate) direction: Direction,
}

impl<'a> Request<'a> {
    /// Carries the request out and returns when none of its commands is outstanding any more.
    pub(crate) fn run<B: Backend>(&self, core: &Core<B>) -> Result<(), Error> {
        core.begin()?;
        let mut flight = Flight::new(core);
        let launched = self.launch(core, &mut flight);
        // Whatever happened, what is in flight is waited for: it moves the caller's data.
        let landed = flight.land_all();
        launched.and(landed)?;
        match flight.failure {
            None => Ok(()),
            Some((piece, status)) => Err(self.failed(piece, status)),
        }
    }

    /// Gives all pieces to the queues, waiting for earlier ones where there is no room.
    fn launch<B: Backend>(&self, core: &Core<B>, flight: &mut Flight<'_, B>) -> Result<(), Error> {
        let blocks = self.len_bytes >> self.limits.block_shift();
        let mut pieces = self.limits.split(self.lba, blocks).peekable();
        let mut full_turns = 0u32;
        while pieces.peek().is_some() && flight.failure.is_none() {
            if !flight.room() {
                flight.land_one()?;
            }
            let queue = core.place();
            match self.burst(core, queue, &mut pieces, flight)? {
                Turn::Taken => full_turns = 0,
                Turn::QueueFull => {
                    flight.make_room(queue, full_turns)?;
                    full_turns = full_turns.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    /// Gives a few pieces to one queue.
    fn burst<B: Backend>(
        &self,
        core: &Core<B>,
        queue: usize,
        pieces: &mut Peekable<Split>,
        flight: &mut Flight<'_, B>,
    ) -> Result<Turn, Error> {
        let mut burst = core.channel(queue).burst();
        for _ in 0..BURST {
            let Some(&piece) = pieces.peek().filter(|_| flight.room()) else { break };
            match burst.stage(&self.command(&piece)?) {
                Ok(claim) => {
                    flight.launch(Flying { queue, claim, piece });
                    pieces.next();
                }
                Err(Refused::Full) => return Ok(Turn::QueueFull),
                Err(Refused::Closed) => return Err(core.closed()),
                Err(Refused::Submit(error)) => return Err(error.into()),
            }
        }
        Ok(Turn::Taken)
    }

    fn command(&self, piece: &Piece) -> Result<Io<'a>, MemError> {
        let access = match self.direction {
            Direction::Read => Access::DeviceWrites,
            Direction::Write => Access::DeviceReads,
        };
        let transfer = self.mapped.transfer(self.offset + piece.offset_bytes, piece.len_bytes, access)?;
        let (nsid, format) = (self.namespace.nsid(), self.namespace.format());
        match self.direction {
            Direction::Read => Io::read(nsid, format, piece.lba, transfer),
            Direction::Write => Io::write(nsid, format, piece.lba, transfer),
        }
    }

    #[cold]
    fn failed(&self, piece: Piece, status: Status) -> Error {
        Error::Io(IoFailure {
            operation: match self.direction {
                Direction::Read => Operation::Read,
                Direction::Write => Operation::Write,
            },
            nsid: self.namespace.nsid(),
            lba: piece.lba,
            len_bytes: piece.len_bytes,
            done_bytes: piece.offset_bytes,
            status,
        })
    }
}

/// How a queue took its turn.
enum Turn {
    Taken,
    QueueFull,
}

/// A command in flight.
#[derive(Clone, Copy)]
struct Flying {
    queue: usize,
    claim: Claim,
    piece: Piece,
}

/// The commands of one request that are outstanding, oldest first.
struct Flight<'c, B: Backend> {
    core: &'c Core<B>,
    ring: [Option<Flying>; WINDOW],
    first: usize,
    count: usize,
    /// Kept from a command that was late: those behind it are late, too.
    watch: Option<Watch>,
    /// The failure that lies nearest to the start of the request.
    failure: Option<(Piece, Status)>,
}

impl<'c, B: Backend> Flight<'c, B> {
    fn new(core: &'c Core<B>) -> Self {
        Self { core, ring: [None; WINDOW], first: 0, count: 0, watch: None, failure: None }
    }

    fn room(&self) -> bool {
        self.count < WINDOW
    }

    fn launch(&mut self, flying: Flying) {
        self.ring[(self.first + self.count) % WINDOW] = Some(flying);
        self.count += 1;
    }

    /// Waits for the oldest command.
    fn land_one(&mut self) -> Result<(), Error> {
        let Some(flying) = self.ring[self.first].take() else { return Ok(()) };
        self.first = (self.first + 1) % WINDOW;
        self.count -= 1;
        let status = wait(self.core, flying.queue, flying.claim, &mut self.watch)?;
        let earlier = |(piece, _): (Piece, Status)| piece.offset_bytes < flying.piece.offset_bytes;
        if !status.is_success() {
            self.core.note(Event::CommandFailed { qid: self.core.qid(flying.queue), status });
            if !self.failure.is_some_and(earlier) {
                self.failure = Some((flying.piece, status));
            }
        }
        Ok(())
    }

    /// Waits for all of them, and returns the first error that is none of a command's own.
    fn land_all(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while self.count != 0 {
            result = result.and(self.land_one());
        }
        result
    }

    /// Waits until queue `queue`, which was full, may have a slot again. `turns` counts the full queues in a row.
    fn make_room(&mut self, queue: usize, turns: u32) -> Result<(), Error> {
        if self.count != 0 {
            return self.land_one();
        }
        // The slots are other callers'. They look too, so the longer this takes, the more they need the processor.
        look(self.core, queue)?;
        self.core.clock().relax(turns.saturating_mul(FULL_TURN_WEIGHT));
        Ok(())
    }
}

/// Commands of one request that may be in flight.
const WINDOW: usize = 64;
/// Commands that go to one queue before the next queue's turn.
const BURST: usize = 8;
/// A full queue is worth more patience than a look that found nothing.
const FULL_TURN_WEIGHT: u32 = 16;
