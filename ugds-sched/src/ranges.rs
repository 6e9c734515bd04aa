//! Which queues each front door may use.

use crate::want::Class;
use core::ops::Range;

/// The queues of each [`Class`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// By the number of the class.
    of: [Range<usize>; CLASSES],
}

/// The number of classes.
pub(crate) const CLASSES: usize = 3;

/// Ranges that no device could have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangesError {
    /// A class without a queue.
    #[error("{class:?} requests have no queue; each class needs at least one")]
    Empty {
        /// The class.
        class: Class,
    },
    /// A class with queues that are not there.
    #[error("{class:?} requests have queues up to {end}, but there are {queues}")]
    TooFew {
        /// The class.
        class: Class,
        /// One past the last of its queues.
        end: usize,
        /// The queues that there are.
        queues: usize,
    },
}

impl Ranges {
    /// Every class may use all `queues`.
    #[must_use]
    pub fn shared(queues: usize) -> Self {
        Self::new(0..queues, 0..queues, 0..queues)
    }

    /// The first half, rounded up, for [`Class::Sync`]; the rest for [`Class::Batch`], whose last queue is also that of
    /// [`Class::Control`]. A single queue is shared.
    #[must_use]
    pub fn parted(queues: usize) -> Self {
        if queues < 2 {
            return Self::shared(queues);
        }
        let half = queues.div_ceil(2);
        Self::new(0..half, half..queues, queues - 1..queues)
    }

    /// Ranges of one's own. They may overlap.
    #[must_use]
    pub fn new(sync: Range<usize>, batch: Range<usize>, control: Range<usize>) -> Self {
        Self { of: [sync, batch, control] }
    }

    /// The queues of `class`.
    #[must_use]
    pub fn of(&self, class: Class) -> Range<usize> {
        self.of[class as usize].clone()
    }

    /// Whether they fit a device with `queues` queues.
    pub(crate) fn check(&self, queues: usize) -> Result<(), RangesError> {
        for class in [Class::Sync, Class::Batch, Class::Control] {
            let range = self.of(class);
            if range.is_empty() {
                return Err(RangesError::Empty { class });
            }
            if range.end > queues {
                return Err(RangesError::TooFew { class, end: range.end, queues });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_parted_by_table() {
        for (queues, sync, batch, control) in
            [(1, 0..1, 0..1, 0..1), (2, 0..1, 1..2, 1..2), (4, 0..2, 2..4, 3..4), (5, 0..3, 3..5, 4..5)]
        {
            assert_eq!(Ranges::parted(queues), Ranges::new(sync, batch, control));
            Ranges::parted(queues).check(queues).unwrap();
        }
    }

    #[test]
    fn impossible_ranges_are_refused() {
        assert_eq!(Ranges::shared(0).check(0), Err(RangesError::Empty { class: Class::Sync }));
        let far = Ranges::new(0..1, 0..3, 0..1);
        assert_eq!(far.check(2), Err(RangesError::TooFew { class: Class::Batch, end: 3, queues: 2 }));
    }
}
