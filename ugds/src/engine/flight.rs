//! A blocking request of many commands.

use super::channel::{Burst, Claim, Refused};
use super::core::Core;
use super::near;
use super::record::Event;
use super::request::{Direction, Reads, Request, Way, Writes, run_command};
use super::wait::{Watch, wait_row};
use crate::Error;
use nvme_proto::{Lba, Status};
use ugds_hal::{Backend, Port};
use ugds_queue::QueuePair;
use ugds_sched::{Load, Piece, Placement, Progress, Split, Want};

/// Carries a request out, many commands at once, and returns when none of them is outstanding any more.
#[inline(never)]
pub(super) fn run<B: Backend>(request: &Request<'_>, core: &Core<B>) -> Result<(), Error> {
    let want = request.want();
    let mut flight = Flight {
        core,
        request,
        want: &want,
        rows: [Row::NONE; ROWS],
        first: 0,
        count: 0,
        watch: None,
        failure: None,
        error: None,
    };
    let mut progress = Progress::new(near::near(core.channels().len()));
    flight.launch_all(&mut progress);
    // Whatever happened, what is in flight is waited for: it moves the caller's data.
    while flight.count != 0 {
        flight.land_one();
    }
    near::remember(progress.near_queue());
    core.scheduler().leave(&want, &mut progress);
    match flight {
        Flight { failure: None, error: None, .. } => Ok(()),
        flight => Err(flight.into_error()),
    }
}

/// Commands in a row that are in flight on one queue, and that are waited for together.
struct Row {
    /// Where they begin, in bytes from the start of the request.
    offset_bytes: u64,
    /// The bytes of all of them.
    len_bytes: u32,
    /// The most bytes of each.
    chunk_bytes: u32,
    commands: u32,
    queue: u32,
    claim: Option<Claim>,
    /// Of one command that was placed by itself. Others were placed as a run.
    placement: Option<Placement>,
}

impl Row {
    const NONE: Self = Self {
        offset_bytes: 0,
        len_bytes: 0,
        chunk_bytes: 0,
        commands: 0,
        queue: 0,
        claim: None,
        placement: None,
    };
}

/// The commands of one request that are outstanding, oldest first.
struct Flight<'r, B: Backend> {
    core: &'r Core<B>,
    request: &'r Request<'r>,
    want: &'r Want,
    rows: [Row; ROWS],
    first: usize,
    count: usize,
    /// Kept from a row that was late: those behind it are late, too.
    watch: Option<Watch>,
    /// The failure that lies nearest to the start of the request.
    failure: Option<(Piece, Status)>,
    /// The first error that is none of a command's own: nothing is launched any more.
    error: Option<Box<Error>>,
}

