//! Giving requests to queues.

use super::entry::{Entry, Rare, State, What};
use super::held::Held;
use super::pieces::Airborne;
use super::reap;
use super::work::{Opened, Work};
use crate::engine::channel::{Burst, Look, Refused};
use crate::engine::core::Core;
use crate::engine::wait::look;
use crate::{Error, Namespace};
use nvme_proto::{Cid, Lba};
use ugds_hal::{Backend, Clock, Port};
use ugds_mem::Io;
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
    let mut burst = core.channel(queue).burst();
    let (mut commands, mut bytes, mut end) = (0, 0, Ok(Turn::Taken));
    while commands < run.commands()
        && let Some(index) = work.small.first()
    {
        let entry = &mut work.entries[index as usize];
        let cookie = cookie(work.landing_id, index);
        match stage(&mut burst, entry, &work.held, &work.namespaces, cookie) {
            Ok(cid) => {
                (entry.queue, entry.cid) = (queue as u16, cid);
                (entry.state, entry.since) = (State::Flying, work.now);
                bytes += entry.order.len_bytes;
                commands += 1;
                work.small.pop();
            }
            Err(Refused::Memory(error)) => {
                work.small.pop();
                work.refuse(index, error.into());
            }
            Err(Refused::Full) => {
                end = Ok(Turn::Full);
                break;
            }
            Err(refused) => {
                end = Err(refused);
                break;
            }
        }
    }
    // The doorbell first: the device should not wait for our counts.
    drop(burst);
    work.flying[queue] += commands;
    core.scheduler().settle(run, commands, bytes);
    end.map_err(|refused| core.refusal(refused))
}

#[inline]
fn want(entry: &Entry) -> Want {
    match entry.order.what {
        What::Read => Want::read(entry.order.len_bytes).class(Class::Batch),
        What::Write => Want::write(entry.order.len_bytes).class(Class::Batch),
        What::Flush => Want::write(0).class(Class::Control),
    }
}

/// Stages the only command of a small request.
#[inline(always)]
fn stage<P: Port>(
    burst: &mut Burst<'_, P>,
    entry: &Entry,
    held: &Held,
    namespaces: &[Namespace],
    cookie: u64,
) -> Result<Cid, Refused> {
    let Some(request) = Work::request(&entry.order, held, namespaces) else { return Err(Refused::Closed) };
    let piece = Piece { offset_bytes: 0, len_bytes: entry.order.len_bytes as u32, lba: entry.order.lba };
    match request.command(&piece) {
        Ok(io) => burst.stage_for(&io, cookie),
        Err(error) => Err(Refused::Memory(error)),
    }
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
    let mut flush_is_due = work.entries[opened.entry as usize].order.what == What::Flush;
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
            _ if flush_is_due => Ok(Io::flush(work.namespaces[usize::from(order.namespace)].nsid())),
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
        match burst.stage_for(&io, cookie(work.landing_id, token)) {
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
    let limits = work.namespaces[usize::from(entry.order.namespace)].limits();
    let split = limits.split(entry.order.lba, entry.order.len_bytes >> limits.block_shift());
    work.rare[index as usize] = Rare::default();
    // Where the small ones went last, so that a batch begins somewhere else than its neighbours.
    let near = work.progress.near_queue().min(core.channels().len());
    Opened { entry: index, want: want(entry), split, progress: Progress::new(near) }
}

/// The name of a command at its queue: which landing, and which of its commands.
#[inline]
fn cookie(landing_id: u32, token: u32) -> u64 {
    u64::from(landing_id + 1) << 32 | u64::from(token)
}

/// Small requests that share a lock and a doorbell: the device should not wait longer for the first of them.
const RUN: usize = 32;
