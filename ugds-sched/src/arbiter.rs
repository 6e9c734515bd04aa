//! Which level goes next, when several wait for the same room.

use crate::want::Level;

/// The number of levels.
pub const LEVELS: usize = 3;

/// Serves the most urgent level, and now and then one that was passed over often.
///
/// A level with something waiting is served after at most `patience + LEVELS - 2` others. The state belongs to whoever
/// serves a backlog; nothing in it is shared.
///
/// # Examples
///
/// ```
/// use ugds_sched::{Arbiter, Level};
///
/// let mut arbiter = Arbiter::new(3);
/// let both = [true, false, true];
/// let served: Vec<_> = (0..4).filter_map(|_| arbiter.pick(both)).collect();
/// assert_eq!(served, [Level::Urgent, Level::Urgent, Level::Urgent, Level::Background]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Arbiter {
    patience: u32,
    passed_over: [u32; LEVELS],
}

impl Arbiter {
    /// A level that waits is passed over about `patience` times, which is taken as 2 if it is less: otherwise the lower
    /// levels could take turns for ever.
    #[must_use]
    pub const fn new(patience: u32) -> Self {
        let least = LEVELS as u32 - 1;
        Self { patience: if patience < least { least } else { patience }, passed_over: [0; LEVELS] }
    }

    /// Picks among the levels that have something waiting, listed from [`Level::Urgent`] on. Nothing when none has.
    #[inline]
    pub fn pick(&mut self, waiting: [bool; LEVELS]) -> Option<Level> {
        let overdue = |at: &usize| waiting[*at] && self.passed_over[*at] >= self.patience;
        let longest = (1..LEVELS).filter(overdue).max_by_key(|at| self.passed_over[*at]);
        let picked = longest.or_else(|| waiting.iter().position(|waits| *waits))?;
        for (at, passed) in self.passed_over.iter_mut().enumerate() {
            *passed = if waiting[at] && at != picked { *passed + 1 } else { 0 };
        }
        Some(ORDER[picked])
    }
}

impl Default for Arbiter {
    /// One in nine at least goes to a level that waits.
    fn default() -> Self {
        Self::new(8)
    }
}

const ORDER: [Level; LEVELS] = [Level::Urgent, Level::Normal, Level::Background];

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urgent_goes_first() {
        let mut arbiter = Arbiter::new(8);
        assert_eq!(arbiter.pick([false; LEVELS]), None);
        assert_eq!(arbiter.pick([false, true, true]), Some(Level::Normal));
        assert_eq!(arbiter.pick([true, true, true]), Some(Level::Urgent));
    }

    proptest! {
        #[test]
        fn nobody_waits_longer_than_the_bound(
            arrivals in proptest::collection::vec(proptest::array::uniform3(0u32..3), 1..300),
            patience in 2u32..20,
        ) {
            let mut arbiter = Arbiter::new(patience);
            let (mut waiting, mut others) = ([0u32; LEVELS], [0u32; LEVELS]);
            let (mut arrived, mut served) = (0, 0);
            for arrival in arrivals {
                for (count, more) in waiting.iter_mut().zip(arrival) {
                    *count += more;
                    arrived += more;
                }
                let Some(level) = arbiter.pick(waiting.map(|count| count != 0)) else { continue };
                let picked = level as usize;
                waiting[picked] = waiting[picked].checked_sub(1).expect("it picks from those that wait");
                served += 1;
                for (at, passed) in others.iter_mut().enumerate() {
                    *passed = if at == picked || waiting[at] == 0 { 0 } else { *passed + 1 };
                    // The most urgent is passed over by each of the others at most once in a row.
                    let bound = if at == 0 { LEVELS as u32 - 1 } else { patience + LEVELS as u32 - 2 };
                    prop_assert!(*passed <= bound, "level {at} was passed over {passed} times");
                }
            }
            prop_assert_eq!(arrived - served, waiting.iter().sum::<u32>());
        }
    }
}
