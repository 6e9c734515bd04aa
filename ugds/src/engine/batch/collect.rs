//! Collecting outcomes, and waiting for them.

use super::entry::{Order, State, What};
use super::launch::{collect, launch, reap, stand_aside};
use super::work::Work;
use crate::batch::Outcome;
use crate::engine::bell;
use crate::engine::channel::{Awaits, Look};
use crate::engine::core::Core;
use crate::engine::expire::expire;
use crate::engine::rota::{Call, Duty, Id, Role, Sleeper};
use crate::engine::sync::{Thread, thread};
use crate::engine::wait::{doze, look, seen};
use crate::error::{Error, IoFailure, Operation};
use nvme_proto::Cid;
use std::time::Duration;
use ugds_hal::{Backend, Clock, Event, Instant};
use ugds_sched::{Class, Completion, Want};

/// How many outcomes are wanted, and for how long they are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// `None`: for as long as it takes.
    pub(crate) timeout: Option<Duration>,
}

/// Appends outcomes to `into`, and returns how many.
pub(crate) fn harvest<B: Backend>(
    core: &Core<B>,
    work: &mut Work,
    span: Span,
    into: &mut Vec<Outcome>,
) -> Result<usize, Error> {
    core.in_this_process()?;
    let (mut count, mut vigil) = (0, Vigil::new(core));
    loop {
        let mut ended = if work.ended.is_empty() { collect(core, work) } else { 1 };
        if ended == 0 {
            ended = catch(core, work, span.most, &mut count, into).unwrap_or_else(|_| lose(core, work));
        }
        while count < span.most
            && let Some(index) = work.ended.pop()
        {
            hand_out(core, work, index, into);
            count += 1;
        }
        let refused = relaunch(core, work);
        if ended == 0 {
            vigil.look_after(core, work, &span);
        } else {
            vigil.fruitless = 0;
        }
        let enough = count >= span.least.min(span.most) || work.len() == 0;
        if enough || work.ended.is_empty() && refused.is_err() && !work.is_flying() {
            stand_aside(core, work);
            return if enough || count != 0 { Ok(count) } else { refused.map(|()| count) };
        }
        if ended == 0 && vigil.go_on(core, work, &span) == Go::Home {
            stand_aside(core, work);
            return Ok(count);
        }
    }
}

/// Makes one pass over each queue that has commands of the batch, and hands out what ended well up to `most`. Returns
/// how many commands ended.
#[inline(always)]
fn catch<B: Backend>(
    core: &Core<B>,
    work: &mut Work,
    most: usize,
    count: &mut usize,
    into: &mut Vec<Outcome>,
) -> Result<usize, Error> {
    let (mut is_elsewhere, mut ended) = (false, 0);
    for queue in 0..work.flying.len() {
        if work.flying[queue] == 0 {
            continue;
        }
        let (taken, caught) = (work.head.taken(), &mut work.caught);
        let looked = core.channel(queue).look_for(work.landing_id, taken, caught);
        let caught = work.take_caught(core.scheduler(), queue, most - *count, into);
        ended += caught;
        *count += caught;
        is_elsewhere |= seen(core, looked)? == Look::Elsewhere;
    }
    work.is_elsewhere = is_elsewhere;
    Ok(ended + collect(core, work))
}

/// Waits until the device has nothing of the batch any more.
pub(crate) fn close<B: Backend>(core: &Core<B>, work: &mut Work) {
    if core.in_this_process().is_err() {
        // The commands are the parent's.
        return;
    }
    work.cancel(None);
    let span = Span { least: usize::MAX, most: usize::MAX, timeout: None };
    let mut vigil = Vigil::new(core);
    while work.is_flying() {
        // Nobody wants to know.
        while work.ended.pop().is_some() {}
        if reap(core, work).unwrap_or_else(|_| lose(core, work)) == 0 {
            vigil.look_after(core, work, &span);
            vigil.go_on(core, work, &span);
        }
    }
    drop(vigil);
    core.forget_landing(work.landing_id);
}

/// Launches what is left, if there may be room for it and requests may begin.
#[inline]
fn relaunch<B: Backend>(core: &Core<B>, work: &mut Work) -> Result<(), Error> {
    if work.queued() == 0 {
        return Ok(());
    }
    if let Err(error) = core.begin() {
        if look(core, 0).is_err() {
            // It is not being closed: it is.
            lose(core, work);
        }
        return Err(error);
    }
    launch(core, work).inspect_err(|_| {
        lose(core, work);
    })
}

/// Nothing comes any more: everything ends.
#[cold]
fn lose<B: Backend>(core: &Core<B>, work: &mut Work) -> usize {
    // What landed before the end has ended well. Afterwards nothing lands: the queues are closed.
    let before = collect(core, work);
    work.lose();
    before + 1
}

