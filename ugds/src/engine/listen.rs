//! Looking for somebody who sleeps elsewhere: on descriptors, in an event loop.

use super::batch::Work;
use super::channel::{Awaits, Look};
use super::core::Core;
use super::rota::{Call, Duty, Id, Role, Sleeper};
use super::wait::look;
use crate::Error;
use std::thread;
use ugds_hal::{Backend, Event, Instant};
use ugds_sched::Class;

/// What the queues of a class signal when something ended. Nothing if one of them has to be polled.
pub(super) fn interrupts<B: Backend>(core: &Core<B>, class: Class) -> Vec<Event> {
    let events = core.queues_of(class).map(|queue| core.channel(queue).event().cloned());
    events.collect::<Option<_>>().unwrap_or_default()
}

/// Takes everything out of the queues of a class, for everybody, and resets what they signalled.
pub(super) fn look_through<B: Backend>(core: &Core<B>, class: Class) -> Result<(), Error> {
    core.in_this_process()?;
    for queue in core.queues_of(class) {
        if let Some(event) = core.channel(queue).event() {
            // Before the look, so that what comes after it is not missed.
            let _ = event.clear();
        }
        loop {
            match look(core, queue)? {
                Look::Ended(0) | Look::Closed => break,
                Look::Ended(_) => {}
                // It may be past what was signalled.
                Look::Elsewhere => thread::yield_now(),
            }
        }
    }
    Ok(())
}

/// Asks for `bell` to be rung when somebody else finds an outcome of `work`. `false` when there is one already.
pub(super) fn listen<B: Backend>(core: &Core<B>, work: &Work, bell: &Event) -> bool {
    if core.in_this_process().is_err() {
        return true;
    }
    work.busy_queues().all(|queue| {
        let listener = Sleeper {
            id: Id::Landing(work.landing_id),
            role: Role::Listens,
            call: Call::Ring(bell.clone()),
            awaits: Awaits::Landing { id: work.landing_id, taken: work.taken() },
            // The event loop keeps the time.
            deadline: Instant(u64::MAX),
        };
        core.channel(queue).enlist(listener) != Duty::Over
    })
}

/// Takes back what [`listen`] asked for.
pub(super) fn ignore<B: Backend>(core: &Core<B>, work: &Work) {
    if core.in_this_process().is_ok() {
        core.channels().iter().for_each(|channel| channel.resign(Id::Landing(work.landing_id)));
    }
}
