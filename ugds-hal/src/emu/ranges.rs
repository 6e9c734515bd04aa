//! A set of numbers as ranges.

use std::collections::BTreeMap;

/// Disjoint ranges: start to end (exclusive).
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        if start < end {
            self.0.insert(start, end);
        }
    }

    pub(super) fn remove(&mut self, start: u64, end: u64) {
        while let Some((from, to)) = self.last_touching(start, end) {
            self.0.remove(&from);
            if from < start {
                self.0.insert(from, start);
            }
            if to > end {
                self.0.insert(end, to);
            }
        }
    }

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.last_touching(start, end).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn last_touching(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (&from, &to) = self.0.range(..end).next_back()?;
        (to > start).then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_agree_with_a_table(
            steps in proptest::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 0..40),
        ) {
            let mut ranges = Ranges::default();
            let mut table = [false; 64];
            for (insert, start, len) in steps {
                if insert { ranges.insert(start, start + len) } else { ranges.remove(start, start + len) }
                table[start as usize..(start + len) as usize].fill(insert);
                for at in 0..60 {
                    prop_assert_eq!(ranges.overlaps(at, at + 1), table[at as usize]);
                    prop_assert_eq!(ranges.overlaps(at, at + 3), table[at as usize..at as usize + 3].contains(&true));
                }
            }
        }
    }
}
