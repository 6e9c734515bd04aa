//! Giving requests to queues.

use super::entry::{Entry, Kind, Rare, State, What};
use super::pieces::Airborne;
use super::reap;
use super::work::{Opened, Work};
use crate::Error;
use crate::engine::channel::{Burst, Look, Refused, name};
use crate::engine::core::Core;
use crate::engine::request::{Reads, Way, Writes, run_command};
use crate::engine::wait::look;
use nvme_proto::Lba;
use ugds_hal::{Backend, Clock, Port};
use ugds_mem::Io;
use ugds_queue::QueuePair;
use ugds_sched::{Class, Piece, Progress, Want};

/// Gives the device what there is room for, and returns how many requests are left of which it was not given everything.
pub(crate) fn submit<B: Backend>(core: &Core<B>, work: &mut Work) -> Result<usize, Error> {
    core.begin()?;
    let launched = launch(core, work);
    stand_aside(core, work);
    match launched {
        Ok(()) => Ok(work.queued()),
        Err(error) => {
            collect(core, work);
            work.lose();
            Err(error)
        }
    }
}

/// Launches until nothing is left, or there is no more room after what ended was reaped.
pub(super) fn launch<B: Backend>(core: &Core<B>, work: &mut Work) -> Result<(), Error> {
    if work.queued() == 0 {
        return Ok(());
    }
    work.now = core.clock().now();
    loop {
        let (mut small, mut large) = (Turn::Taken, Turn::Taken);
        while !work.small.is_empty() && small == Turn::Taken {
            small = launch_run(core, work)?;
        }
        while (work.opened.is_some() || !work.large.is_empty()) && large == Turn::Taken {
            large = launch_large(core, work)?;
        }
        if (small, large) == (Turn::Taken, Turn::Taken) || reap(core, work)? == 0 {
            return Ok(());
        }
    }
}

/// Leaves every line: whoever goes back to its caller does not ask again soon, and would hold up those behind.
pub(super) fn stand_aside<B: Backend>(core: &Core<B>, work: &mut Work) {
    if work.queued() == 0 {
        return;
    }
    core.scheduler().leave(&Want::read(0).class(Class::Batch), &mut work.progress);
    if let Some(opened) = &mut work.opened {
        core.scheduler().leave(&opened.want, &mut opened.progress);
    }
}

/// Makes one pass over each queue that has commands of the batch, and takes in what landed.
pub(super) fn reap<B: Backend>(core: &Core<B>, work: &mut Work) -> Result<usize, Error> {
    let mut is_elsewhere = false;
    for queue in 0..work.flying.len() {
        if work.flying[queue] != 0 {
            is_elsewhere |= look(core, queue)? == Look::Elsewhere;
        }
    }
    work.is_elsewhere = is_elsewhere;
    Ok(collect(core, work))
}

/// Takes in what landed.
#[inline]
pub(super) fn collect<B: Backend>(core: &Core<B>, work: &mut Work) -> usize {
    work.collect(core.scheduler(), |queue, status| core.note(reap::failed(core.qid(queue), status)))
}

/// How a launch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There may be more room.
    Taken,
    Full,
}

/// Launches small requests in a row on one queue, with one doorbell.
fn launch_run<B: Backend>(core: &Core<B>, work: &mut Work) -> Result<Turn, Error> {
    let Some(first) = work.small.first() else { return Ok(Turn::Taken) };
    let want = want(&work.entries[first as usize]);
    let most = work.small.len().min(RUN) as u32;
    let Ok(run) = core.scheduler().place_run(&want, most, &mut work.progress) else { return Ok(Turn::Full) };
    let queue = run.queue();
    let mut staged = Staged { queue, most: run.commands(), commands: 0, bytes: 0 };
    let mut burst = core.channel(queue).burst();
    let end = stage_run(&mut burst, work, &mut staged);
    // The doorbell first: the device should not wait for our counts.
    drop(burst);
    work.flying[queue] += staged.commands;
    core.scheduler().settle(run, staged.commands, staged.bytes);
    match end {
        Ok(()) => Ok(Turn::Taken),
        Err(Refused::Full) => Ok(Turn::Full),
        Err(refused) => Err(core.refusal(refused)),
    }
}