/// Appends the outcome of a request that ended. Its place is free then.
#[inline(always)]
fn hand_out<B: Backend>(core: &Core<B>, work: &mut Work, index: u32, into: &mut Vec<Outcome>) {
    let entry = &mut work.entries[index as usize];
    let Order { cookie, len_bytes: bytes, memory, kind, .. } = entry.order;
    let well = entry.state == State::Done && entry.status.is_success();
    if kind.what() != What::Flush && bytes != 0 {
        work.held.release(memory);
    }
    if well {
        into.push(Outcome { cookie, bytes, result: Ok(()) });
    } else {
        into.push(bad_outcome(core, work, index));
    }
    work.set_free(index);
}

#[cold]
fn bad_outcome<B: Backend>(core: &Core<B>, work: &mut Work, index: u32) -> Outcome {
    let entry = &work.entries[index as usize];
    let rare = &mut work.rare[index as usize];
    let order = entry.order;
    let failed = |lba, len_bytes, done_bytes, status| {
        let operation = match order.kind.what() {
            What::Read => Operation::Read,
            What::Write => Operation::Write,
            What::Flush => Operation::Flush,
        };
        let nsid = work.namespaces[usize::from(order.kind.namespace())].nsid();
        Error::Io(IoFailure { operation, nsid, lba, len_bytes, done_bytes, status })
    };
    let (bytes, error) = match (entry.state, rare.failure.take(), rare.refused.take()) {
        (State::Done, ..) => (0, failed(order.lba, order.len_bytes as u32, 0, entry.status)),
        (State::Lost, ..) => (0, core.closed()),
        (State::Refused, _, Some(error)) => (0, *error),
        (_, Some((piece, status)), _) => {
            (piece.offset_bytes, failed(piece.lba, piece.len_bytes, piece.offset_bytes, status))
        }
        _ => (rare.launched_bytes, Error::Cancelled),
    };
    rare.launched_bytes = 0;
    Outcome { cookie: order.cookie, bytes, result: Err(error) }
}

/// Whether to look on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Go {
    On,
    Home,
}

/// Somebody who waits for outcomes: it spins for a while, then it polls for everybody or sleeps.
struct Vigil<'c, B: Backend> {
    core: &'c Core<B>,
    fruitless: u32,
    /// Whether the clock has just been read.
    is_due: bool,
    until: Option<Instant>,
    /// Once it was enlisted.
    me: Option<Thread>,
    /// Of one that sleeps until the device interrupts.
    bell: Option<Event>,
}

impl<'c, B: Backend> Vigil<'c, B> {
    #[inline]
    fn new(core: &'c Core<B>) -> Self {
        Self { core, fruitless: 0, is_due: false, until: None, me: None, bell: None }
    }

    /// After a look that brought nothing: reads the clock now and then, and looks after what it may be high time for.
    #[cold]
    fn look_after(&mut self, core: &Core<B>, work: &mut Work, span: &Span) {
        work.looks += 1;
        // Where time matters, it is looked at more often as soon as waiting costs more than looking.
        let limited = span.timeout.is_some_and(|timeout| !timeout.is_zero());
        self.is_due =
            work.looks >= LOOKS_PER_CLOCK || limited && (self.until.is_none() || self.fruitless > SPINS);
        self.fruitless = self.fruitless.saturating_add(1);
        if self.is_due {
            work.looks = 0;
            work.now = core.clock().now();
            if self.until.is_none() {
                self.until = Some(span.timeout.map_or(Instant(u64::MAX), |timeout| work.now.after(timeout)));
            }
            self.check(core, work);
        }
    }

    /// Waits a little, or for somebody else to bring something.
    #[cold]
    fn go_on(&mut self, core: &Core<B>, work: &mut Work, span: &Span) -> Go {
        if !work.ended.is_empty() {
            return Go::On;
        }
        if span.timeout == Some(Duration::ZERO) || self.until.is_some_and(|until| work.now >= until) {
            return Go::Home;
        }
        if self.is_due && self.sleep(core, work) {
            // After one more look comes the clock.
            work.looks = LOOKS_PER_CLOCK;
            return Go::On;
        }
        if !work.is_flying() {
            // All room is others'.
            let _ = core.make_room(Class::Batch, self.fruitless);
        } else {
            let patience = if span.timeout.is_some() { SPINS + SPINS / 8 } else { u32::MAX };
            core.clock().relax(self.fruitless.min(patience));
        }
        Go::On
    }

    /// Checks the controller now and then, and ends what is late.
    fn check(&mut self, core: &Core<B>, work: &mut Work) {
        if work.now < work.next_check {
            return;
        }
        work.next_check = work.now.after(CHECK_INTERVAL);
        if core.check().is_err() {
            lose(core, work);
            return;
        }
        for queue in (0..work.flying.len()).filter(|&queue| work.flying[queue] != 0) {
            core.channel(queue).wake_late(work.now);
        }
        let Some((queue, cid, token)) = late(core, work) else { return };
        self.resign();
        let take = || {
            collect(core, work);
            work.has_landed(token).then_some(())
        };
        if expire(core, queue, cid, take).is_err() {
            lose(core, work);
        }
    }

