//! A blocking request of many commands.

use super::channel::{Burst, Claim, Refused};
use super::core::Core;
use super::near;
use super::record::Event;
use super::request::Request;
use super::wait::{Watch, wait};
use crate::Error;
use nvme_proto::Status;
use ugds_hal::Backend;
use ugds_sched::{Load, Piece, Placement, Progress, Split, Want};

/// Carries a request out, many commands at once, and returns when none of them is outstanding any more.
#[inline(never)]
pub(super) fn run<B: Backend>(request: &Request<'_>, core: &Core<B>) -> Result<(), Error> {
    let want = request.want();
    let mut flight = Flight::new(core, want);
    let mut progress = Progress::new(near::near(core.channels().len()));
    let launched = flight.launch_all(request, &want, &mut progress);
    // Whatever happened, what is in flight is waited for: it moves the caller's data.
    let landed = flight.land_all();
    near::remember(progress.near_queue());
    core.scheduler().leave(&want, &mut progress);
    launched?;
    match flight.failure {
        None => landed,
        Some(_) if landed.is_err() => landed,
        Some((piece, status)) => Err(request.failed(piece, status)),
    }
}

/// A command in flight.
struct Flying {
    queue: usize,
    claim: Claim,
    piece: Piece,
    /// Of one that was placed by itself. Others are one of a run.
    placement: Option<Placement>,
}

/// The commands of one request that are outstanding, oldest first.
struct Flight<'c, B: Backend> {
    core: &'c Core<B>,
    want: Want,
    ring: [Option<Flying>; WINDOW],
    first: usize,
    count: usize,
    /// Kept from a command that was late: those behind it are late, too.
    watch: Option<Watch>,
    /// The failure that lies nearest to the start of the request.
    failure: Option<(Piece, Status)>,
    tally: Tally,
}

/// Commands of runs that ended on one queue in a row: they are taken off its load at once.
struct Tally {
    queue: usize,
    load: Load,
}

impl Tally {
    #[inline]
    fn add<B: Backend>(&mut self, core: &Core<B>, queue: usize, bytes: u32) {
        if queue != self.queue {
            self.settle(core);
            self.queue = queue;
        }
        self.load.commands += 1;
        self.load.bytes += u64::from(bytes);
    }

    fn settle<B: Backend>(&mut self, core: &Core<B>) {
        let load = std::mem::take(&mut self.load);
        if load.commands != 0 {
            core.scheduler().done_run(self.queue, load);
        }
    }
}

impl<'c, B: Backend> Flight<'c, B> {
    #[inline]
    fn new(core: &'c Core<B>, want: Want) -> Self {
        Self {
            core,
            want,
            ring: [const { None }; WINDOW],
            first: 0,
            count: 0,
            watch: None,
            failure: None,
            tally: Tally { queue: 0, load: Load::default() },
        }
    }

