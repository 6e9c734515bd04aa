//! Waiting for a command: whoever waits reaps for everybody, and keeps an eye on the time and on the controller.

use super::channel::{Claim, Look};
use super::core::Core;
use super::expire::expire;
use crate::Error;
use nvme_proto::Status;
use std::time::Duration;
use ugds_hal::{Backend, Clock, Instant};

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

/// A look at the queue is much cheaper than a look at the clock.
const LOOKS_PER_CLOCK: u32 = 64;
/// A look at the controller is a register read: a microsecond, and rarely news.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
