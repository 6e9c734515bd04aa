//! One blocking request: many commands in flight, one answer.

use super::channel::{Claim, Look, Refused};
use super::core::Core;
use super::expire::expire;
use super::record::Event;
use crate::Error;
use crate::error::{IoFailure, Operation};
use nvme_proto::{Lba, Status};
use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;
use ugds_hal::{Backend, Clock, Direction as Access, Instant};
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

/// Makes one pass over a queue. What ends a queue ends the device, which is stopped at once.
pub(super) fn look<B: Backend>(core: &Core<B>, queue: usize) -> Result<Look, Error> {
    match core.channel(queue).look() {
        Ok(Look::Closed) => Err(core.closed()),
        Ok(look) => Ok(look),
        Err(wedge) => {
            let wedge = core.give_up(wedge);
            core.stop();
            Err(wedge.into())
        }
    }
}

/// Waits for one command on `queue`, reaping for everybody meanwhile. `watch` is the watch of a command before that was
/// late; it is left behind by one that is, and taken away by one that is not.
pub(super) fn wait<B: Backend>(
    core: &Core<B>,
    queue: usize,
    claim: Claim,
    watch: &mut Option<Watch>,
) -> Result<Status, Error> {
    let channel = core.channel(queue);
    if let Some(status) = channel.take(claim) {
        return Ok(status);
    }
    let clock = core.clock();
    let (mut looks, mut fruitless) = (0u32, 0u32);
    loop {
        let looked = look(core, queue);
        // Another thread's pass may have brought it before the queue broke.
        if let Some(status) = channel.take(claim) {
            *watch = None;
            return Ok(status);
        }
        // What ended was somebody else's; the next one may be ours.
        fruitless = if matches!(looked?, Look::Ended(1..)) { 0 } else { fruitless.saturating_add(1) };
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS_PER_CLOCK) {
            let watch = watch.get_or_insert_with(|| Watch::start(core));
            if watch.is_over(core)? {
                return expire(core, queue, claim);
            }
        }
        clock.relax(fruitless);
    }
}

/// Keeps an eye on the time and on the controller while somebody waits.
pub(super) struct Watch {
    deadline: Instant,
    next_check: Instant,
}

impl Watch {
    fn start<B: Backend>(core: &Core<B>) -> Self {
        let now = core.clock().now();
        Self { deadline: now.after(core.io_timeout()), next_check: now.after(CHECK_INTERVAL) }
    }

    /// Looks at the clock, and now and then at the controller. Whether the command is late.
    fn is_over<B: Backend>(&mut self, core: &Core<B>) -> Result<bool, Error> {
        let now = core.clock().now();
        if now >= self.next_check {
            core.check()?;
            self.next_check = now.after(CHECK_INTERVAL);
        }
        Ok(now >= self.deadline)
    }
}

/// Commands of one request that may be in flight.
const WINDOW: usize = 64;
/// Commands that go to one queue before the next queue's turn.
const BURST: usize = 8;
/// A look at the queue is much cheaper than a look at the clock.
const LOOKS_PER_CLOCK: u32 = 64;
/// A look at the controller is a register read: a microsecond, and rarely news.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// A full queue is worth more patience than a look that found nothing.
const FULL_TURN_WEIGHT: u32 = 16;
