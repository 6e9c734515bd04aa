//! Choosing a queue.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A rule that spreads work over queues. It is asked from many threads at once.
pub trait Place: Send + Sync {
    /// Returns the queue, below `queues`, that the next burst of commands goes to.
    fn place(&self, queues: NonZeroUsize) -> usize;
}

/// Each queue in turn.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: AtomicUsize,
}

impl RoundRobin {
    /// Creates a rule that starts with queue 0.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: AtomicUsize::new(0) }
    }
}

impl Place for RoundRobin {
    #[inline]
    fn place(&self, queues: NonZeroUsize) -> usize {
        // Relaxed: the turn orders nothing else.
        self.next.fetch_add(1, Ordering::Relaxed) % queues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_gets_its_turn() {
        let rule = RoundRobin::new();
        let three = NonZeroUsize::new(3).unwrap();
        let turns = [(); 7].map(|()| rule.place(three));
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    }
}