    /// Gives all pieces to the queues, waiting for earlier ones where there is no room.
    fn launch_all(
        &mut self,
        request: &Request<'_>,
        want: &Want,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let mut pieces = request.limits.split(request.lba, request.len_bytes >> request.limits.block_shift());
        let mut full_turns = 0u32;
        while pieces.left_bytes() != 0 && self.failure.is_none() {
            if self.count == WINDOW {
                self.land_one()?;
            }
            match self.burst(request, want, progress, &mut pieces)? {
                Turn::Taken => full_turns = 0,
                Turn::Full => {
                    self.tally.settle(self.core);
                    self.make_room(want, full_turns)?;
                    full_turns = full_turns.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    /// Gives a few pieces to one queue.
    fn burst(
        &mut self,
        request: &Request<'_>,
        want: &Want,
        progress: &mut Progress,
        pieces: &mut Split,
    ) -> Result<Turn, Error> {
        match self.core.scheduler().free_chunk(want) {
            Some(chunk_bytes) => self.run(request, want, progress, pieces, chunk_bytes),
            None => self.single(request, want, progress, pieces),
        }
    }

    /// Launches pieces in a row on one queue, with one doorbell.
    fn run(
        &mut self,
        request: &Request<'_>,
        want: &Want,
        progress: &mut Progress,
        pieces: &mut Split,
        chunk_bytes: u32,
    ) -> Result<Turn, Error> {
        let scheduler = self.core.scheduler();
        let most = RUN.min(WINDOW - self.count) as u32;
        let Ok(run) = scheduler.place_run(want, most, progress) else { return Ok(Turn::Full) };
        let queue = run.queue();
        let mut burst = self.core.channel(queue).burst();
        let (mut commands, mut bytes, mut end) = (0, 0, None);
        while commands < run.commands() {
            let Some(piece) = pieces.next_at_most(chunk_bytes) else { break };
            match Self::stage(request, &mut burst, &piece) {
                Ok(claim) => self.launch(Flying { queue, claim, piece, placement: None }),
                Err(refused) => {
                    pieces.put_back(&piece);
                    end = Some(refused);
                    break;
                }
            }
            commands += 1;
            bytes += u64::from(piece.len_bytes);
        }
        drop(burst);
        scheduler.settle(run, commands, bytes);
        match end {
            None => Ok(Turn::Taken),
            Some(refused) => self.refused(refused),
        }
    }

    /// Launches one piece of a request that is held back in favour of others.
    fn single(
        &mut self,
        request: &Request<'_>,
        want: &Want,
        progress: &mut Progress,
        pieces: &mut Split,
    ) -> Result<Turn, Error> {
        let scheduler = self.core.scheduler();
        let Ok(placement) = scheduler.place(want, pieces.left_bytes(), progress) else {
            return Ok(Turn::Full);
        };
        let queue = placement.queue();
        let Some(piece) = pieces.next_at_most(placement.chunk_bytes()) else {
            scheduler.done(placement);
            return Ok(Turn::Taken);
        };
        // A statement of its own: the burst would keep the queue locked through the arms.
        let staged = Self::stage(request, &mut self.core.channel(queue).burst(), &piece);
        match staged {
            Ok(claim) => {
                self.launch(Flying { queue, claim, piece, placement: Some(placement) });
                Ok(Turn::Taken)
            }
            Err(refused) => {
                scheduler.done(placement);
                pieces.put_back(&piece);
                self.refused(refused)
            }
        }
    }

    #[inline(always)]
    fn stage(request: &Request<'_>, burst: &mut Burst<'_, B::Port>, piece: &Piece) -> Result<Claim, Refused> {
        match request.command(piece) {
            Ok(io) => burst.stage(&io),
            Err(error) => Err(Refused::Memory(error)),
        }
    }

    #[cold]
    fn refused(&self, refused: Refused) -> Result<Turn, Error> {
        match refused {
            Refused::Full => Ok(Turn::Full),
            refused => Err(self.core.refusal(refused)),
        }
    }

    #[inline]
    fn launch(&mut self, flying: Flying) {
        self.ring[(self.first + self.count) % WINDOW] = Some(flying);
        self.count += 1;
    }

    /// Waits for the oldest command.
    #[inline]
    fn land_one(&mut self) -> Result<(), Error> {
        let Some(Flying { queue, claim, piece, placement }) = self.ring[self.first].take() else {
            return Ok(());
        };
        self.first = (self.first + 1) % WINDOW;
        self.count -= 1;
        let ended = wait(self.core, queue, claim, &mut self.watch, &self.want);
        match placement {
            None => self.tally.add(self.core, queue, piece.len_bytes),
            Some(placement) => self.core.scheduler().done(placement),
        }
        match ended {
            Ok(status) if status.is_success() => Ok(()),
            Ok(status) => {
                self.fail(queue, piece, status);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    #[cold]
    fn fail(&mut self, queue: usize, piece: Piece, status: Status) {
        self.core.note(Event::CommandFailed { qid: self.core.qid(queue), status });
        if self.failure.is_none_or(|(other, _)| piece.offset_bytes <= other.offset_bytes) {
            self.failure = Some((piece, status));
        }
    }

    /// Waits for all of them, and returns the first error that is none of a command's own.
    fn land_all(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while self.count != 0 {
            if let Err(error) = self.land_one()
                && result.is_ok()
            {
                result = Err(error);
            }
        }
        self.tally.settle(self.core);
        result
    }

    /// Waits until there may be room again. `turns` counts in vain tries in a row.
    #[cold]
    fn make_room(&mut self, want: &Want, turns: u32) -> Result<(), Error> {
        if self.count != 0 { self.land_one() } else { self.core.make_room(want.class, turns) }
    }
}

/// How a burst ended.
enum Turn {
    Taken,
    Full,
}

/// Commands of one request that may be in flight.
const WINDOW: usize = 32;
/// Pieces that go to one queue with one doorbell, before the next queue has its turn.
const RUN: usize = 4;
