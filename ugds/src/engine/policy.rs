//! The scheduler of a device, as its options want it.

use crate::options::{Classes, Options, Policy};
use crate::stats::QueueClass;
use ugds_queue::controller::Facts;
use ugds_sched::{
    Class, HeldQueue, LeastLoaded, Place, Ranges, RoundRobin, Scheduler, SchedulerError, Tuning, View, Want,
};

/// The rule that the options chose. One type, so that the most common rule is inlined.
#[derive(Debug)]
pub(crate) enum Rule {
    LeastLoaded(LeastLoaded),
    RoundRobin(RoundRobin),
    HeldQueue(HeldQueue),
}

impl Place for Rule {
    #[inline(always)]
    fn keeps_idle(&self) -> bool {
        matches!(self, Self::LeastLoaded(_))
    }

    #[inline(always)]
    fn choose(&self, view: View<'_>, want: &Want) -> usize {
        match self {
            Self::LeastLoaded(rule) => rule.choose(view, want),
            Self::RoundRobin(rule) => rule.choose(view, want),
            Self::HeldQueue(rule) => rule.choose(view, want),
        }
    }
}

/// Makes the scheduler of a device with `queues` queues of `slots` commands each.
pub(super) fn scheduler(
    options: &Options,
    facts: &Facts,
    queues: usize,
    slots: u16,
) -> Result<Scheduler<Rule>, SchedulerError> {
    let rule = match options.policy {
        Policy::LeastLoaded => Rule::LeastLoaded(LeastLoaded::new()),
        Policy::RoundRobin => Rule::RoundRobin(RoundRobin::new()),
        Policy::HeldQueue => Rule::HeldQueue(HeldQueue::new()),
    };
    let mut tuning = Tuning::default();
    tuning.transfer_max_bytes = facts.max_transfer_bytes;
    // What is placed has a slot.
    tuning.queue_commands = slots.into();
    Scheduler::new(queues, rule, &ranges(options.classes, queues), tuning)
}

pub(super) fn ranges(classes: Classes, queues: usize) -> Ranges {
    match classes {
        Classes::Parted if queues >= PARTED_FROM => Ranges::parted(queues),
        _ => Ranges::shared(queues),
    }
}

/// What the queue with this index is for.
pub(super) fn class_of(ranges: &Ranges, queue: usize) -> QueueClass {
    match [Class::Sync, Class::Batch].map(|class| ranges.of(class).contains(&queue)) {
        [true, false] => QueueClass::Sync,
        [false, true] => QueueClass::Batch,
        [true, true] => QueueClass::Shared,
        [false, false] => QueueClass::Control,
    }
}

/// With fewer queues, one of them idle would be a loss.
const PARTED_FROM: usize = 4;
