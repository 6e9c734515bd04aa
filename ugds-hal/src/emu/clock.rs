//! The clock of a model.

use super::config::Mode;
use super::model::Core;
use crate::{Clock, Event, Instant};
use core::time::Duration;
use std::sync::Arc;
use std::thread;

/// The time of a model. Under virtual time, waiting is what moves the model.
#[derive(Clone, Debug)]
pub struct EmuClock {
    core: Arc<Core>,
}

impl EmuClock {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    fn is_virtual(&self) -> bool {
        self.core.config.mode == Mode::Stepped
    }
}

impl Clock for EmuClock {
    fn now(&self) -> Instant {
        Instant(self.core.now())
    }

    /// In threads it gives the processor up early: the model needs it too. Stepped, it does one step, or moves the
    /// time by a span that grows from 1 us to 100 ms with the attempts.
    fn relax(&self, attempt: u32) {
        if self.is_virtual() {
            let span =
                (1000_u64 << (attempt / ATTEMPTS_PER_DOUBLING).min(MAX_DOUBLINGS)).min(LONGEST_SPAN_NS);
            self.core.step(Some(self.core.now().saturating_add(span)));
        } else if attempt < SPINS {
            core::hint::spin_loop();
        } else if attempt < YIELDS {
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_micros(20));
        }
    }

    fn wait_until(&self, deadline: Instant) {
        if self.is_virtual() {
            while self.core.step(Some(deadline.0)) {}
        } else {
            thread::sleep(deadline.since(self.now()));
        }
    }

    fn wait_for(&self, events: &[&Event], deadline: Instant, attempt: u32) {
        if self.is_virtual() {
            // Nobody but who waits moves the model.
            self.relax(attempt);
        } else if Event::wait_any(events, deadline.since(self.now())).is_err() {
            thread::yield_now();
        }
    }
}

const SPINS: u32 = 4;
const YIELDS: u32 = 2000;
const ATTEMPTS_PER_DOUBLING: u32 = 8;
const MAX_DOUBLINGS: u32 = 20;
const LONGEST_SPAN_NS: u64 = 100_000_000;
