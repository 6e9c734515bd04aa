//! Waiting for a command: whoever waits reaps for everybody, and keeps an eye on the time and on the controller.

use super::bell;
use super::cell::Ended;
use super::channel::{Awaits, Channel, Claim, Look};
use super::core::Core;
use super::expire::expire;
use super::rota::{Call, Duty, Id, Role, Sleeper};
use super::sync::{Thread, thread};
use crate::Error;
use nvme_proto::Status;
use std::time::Duration;
use ugds_hal::{Backend, Clock, Event, Instant, Port};
use ugds_queue::Wedge;
use ugds_sched::{Completion, Want};

/// Makes one pass over a queue. What ends a queue ends the device, which is stopped at once.
#[inline]
pub(super) fn look<B: Backend>(core: &Core<B>, queue: usize) -> Result<Look, Error> {
    seen(core, core.channel(queue).look())
}

/// What a pass brought. What ends a queue ends the device, which is stopped at once.
#[inline]
pub(super) fn seen<B: Backend>(core: &Core<B>, looked: Result<Look, Wedge>) -> Result<Look, Error> {
    match looked {
        Ok(Look::Closed) => Err(core.closed()),
        Ok(look) => Ok(look),
        Err(wedge) => Err(broken(core, wedge)),
    }
}

#[cold]
fn broken<B: Backend>(core: &Core<B>, wedge: Wedge) -> Error {
    let wedge = core.give_up(wedge);
    core.stop();
    wedge.into()
}

/// Waits for one command on `queue`, reaping for everybody meanwhile, the way that is best for `want`. `watch` is the
/// watch of a command before that was late; it is left behind by one that is, and taken away by one that is not.
#[inline]
pub(super) fn wait<B: Backend>(
    core: &Core<B>,
    queue: usize,
    claim: Claim,
    watch: &mut Option<Watch>,
    want: &Want,
) -> Result<Status, Error> {
    wait_row(core, queue, claim, watch, want).map(|ended| ended.status)
}

/// The same for a row of commands.
#[inline]
pub(super) fn wait_row<B: Backend>(
    core: &Core<B>,
    queue: usize,
    claim: Claim,
    watch: &mut Option<Watch>,
    want: &Want,
) -> Result<Ended, Error> {
    let channel = core.channel(queue);
    // Another command's pass may have brought it. Else one look is worth it before anything else is prepared; what breaks
    // the queue is met again on the long way.
    let mut ended = channel.take(claim);
    if ended.is_none() && channel.look_own(claim).is_ok() {
        ended = channel.take(claim);
    }
    match ended {
        Some(ended) => {
            *watch = None;
            Ok(ended)
        }
        None => wait_row_long(core, queue, claim, watch, want),
    }
}

/// The long way for one command.
pub(super) fn wait_long<B: Backend>(
    core: &Core<B>,
    queue: usize,
    claim: Claim,
    watch: &mut Option<Watch>,
    want: &Want,
) -> Result<Status, Error> {
    wait_row_long(core, queue, claim, watch, want).map(|ended| ended.status)
}

/// Looks again and again for a while; then one of those who wait for the queue goes on, and the others sleep. Or it
/// sleeps at once, until the device interrupts.
#[inline(never)]
fn wait_row_long<B: Backend>(
    core: &Core<B>,
    queue: usize,
    claim: Claim,
    watch: &mut Option<Watch>,
    want: &Want,
) -> Result<Ended, Error> {
    let channel = core.channel(queue);
    let clock = core.clock();
    let mut post = Post::new(channel, Awaits::Command(claim), core.completion(want, [channel]));
    let (mut looks, mut fruitless) = (0u32, 0u32);
    loop {
        let looked = look(core, queue);
        // Another thread's pass may have brought it before the queue broke.
        if let Some(ended) = channel.take(claim) {
            *watch = None;
            return Ok(ended);
        }
        let looked = looked?;
        // What ended was somebody else's; the next one may be ours.
        fruitless = if matches!(looked, Look::Ended(1..)) { 0 } else { fruitless.saturating_add(1) };
        looks += 1;
        let is_tired = post.is_tired(looked, looks);
        if is_tired {
            looks = 0;
            let watch = watch.get_or_insert_with(|| Watch::start(core));
            if watch.is_over(core)? {
                drop(post);
                return expire_row(core, queue, claim);
            }
            channel.wake_late(watch.last);
            match post.enlist(watch.deadline) {
                Duty::Sleep if post.bell.is_none() => {
                    thread::park();
                    // Whatever the reason was: after one more look comes the clock.
                    looks = LOOKS_PER_CLOCK - 1;
                    continue;
                }
                duty @ (Duty::Sleep | Duty::Poll) if post.bell.is_some() => {
                    post.doze(clock, duty, watch.next_check.min(watch.deadline), fruitless);
                    continue;
                }
                _ => {}
            }
        }
        clock.relax(fruitless);
    }
}

