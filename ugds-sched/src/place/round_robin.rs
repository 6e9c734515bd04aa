//! Each queue in turn.

use super::Place;
use crate::atomic::{AtomicUsize, Ordering};
use crate::loads::View;
use crate::want::Want;

/// Each queue in turn, whatever its load.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: AtomicUsize,
}

impl RoundRobin {
    /// Creates a rule that starts with queue 0.
    #[must_use]
    pub fn new() -> Self {
        Self { next: AtomicUsize::new(0) }
    }

    /// The next turn, below `queues`.
    #[inline]
    #[must_use]
    pub fn turn(&self, queues: usize) -> usize {
        // Relaxed, and no read-modify-write: two threads that meet here may take the same turn, which harms nothing.
        let next = self.next.load(Ordering::Relaxed);
        let queue = if next < queues { next } else { 0 };
        // Relaxed: as above.
        self.next.store(queue + 1, Ordering::Relaxed);
        queue
    }
}

impl Place for RoundRobin {
    #[inline]
    fn choose(&self, view: View<'_>, _: &Want) -> usize {
        self.turn(view.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_gets_its_turn() {
        let rule = RoundRobin::new();
        assert_eq!([(); 7].map(|()| rule.turn(3)), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(rule.turn(1), 0);
    }
}
