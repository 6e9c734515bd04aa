//! The queue with the least work.

use super::Place;
use crate::loads::{View, bytes_in_key};
use crate::want::Want;

/// The queue that the caller used last while it is idle, else the one with the fewest bytes outstanding.
///
/// A caller alone stays on one queue, whose lines stay in its cache, for one load and one comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastLoaded {
    slack: u64,
}

impl LeastLoaded {
    /// Creates a rule that leaves a queue as soon as another one has less to do.
    #[must_use]
    pub const fn new() -> Self {
        Self { slack: 0 }
    }

    /// Creates a rule that stays on a queue with up to `slack_bytes` outstanding. The commands of a large request then
    /// share doorbells.
    #[must_use]
    pub fn with_slack(slack_bytes: u32) -> Self {
        Self { slack: bytes_in_key(slack_bytes) }
    }
}

impl Place for LeastLoaded {
    #[inline(always)]
    fn choose(&self, view: View<'_>, _: &Want) -> usize {
        if view.key(view.near()) <= self.slack { view.near() } else { view.least() }
    }

    #[inline]
    fn keeps_idle(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;
    use crate::loads::Loads;

    fn choose(rule: LeastLoaded, loads: &Loads, near: usize) -> usize {
        rule.choose(loads.view(0, 3, near, Step::First), &Want::read(4096))
    }

    #[test]
    fn an_idle_queue_nearby_is_kept() {
        let loads = Loads::new(3);
        assert_eq!(choose(LeastLoaded::new(), &loads, 2), 2);
        loads.add(2, 4096, 9).unwrap();
        assert_eq!(choose(LeastLoaded::new(), &loads, 2), 0);
        assert_eq!(choose(LeastLoaded::with_slack(8192), &loads, 2), 2);
    }

    #[test]
    fn bytes_count_before_commands() {
        let loads = Loads::new(3);
        loads.add(0, 4096, 9).unwrap();
        loads.add(1, 512, 9).unwrap();
        loads.add(1, 512, 9).unwrap();
        loads.add(2, 1024, 9).unwrap();
        assert_eq!(choose(LeastLoaded::new(), &loads, 0), 2, "as many bytes as queue 1, fewer commands");
    }
}