/// Ends those commands of a row that are late, which are all that are outstanding, each by itself.
#[cold]
fn expire_row<B: Backend>(core: &Core<B>, queue: usize, claim: Claim) -> Result<Ended, Error> {
    let channel = core.channel(queue);
    loop {
        if let Some(ended) = channel.take(claim) {
            return Ok(ended);
        }
        match channel.outstanding(claim) {
            Some(cid) => expire(core, queue, cid, || channel.has_ended(claim, cid).then_some(()))?,
            // It ended just now, or the channel was closed.
            None => look(core, queue).map(drop)?,
        }
    }
}

/// A waiter's place in the roster of a queue, which it leaves however it goes.
struct Post<'c, P: Port> {
    channel: &'c Channel<P>,
    awaits: Awaits,
    /// Of one that sleeps until the device interrupts.
    bell: Option<Event>,
    /// Once it was enlisted.
    me: Option<Thread>,
}

impl<'c, P: Port> Post<'c, P> {
    #[inline]
    fn new(channel: &'c Channel<P>, awaits: Awaits, completion: Completion) -> Self {
        let bell = if completion == Completion::Interrupt { bell::mine() } else { None };
        Self { channel, awaits, bell, me: None }
    }

    /// Whether it is time to sleep, or at least to look at the clock.
    #[inline]
    fn is_tired(&self, looked: Look, looks: u32) -> bool {
        match self.bell {
            None => looks >= LOOKS_PER_CLOCK,
            // What somebody else is just taking out of the queue may be what the last interrupt was for.
            Some(_) => looked == Look::Ended(0),
        }
    }

    #[cold]
    fn enlist(&mut self, deadline: Instant) -> Duty {
        let me = self.me.get_or_insert_with(thread::current);
        let (role, call) = match &self.bell {
            None => (Role::Spins, Call::Unpark(me.clone())),
            Some(bell) => (Role::Dozes, Call::Ring(bell.clone())),
        };
        let (id, awaits) = (Id::Thread(me.id()), self.awaits);
        self.channel.enlist(Sleeper { id, role, call, awaits, deadline })
    }

    /// Sleeps until it is called or, with the duty, until the device interrupts.
    #[cold]
    fn doze(&self, clock: &impl Clock, duty: Duty, until: Instant, attempt: u32) {
        match (&self.bell, self.channel.event()) {
            (Some(bell), Some(event)) if duty == Duty::Poll => {
                doze(clock, &[bell, event], until, attempt);
            }
            (Some(bell), _) => doze(clock, &[bell], until, attempt),
            (None, _) => clock.relax(attempt),
        }
    }
}

impl<P: Port> Drop for Post<'_, P> {
    fn drop(&mut self) {
        if let Some(me) = &self.me {
            self.channel.resign(Id::Thread(me.id()));
        }
    }
}

/// Sleeps until one of `events` is signalled, and resets them. They are reset before the look that follows, so that what
/// comes after it is not missed; and those of queues only by whoever has their duty, who looks, or hands it on.
#[cold]
pub(super) fn doze(clock: &impl Clock, events: &[&Event], until: Instant, attempt: u32) {
    clock.wait_for(events, until, attempt);
    for event in events {
        // One that can't be read stays signalled: whoever waits for it looks more often than needed.
        let _ = event.clear();
    }
}

/// Keeps an eye on the time and on the controller while somebody waits.
pub(super) struct Watch {
    deadline: Instant,
    next_check: Instant,
    last: Instant,
}

impl Watch {
    pub(super) fn start<B: Backend>(core: &Core<B>) -> Self {
        let now = core.clock().now();
        Self { deadline: now.after(core.io_timeout()), next_check: now.after(CHECK_INTERVAL), last: now }
    }

    /// Looks at the clock, and now and then at the controller. Whether the command is late.
    pub(super) fn is_over<B: Backend>(&mut self, core: &Core<B>) -> Result<bool, Error> {
        self.last = core.clock().now();
        if self.last >= self.next_check {
            core.check()?;
            self.next_check = self.last.after(CHECK_INTERVAL);
        }
        Ok(self.last >= self.deadline)
    }
}

/// A look at the queue is much cheaper than a look at the clock.
pub(super) const LOOKS_PER_CLOCK: u32 = 64;
/// A look at the controller is a register read: a microsecond, and rarely news.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