    /// Sleeps, if the device or somebody else is going to wake it. `false` when it has to go on looking.
    fn sleep(&mut self, core: &Core<B>, work: &mut Work) -> bool {
        if !work.is_flying() {
            return false;
        }
        if self.bell.is_none() && self.completion(core, work) == Completion::Interrupt {
            self.bell = bell::mine();
        }
        match self.bell.clone() {
            // What somebody else is just taking out of a queue may be what the last interrupt was for.
            Some(bell) => !work.is_elsewhere && self.doze(work, &bell),
            None => {
                let tired = self.fruitless > SPINS && self.enlist(work) == Duty::Sleep;
                if tired {
                    thread::park();
                }
                tired
            }
        }
    }

    fn completion(&self, core: &Core<B>, work: &Work) -> Completion {
        let want = Want::read(0).class(Class::Batch).settings(core.settings());
        core.completion(&want, work.busy_queues().map(|queue| core.channel(queue)))
    }

    /// Takes the duty to poll where nobody has it. It sleeps only if somebody else polls each of its queues.
    fn enlist(&mut self, work: &Work) -> Duty {
        let mut all = Duty::Sleep;
        for queue in work.busy_queues() {
            match self.enlist_at(work, queue) {
                Duty::Over => return Duty::Over,
                Duty::Poll => all = Duty::Poll,
                Duty::Sleep => {}
            }
        }
        all
    }

    /// Sleeps until it is called, or until a device interrupts for a queue that nobody else looks after.
    fn doze(&mut self, work: &Work, bell: &Event) -> bool {
        let core = self.core;
        let mut events = [bell; EVENTS];
        let (mut count, mut until) = (1, work.next_check.min(self.until.unwrap_or(work.next_check)));
        for queue in work.busy_queues() {
            match (self.enlist_at(work, queue), core.channel(queue).event()) {
                (Duty::Over, _) => return false,
                (Duty::Poll, Some(event)) if count < EVENTS => {
                    events[count] = event;
                    count += 1;
                }
                (Duty::Poll, _) => until = until.min(work.now.after(SHORTEST_SLEEP)),
                (Duty::Sleep, _) => {}
            }
        }
        doze(core.clock(), &events[..count], until, self.fruitless);
        true
    }

    fn enlist_at(&mut self, work: &Work, queue: usize) -> Duty {
        let me = self.me.get_or_insert_with(thread::current);
        let (role, call) = match &self.bell {
            None => (Role::Spins, Call::Unpark(me.clone())),
            Some(bell) => (Role::Dozes, Call::Ring(bell.clone())),
        };
        let deadline = self.until.unwrap_or_default().min(work.now.after(LONGEST_SLEEP));
        let awaits = Awaits::Landing { id: work.landing_id, taken: work.head.taken() };
        self.core.channel(queue).enlist(Sleeper { id: Id::Thread(me.id()), role, call, awaits, deadline })
    }

    fn resign(&mut self) {
        if let Some(me) = self.me.take() {
            let id = Id::Thread(me.id());
            self.core.channels().iter().for_each(|channel| channel.resign(id));
        }
    }
}

impl<B: Backend> Drop for Vigil<'_, B> {
    #[inline]
    fn drop(&mut self) {
        if self.me.is_some() {
            self.resign();
        }
    }
}

/// A command that is late: its queue, its identifier and its token.
fn late<B: Backend>(core: &Core<B>, work: &Work) -> Option<(usize, Cid, u32)> {
    let is_late = |since: Instant| work.now >= since.after(core.io_timeout());
    let small = work
        .entries
        .iter()
        .zip(0..)
        .filter(|(entry, _)| entry.state == State::Flying && entry.cid != Cid::NONE);
    let mut small = small.filter(|(entry, _)| is_late(entry.since));
    if let Some((entry, token)) = small.next() {
        return Some((entry.queue.into(), entry.cid, token));
    }
    let mut pieces = work.pieces.iter().filter(|(_, airborne)| is_late(airborne.since));
    pieces.next().map(|(token, airborne)| (airborne.placement.queue(), airborne.cid, token))
}

/// Looks between two at the clock.
const LOOKS_PER_CLOCK: u32 = 16;
/// Looks before somebody goes to sleep.
const SPINS: u32 = 64;
/// How often the controller is asked whether it lives, and the commands whether they are late.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The bell, and the queues beside it whose interrupts are waited for. More are looked at every now and then.
const EVENTS: usize = 32;
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// Those who sleep look at their own commands now and then.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