/// What of a run was staged.
struct Staged {
    queue: usize,
    most: u32,
    commands: u32,
    bytes: u64,
}

/// Stages small requests until the run is full or none is left, or until the queue refuses one.
fn stage_run<P: Port>(burst: &mut Burst<'_, P>, work: &mut Work, staged: &mut Staged) -> Result<(), Refused> {
    let Some(pair) = burst.pair() else { return Err(Refused::Closed) };
    while staged.commands < staged.most
        && let Some(index) = work.small.first()
    {
        let kind = work.entries[index as usize].order.kind;
        let before = staged.commands;
        match kind.what() {
            What::Read => stage_alike::<P, Reads>(pair, work, staged, kind.namespace()),
            What::Write | What::Flush => stage_alike::<P, Writes>(pair, work, staged, kind.namespace()),
        }
        // Where not even one went the usual way, something is wrong with it.
        if staged.commands == before {
            stage_slowly(pair, work, staged, index)?;
        }
    }
    Ok(())
}

/// Stages requests that go the same way to the same namespace, in a loop that knows both. It ends without a word at
/// one that it can't stage.
#[inline(never)]
fn stage_alike<P: Port, W: Way>(pair: &mut QueuePair<P>, work: &mut Work, staged: &mut Staged, ordinal: u16) {
    let Work { small, entries, held, namespaces, now, landing_id, .. } = work;
    let namespace = namespaces[usize::from(ordinal)].described();
    let (nsid, format) = (namespace.nsid(), namespace.format());
    let kind = Kind::new(W::DIRECTION.into(), ordinal);
    let (name, now, queue) = (name(*landing_id, 0), *now, staged.queue as u16);
    let (mut commands, mut bytes) = (0, 0);
    for &index in small.row((staged.most - staged.commands) as usize) {
        let Some(entry) = entries.get_mut(index as usize) else { break };
        let order = &entry.order;
        if order.kind != kind {
            break;
        }
        let Some(mapped) = held.mapped(order.memory) else { break };
        let len_bytes = order.len_bytes as u32;
        let Some(io) = run_command::<W>(nsid, format, order.lba, mapped, order.offset, len_bytes) else {
            break;
        };
        let Some(ticket) = pair.try_submit(&io, name | u64::from(index)) else { break };
        bytes += u64::from(len_bytes);
        (entry.queue, entry.cid) = (queue, ticket.cid());
        (entry.state, entry.since) = (State::Flying, now);
        commands += 1;
    }
    small.skip(commands);
    staged.commands += commands;
    staged.bytes += bytes;
}

#[inline]
fn want(entry: &Entry) -> Want {
    match entry.order.kind.what() {
        What::Read => Want::read(entry.order.len_bytes).class(Class::Batch),
        What::Write => Want::write(entry.order.len_bytes).class(Class::Batch),
        What::Flush => Want::write(0).class(Class::Control),
    }
}

/// Stages the request that is first, or finds out why that can't be. One whose command can't be made has ended then.
#[cold]
fn stage_slowly<P: Port>(
    pair: &mut QueuePair<P>,
    work: &mut Work,
    staged: &mut Staged,
    index: u32,
) -> Result<(), Refused> {
    let order = work.entries[index as usize].order;
    let Some(request) = Work::request(&order, &work.held, &work.namespaces) else {
        return Err(Refused::Closed);
    };
    let piece = Piece { offset_bytes: 0, len_bytes: order.len_bytes as u32, lba: order.lba };
    let io = match request.command(&piece) {
        Ok(io) => io,
        Err(error) => {
            work.small.skip(1);
            work.refuse(index, error.into());
            return Ok(());
        }
    };
    let ticket = pair.submit(&io, name(work.landing_id, index))?;
    staged.commands += 1;
    staged.bytes += order.len_bytes;
    let entry = &mut work.entries[index as usize];
    (entry.queue, entry.cid) = (staged.queue as u16, ticket.cid());
    (entry.state, entry.since) = (State::Flying, work.now);
    work.small.skip(1);
    Ok(())
}