impl<B: Backend> Flight<'_, B> {
    /// Gives all pieces to the queues, waiting for earlier ones where there is no room.
    #[inline]
    fn launch_all(&mut self, progress: &mut Progress) {
        let limits = self.request.limits;
        let mut pieces = limits.split(self.request.lba, self.request.len_bytes >> limits.block_shift());
        let free_chunk = self.core.scheduler().free_chunk(self.want);
        let rows = if free_chunk.is_some() { ROWS_OF_RUNS } else { ROWS };
        let mut full_turns = 0u32;
        while pieces.left_bytes() != 0 && self.failure.is_none() && self.error.is_none() {
            if self.count == rows {
                self.land_one();
                continue;
            }
            let turn = match free_chunk {
                Some(chunk_bytes) => self.run(progress, &mut pieces, chunk_bytes),
                None => self.single(progress, &mut pieces),
            };
            match turn {
                Turn::Taken => full_turns = 0,
                Turn::Full => {
                    self.make_room(full_turns);
                    full_turns = full_turns.saturating_add(1);
                }
            }
        }
    }

    /// Launches pieces in a row on one queue, with one doorbell.
    #[inline]
    fn run(&mut self, progress: &mut Progress, pieces: &mut Split, chunk_bytes: u32) -> Turn {
        let scheduler = self.core.scheduler();
        let Ok(run) = scheduler.place_run(self.want, RUN, progress) else { return Turn::Full };
        let (queue, left) = (run.queue(), pieces.left_bytes());
        let (turn, commands) = self.launch(queue, pieces, chunk_bytes, run.commands(), None);
        scheduler.settle(run, commands, left - pieces.left_bytes());
        turn
    }

    /// Launches one piece of a request that is held back in favour of others.
    #[inline(never)]
    fn single(&mut self, progress: &mut Progress, pieces: &mut Split) -> Turn {
        let scheduler = self.core.scheduler();
        let Ok(placement) = scheduler.place(self.want, pieces.left_bytes(), progress) else {
            return Turn::Full;
        };
        let (queue, chunk_bytes) = (placement.queue(), placement.chunk_bytes());
        self.launch(queue, pieces, chunk_bytes, 1, Some(placement)).0
    }

    /// Launches up to `most` pieces on one queue, and returns how many they were.
    #[inline(always)]
    fn launch(
        &mut self,
        queue: usize,
        pieces: &mut Split,
        chunk_bytes: u32,
        most: u32,
        placement: Option<Placement>,
    ) -> (Turn, u32) {
        let left = pieces.left_bytes();
        let launched = launch(self.core, self.request, queue, pieces, chunk_bytes, most);
        let (mut claim, mut commands) = launched;
        if claim.is_none() {
            claim = match self.launch_slowly(queue, pieces, chunk_bytes) {
                Ok(claim) => Some(claim),
                Err(turn) => {
                    if let Some(placement) = placement {
                        self.core.scheduler().done(placement);
                    }
                    return (turn, 0);
                }
            };
            commands = 1;
        }
        self.rows[(self.first + self.count) % ROWS] = Row {
            offset_bytes: self.request.len_bytes - left,
            len_bytes: (left - pieces.left_bytes()) as u32,
            chunk_bytes,
            commands,
            queue: queue as u32,
            claim,
            placement,
        };
        self.count += 1;
        (Turn::Taken, commands)
    }

    /// Launches the next piece by itself, or finds out why it can't be.
    #[cold]
    #[inline(never)]
    fn launch_slowly(&mut self, queue: usize, pieces: &mut Split, chunk_bytes: u32) -> Result<Claim, Turn> {
        let Some(piece) = pieces.next_at_most(chunk_bytes) else { return Err(Turn::Full) };
        // A statement of its own: the burst would keep the queue locked through the arms.
        let staged = match self.request.command(&piece) {
            Ok(io) => self.core.channel(queue).burst().stage(&io),
            Err(error) => Err(Refused::Memory(error)),
        };
        staged.map_err(|refused| {
            pieces.put_back(&piece);
            if !matches!(refused, Refused::Full) {
                let error = self.core.refusal(refused);
                self.give_up(error);
            }
            Turn::Full
        })
    }

    #[cold]
    fn give_up(&mut self, error: Error) {
        self.error.get_or_insert_with(|| Box::new(error));
    }

    /// Waits for the oldest row.
    #[inline(never)]
    fn land_one(&mut self) {
        let row = &mut self.rows[self.first];
        let Some(claim) = row.claim.take() else { return };
        let (core, queue) = (self.core, row.queue as usize);
        self.first = (self.first + 1) % ROWS;
        self.count -= 1;
        let ended = wait_row(core, queue, claim, &mut self.watch, self.want);
        match row.placement.take() {
            None => {
                let load = Load { bytes: row.len_bytes.into(), commands: row.commands };
                core.scheduler().done_run(queue, load);
            }
            Some(placement) => core.scheduler().done(placement),
        }
        match ended {
            Ok(ended) if ended.status.is_success() => {}
            Ok(ended) => {
                let (offset_bytes, chunk_bytes) = (row.offset_bytes, row.chunk_bytes);
                let piece = self.piece(offset_bytes, chunk_bytes, ended.place);
                self.fail(queue, piece, ended.status);
            }
            Err(error) => self.give_up(error),
        }
    }

    #[cold]
    fn into_error(self) -> Error {
        match (self.error, self.failure) {
            (None, Some((piece, status))) => self.request.failed(piece, status),
            (Some(error), _) => *error,
            (None, None) => self.core.closed(),
        }
    }

    /// The piece at `place` of a row, which is cut once more.
    #[cold]
    fn piece(&self, offset_bytes: u64, chunk_bytes: u32, place: u32) -> Option<Piece> {
        let Request { limits, lba, len_bytes, .. } = *self.request;
        let shift = limits.block_shift();
        let lba = Lba(lba.0 + (offset_bytes >> shift));
        let mut row = limits.split(lba, (len_bytes - offset_bytes) >> shift);
        let cut = (0..=place).filter_map(|_| row.next_at_most(chunk_bytes)).last();
        cut.map(|piece| Piece { offset_bytes: offset_bytes + piece.offset_bytes, ..piece })
    }

    #[cold]
    fn fail(&mut self, queue: usize, piece: Option<Piece>, status: Status) {
        self.core.note(Event::CommandFailed { qid: self.core.qid(queue), status });
        let Some(piece) = piece else { return };
        if self.failure.is_none_or(|(other, _)| piece.offset_bytes <= other.offset_bytes) {
            self.failure = Some((piece, status));
        }
    }

    /// Waits until there may be room again. `turns` counts in vain tries in a row.
    #[cold]
    fn make_room(&mut self, turns: u32) {
        if self.count != 0 {
            self.land_one();
        } else if self.error.is_none()
            && let Err(error) = self.core.make_room(self.want.class, turns)
        {
            self.give_up(error);
        }
    }
}

