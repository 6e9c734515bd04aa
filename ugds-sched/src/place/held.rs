//! The rule of the uGDS paper: round-robin, and a request keeps its queue.

use super::{Place, RoundRobin, Step};
use crate::loads::View;
use crate::want::Want;

/// Each request takes the next queue in turn and holds it for all its commands.
///
/// It is here to be compared with: `cargo xtask bench sched` shows what it costs a small read beside large writes.
#[derive(Debug, Default)]
pub struct HeldQueue {
    turns: RoundRobin,
}

impl HeldQueue {
    /// Creates a rule that starts with queue 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Place for HeldQueue {
    #[inline]
    fn choose(&self, view: View<'_>, _: &Want) -> usize {
        match view.step() {
            Step::First => self.turns.turn(view.len()),
            Step::Next => view.near(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::Loads;

    #[test]
    fn a_request_keeps_its_queue() {
        let (rule, loads, want) = (HeldQueue::new(), Loads::new(3), Want::read(1 << 20));
        assert_eq!(rule.choose(loads.view(0, 3, 2, Step::First), &want), 0);
        assert_eq!(rule.choose(loads.view(0, 3, 0, Step::Next), &want), 0);
        assert_eq!(rule.choose(loads.view(0, 3, 0, Step::First), &want), 1);
    }
}
