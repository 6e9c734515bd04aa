//! How the completions of each queue are noticed.

use super::policy;
use crate::options::{Completions, Options};
use std::fmt;
use std::ops::Range;
use ugds_hal::{Backend, Completion, Event};
use ugds_sched::{Class, Mode};

/// For each queue, the event that its completions signal, if they do.
#[derive(Debug)]
pub(super) struct Notices {
    events: Vec<Option<Event>>,
    /// Why there are fewer than were wanted.
    reason: Option<String>,
}

impl Notices {
    /// What `options` want of a device with `queues` queues, as far as the backend has interrupts for it.
    pub(super) fn new<B: Backend>(options: &Options, queues: usize, backend: &B) -> Self {
        let wanted = wanted(options, queues);
        let mut notices = Self { events: vec![None; queues], reason: None };
        let vectors = backend.traits().vectors;
        for (queue, place) in
            notices.events.iter_mut().enumerate().filter(|(queue, _)| wanted.contains(queue))
        {
            // Each has one of its own: an event that two share would be reset by one for both. Vector 0 is the admin
            // queue's.
            let vector = queue as u16 + 1;
            if vector >= vectors {
                notices.reason = Some(format!("the device has {vectors} vectors"));
                break;
            }
            match backend.event(vector) {
                Ok(event) => *place = Some(event),
                Err(error) => {
                    notices.reason = Some(error.to_string());
                    break;
                }
            }
        }
        notices
    }

    /// What each queue is to be created with.
    pub(super) fn completions(&self) -> impl Iterator<Item = Completion> {
        self.events.iter().zip(1..).map(|(event, vector)| match event {
            None => Completion::Poll,
            Some(_) => Completion::Interrupt(vector),
        })
    }

    /// The event of each queue.
    pub(super) fn events(self) -> impl Iterator<Item = Option<Event>> {
        self.events.into_iter()
    }
}

impl fmt::Display for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interrupting = self.events.iter().flatten().count();
        write!(f, "{interrupting} of {} queues", self.events.len())?;
        match &self.reason {
            None => Ok(()),
            Some(reason) => write!(f, " ({reason})"),
        }
    }
}

/// The queues that are to interrupt.
fn wanted(options: &Options, queues: usize) -> Range<usize> {
    match (options.completions, options.settings.chosen_mode()) {
        (Completions::Interrupt, _) | (Completions::ByMode, Mode::Throughput) => 0..queues,
        (Completions::Poll, _) | (Completions::ByMode, Mode::Latency | Mode::Priority) => 0..0,
        // Small blocking calls poll, and an interrupt that nobody waits for costs processor time all the same.
        (Completions::ByMode, Mode::Adaptive) => policy::ranges(options.classes, queues).of(Class::Batch),
    }
}