/// Launches up to `most` pieces on one queue, with one doorbell. No claim if not even the first could be staged.
#[inline(always)]
fn launch<B: Backend>(
    core: &Core<B>,
    request: &Request<'_>,
    queue: usize,
    pieces: &mut Split,
    chunk_bytes: u32,
    most: u32,
) -> (Option<Claim>, u32) {
    let mut burst = core.channel(queue).burst();
    let Some(cell) = burst.cell() else { return (None, 0) };
    let commands = match request.direction {
        Direction::Read => stage::<_, Reads>(&mut burst, request, pieces, chunk_bytes, most, cell),
        Direction::Write => stage::<_, Writes>(&mut burst, request, pieces, chunk_bytes, most, cell),
    };
    if commands == 0 {
        burst.give_back(cell);
        return (None, 0);
    }
    (Some(burst.claim(cell, commands)), commands)
}

/// Stages pieces until one can't be, and returns how many it staged.
#[inline(never)]
fn stage<P: Port, W: Way>(
    burst: &mut Burst<'_, P>,
    request: &Request<'_>,
    pieces: &mut Split,
    chunk_bytes: u32,
    most: u32,
    cell: u16,
) -> u32 {
    let Some(pair) = burst.pair() else { return 0 };
    let Some((piece, count)) = pieces.alike(chunk_bytes, most) else { return 0 };
    let staged = stage_runs::<P, W>(pair, request, &piece, count, Claim::name(cell, 0));
    pieces.take_alike(&piece, staged);
    if staged == most || pieces.left_bytes() == 0 {
        return staged;
    }
    stage_others::<P, W>(pair, request, pieces, chunk_bytes, most, cell, staged)
}

/// Stages what is not alike, or not told the shortest way.
#[inline(never)]
fn stage_others<P: Port, W: Way>(
    pair: &mut QueuePair<P>,
    request: &Request<'_>,
    pieces: &mut Split,
    chunk_bytes: u32,
    most: u32,
    cell: u16,
    mut staged: u32,
) -> u32 {
    while staged < most
        && let Some(piece) = pieces.next_at_most(chunk_bytes)
    {
        let command = request.command_of::<W>(&piece).ok();
        let name = Claim::name(cell, staged);
        if command.and_then(|io| pair.try_submit(&io, name)).is_none() {
            pieces.put_back(&piece);
            break;
        }
        staged += 1;
    }
    staged
}

/// Stages `count` pieces of one length, named from `name` on, the shortest way. Returns how many it staged.
#[inline(always)]
fn stage_runs<P: Port, W: Way>(
    pair: &mut QueuePair<P>,
    request: &Request<'_>,
    piece: &Piece,
    count: u32,
    name: u64,
) -> u32 {
    let (nsid, format, mapped) = (request.namespace.nsid(), request.namespace.format(), request.mapped);
    let Some(mut row) = pair.row(mapped) else { return 0 };
    let len_bytes = piece.len_bytes;
    let (mut offset, mut lba, mut name) = (request.offset + piece.offset_bytes, piece.lba, name);
    let blocks = u64::from(len_bytes >> request.limits.block_shift());
    for staged in 0..count {
        let Some(io) = run_command::<W>(nsid, format, lba, mapped, offset, len_bytes) else { return staged };
        if row.try_submit(&io, name).is_none() {
            return staged;
        }
        offset += u64::from(len_bytes);
        lba.0 += blocks;
        name += Claim::STEP;
    }
    count
}

/// How a turn at launching ended.
enum Turn {
    Taken,
    Full,
}

/// Rows of one request that may be in flight.
const ROWS: usize = 8;
/// The same if they are placed as runs: 32 commands.
const ROWS_OF_RUNS: usize = 32 / RUN as usize;
/// Pieces that go to one queue with one doorbell, before the next queue has its turn.
const RUN: u32 = 8;
