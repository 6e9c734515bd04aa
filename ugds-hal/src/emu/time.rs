//! The model's time, in nanoseconds: the machine's, or a number that only moves when it is moved.

use crate::{Clock, MonotonicClock};
use core::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) enum Time {
    Real(MonotonicClock),
    Virtual(AtomicU64),
}

impl Time {
    pub(super) fn now(&self) -> u64 {
        match self {
            Self::Real(clock) => clock.now().0,
            // Acquire: whoever sees the time sees what happened before it was moved.
            Self::Virtual(now) => now.load(Ordering::Acquire),
        }
    }

    /// Moves virtual time forward to `to`. Real time moves by itself.
    pub(super) fn advance_to(&self, to: u64) {
        if let Self::Virtual(now) = self {
            // AcqRel: as above; the maximum keeps the time from running backwards.
            now.fetch_max(to, Ordering::AcqRel);
        }
    }
}
