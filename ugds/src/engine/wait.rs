//! Waiting for a command: whoever waits reaps for everybody, and keeps an eye on the time and on the controller.

use super::channel::{Awaits, Channel, Claim, Look};
use super::core::Core;
use super::expire::expire;
use super::rota::Duty;
use super::sync::{Thread, thread};
use crate::Error;
use nvme_proto::Status;
use std::time::Duration;
use ugds_hal::{Backend, Clock, Instant, Port};
use ugds_queue::Wedge;

/// Makes one pass over a queue. What ends a queue ends the device, which is stopped at once.
#[inline]
pub(super) fn look<B: Backend>(core: &Core<B>, queue: usize) -> Result<Look, Error> {
    match core.channel(queue).look() {
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

/// Waits for one command on `queue`, reaping for everybody meanwhile. `watch` is the watch of a command before that was
/// late; it is left behind by one that is, and taken away by one that is not.
#[inline]
pub(super) fn wait<B: Backend>(
    core: &Core<B>,
    queue: usize,
    claim: Claim,
    watch: &mut Option<Watch>,
) -> Result<Status, Error> {
    // Another command's pass may have brought it.
    match core.channel(queue).take(claim) {
        Some(status) => {
            *watch = None;
            Ok(status)
        }
        None => wait_long(core, queue, claim, watch),
    }
}

/// Looks again and again for a while; then one of those who wait for the queue goes on, and the others sleep.
#[inline(never)]
pub(super) fn wait_long<B: Backend>(
    core: &Core<B>,
    queue: usize,
    claim: Claim,
    watch: &mut Option<Watch>,
) -> Result<Status, Error> {
    let channel = core.channel(queue);
    let clock = core.clock();
    let mut post = Post { channel, me: None };
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
        looks += 1;
        if looks == LOOKS_PER_CLOCK {
            looks = 0;
            let watch = watch.get_or_insert_with(|| Watch::start(core));
            if watch.is_over(core)? {
                drop(post);
                return expire(core, queue, claim.cid(), || channel.take(claim));
            }
            channel.wake_late(watch.last);
            if post.enlist(claim, watch.deadline) == Duty::Sleep {
                thread::park();
                // Whatever the reason was: after one more look comes the clock.
                looks = LOOKS_PER_CLOCK - 1;
            }
        }
        clock.relax(fruitless);
    }
}

/// A waiter's place in the roster of a queue, which it leaves however it goes.
struct Post<'c, P: Port> {
    channel: &'c Channel<P>,
    /// Once it was enlisted.
    me: Option<Thread>,
}

impl<P: Port> Post<'_, P> {
    #[cold]
    fn enlist(&mut self, claim: Claim, deadline: Instant) -> Duty {
        let me = self.me.get_or_insert_with(thread::current);
        self.channel.enlist(me.clone(), Awaits::Command(claim), deadline)
    }
}

impl<P: Port> Drop for Post<'_, P> {
    fn drop(&mut self) {
        if let Some(me) = &self.me {
            self.channel.resign(me.id());
        }
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
