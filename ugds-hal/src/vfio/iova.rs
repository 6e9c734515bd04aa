//! Choosing bus addresses.

use std::collections::BTreeMap;

/// The I/O virtual addresses of one container: which may be used, and which are.
///
/// Addresses are handed out upwards and wrap round at the end, so one that was given back is used again as late as
/// possible: an access that comes too late then meets nothing.
#[derive(Debug)]
pub(super) struct Iovas {
    /// Usable ranges, first and last address, ascending.
    ranges: Vec<(u64, u64)>,
    /// What is taken, by its start; the value is its end, with the guard behind it.
    taken: BTreeMap<u64, u64>,
    next: u64,
}

impl Iovas {
    /// Starts with the ranges that the IOMMU can translate, cut to what the device can put out.
    pub(super) fn new(mut ranges: Vec<(u64, u64)>, address_mask: u64) -> Self {
        ranges.sort_unstable();
        ranges.retain(|(first, _)| *first <= address_mask);
        for (first, last) in &mut ranges {
            // Address 0 is never used: in a PRP it looks like none.
            *first = (*first).max(LOWEST);
            *last = (*last).min(address_mask);
        }
        ranges.retain(|(first, last)| first < last);
        Self { ranges, taken: BTreeMap::new(), next: 0 }
    }

    /// Takes `len` bytes, congruent with `like` modulo `align`, a power of two. `None` when there is no room.
    pub(super) fn take(&mut self, len: u64, like: u64, align: u64) -> Option<u64> {
        let start = self.search(self.next, len, like, align).or_else(|| self.search(0, len, like, align))?;
        self.next = (start + len).saturating_add(GUARD);
        self.taken.insert(start, self.next);
        Some(start)
    }

    /// Gives back what starts at `start`.
    pub(super) fn give_back(&mut self, start: u64) {
        self.taken.remove(&start);
    }

    fn search(&self, from: u64, len: u64, like: u64, align: u64) -> Option<u64> {
        self.ranges.iter().find_map(|&(first, last)| {
            let mut at = congruent(first.max(from), like, align)?;
            loop {
                let end = at.checked_add(len)?;
                if end - 1 > last {
                    return None;
                }
                // The guard may reach beyond the range, but not into a neighbour.
                match self.taken.range(..end.saturating_add(GUARD)).next_back() {
                    Some((_, &taken_end)) if taken_end > at => at = congruent(taken_end, like, align)?,
                    _ => return Some(at),
                }
            }
        })
    }
}

/// The first address from `from` on that equals `like` modulo `align`.
fn congruent(from: u64, like: u64, align: u64) -> Option<u64> {
    from.checked_add(like.wrapping_sub(from) & (align - 1))
}

const LOWEST: u64 = 1 << 20;
/// A gap between mappings, so that an access beyond the end of one meets nothing.
const GUARD: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reserved_ranges_and_the_mask_are_kept() {
        let mut iovas = Iovas::new(vec![(0, 0xfedf_ffff), (0xfef0_0000, u64::MAX)], (1 << 33) - 1);
        let mut last = 0;
        while let Some(start) = iovas.take(64 << 20, 0, 4096) {
            let end = start + (64 << 20);
            assert!(start >= LOWEST && end <= 1 << 33);
            assert!(end <= 0xfee0_0000 || start >= 0xfef0_0000, "{start:#x}");
            last = start;
        }
        assert!(last > 0xfef0_0000, "both ranges were used");
    }

    #[test]
    fn what_was_given_back_is_used_again_last() {
        let mut iovas = Iovas::new(vec![(0, (16 << 20) - 1)], u64::MAX);
        let first = iovas.take(1 << 20, 0, 4096).unwrap();
        iovas.give_back(first);
        let others = std::iter::from_fn(|| iovas.take(1 << 20, 0, 4096)).position(|start| start == first);
        assert!(others.is_some_and(|others| others > 10), "{others:?} others came before");
    }

    proptest! {
        #[test]
        fn nothing_overlaps_and_everything_is_congruent(
            steps in proptest::collection::vec((1u64..300, 0u64..1 << 30, 12u32..22, any::<bool>()), 1..200),
        ) {
            let mut iovas = Iovas::new(vec![(0, (1 << 28) - 1), (1 << 32, (1 << 32) + (1 << 28))], u64::MAX);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (pages, like, shift, free) in steps {
                if free && !live.is_empty() {
                    iovas.give_back(live.swap_remove(like as usize % live.len()).0);
                }
                let (len, align) = (pages << 12, 1u64 << shift);
                if let Some(start) = iovas.take(len, like, align) {
                    prop_assert_eq!(start % align, like % align);
                    prop_assert!(live.iter().all(|(s, e)| start >= *e + GUARD || start + len + GUARD <= *s));
                    live.push((start, start + len));
                }
            }
        }
    }
}