/// Launches commands of the first large request, until all of them are launched or there is no room.
fn launch_large<B: Backend>(core: &Core<B>, work: &mut Work) -> Result<Turn, Error> {
    let mut opened = match work.opened.take() {
        Some(opened) => opened,
        None => match work.large.pop() {
            Some(index) => open(core, work, index),
            None => return Ok(Turn::Taken),
        },
    };
    let mut flush_is_due = work.entries[opened.entry as usize].order.kind.what() == What::Flush;
    let mut burst: Option<(usize, Burst<'_, B::Port>)> = None;
    let index = opened.entry as usize;
    while (opened.split.left_bytes() != 0 || flush_is_due) && work.rare[index].failure.is_none() {
        let Some(token) = work.pieces.next_token() else {
            work.opened = Some(opened);
            return Ok(Turn::Full);
        };
        let Ok(placement) =
            core.scheduler().place(&opened.want, opened.split.left_bytes(), &mut opened.progress)
        else {
            work.opened = Some(opened);
            return Ok(Turn::Full);
        };
        let queue = placement.queue();
        if burst.as_ref().is_some_and(|(locked, _)| *locked != queue) {
            // Before the other queue is locked: two callers that hold one each would wait for ever.
            burst = None;
        }
        let (_, burst) = burst.get_or_insert_with(|| (queue, core.channel(queue).burst()));
        let order = &work.entries[index].order;
        let none = Piece { offset_bytes: 0, len_bytes: 0, lba: Lba(0) };
        let piece = opened.split.next_at_most(placement.chunk_bytes()).unwrap_or(none);
        let io = match Work::request(order, &work.held, &work.namespaces) {
            _ if flush_is_due => Ok(Io::flush(work.namespaces[usize::from(order.kind.namespace())].nsid())),
            Some(request) => request.command(&piece).map_err(Error::from),
            None => Err(Error::ForeignRegion),
        };
        let io = match io {
            Ok(io) => io,
            Err(error) => {
                core.scheduler().done(placement);
                work.rare[index].refused = Some(Box::new(error));
                break;
            }
        };
        match burst.stage_for(&io, name(work.landing_id, token)) {
            Ok(cid) => {
                let entry = opened.entry;
                work.pieces.launch(Airborne { entry, placement, piece, cid, since: work.now });
                work.flying[queue] += 1;
                let rare = &mut work.rare[index];
                rare.flying += 1;
                rare.launched_bytes += u64::from(piece.len_bytes);
                flush_is_due = false;
            }
            Err(refused) => {
                core.scheduler().done(placement);
                if piece.len_bytes != 0 {
                    opened.split.put_back(&piece);
                }
                work.opened = Some(opened);
                return match refused {
                    Refused::Full => Ok(Turn::Full),
                    refused => Err(core.refusal(refused)),
                };
            }
        }
    }
    drop(burst);
    core.scheduler().leave(&opened.want, &mut opened.progress);
    work.entries[index].state = State::Flying;
    work.settle_large(opened.entry);
    Ok(Turn::Taken)
}

/// Begins to cut a large request.
fn open<B: Backend>(core: &Core<B>, work: &mut Work, index: u32) -> Opened {
    let entry = &work.entries[index as usize];
    let limits = work.namespaces[usize::from(entry.order.kind.namespace())].limits();
    let split = limits.split(entry.order.lba, entry.order.len_bytes >> limits.block_shift());
    work.rare[index as usize] = Rare::default();
    // Where the small ones went last, so that a batch begins somewhere else than its neighbours.
    let near = work.progress.near_queue().min(core.channels().len());
    Opened { entry: index, want: want(entry), split, progress: Progress::new(near) }
}

/// Small requests that share a lock and a doorbell: the device should not wait longer for the first of them.
const RUN: usize = 32;
