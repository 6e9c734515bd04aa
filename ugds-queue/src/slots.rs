//! The commands of one queue that may be outstanding, and their identifiers.

use alloc::boxed::Box;
use nvme_proto::Cid;

/// The most slots of a queue: 12 bits of the identifier, less the value with which FFFFh could be made.
pub const MAX_SLOTS: u16 = (1 << INDEX_BITS) - 1;

/// A fixed set of slots with a LIFO free list, so that the slot used last, still in the cache, is used next.
///
/// An identifier is the slot's index in the low 12 bits and its generation above. A slot that is free expects
/// [`Cid::NONE`], so one comparison tells an outstanding command from unknown, stale and duplicate ones.
///
/// # Invariants
///
/// Every free slot is on the list that starts at `free` exactly once, and no other is.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Box<[Slot]>,
    free: u16,
    generation_step: u16,
}

/// One outstanding command. 32 bytes: two to a cache line, none across one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Slot {
    /// The caller's name for the command.
    pub(crate) cookie: u64,
    /// The index of the memory it moves, or [`NO_MEMORY`].
    pub(crate) memory: u32,
    /// The bytes it moves.
    pub(crate) len_bytes: u32,
    /// The identifier that completes it, or [`Cid::NONE`] while free.
    expected: u16,
    /// The identifier of its next use.
    upcoming: u16,
    next_free: u16,
}

/// The memory index of a command that moves no data.
pub(crate) const NO_MEMORY: u32 = u32::MAX;

impl Slots {
    /// Makes `count` slots, at most [`MAX_SLOTS`]. Without `generations` (a quirk of some controllers) identifiers
    /// are the bare indices.
    pub(crate) fn new(count: u16, generations: bool) -> Self {
        let count = count.min(MAX_SLOTS);
        let slot = |index| Slot {
            cookie: 0,
            memory: NO_MEMORY,
            len_bytes: 0,
            expected: Cid::NONE.0,
            upcoming: index,
            next_free: if index + 1 < count { index + 1 } else { END },
        };
        Self {
            slots: (0..count).map(slot).collect(),
            free: if count == 0 { END } else { 0 },
            generation_step: if generations { 1 << INDEX_BITS } else { 0 },
        }
    }

    /// The index of the slot that [`take`](Self::take) would give next.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u16> {
        (usize::from(self.free) < self.slots.len()).then_some(self.free)
    }

    /// Takes a free slot for a command.
    #[inline]
    pub(crate) fn take(&mut self, cookie: u64, memory: u32, len_bytes: u32) -> Option<Cid> {
        let slot = self.slots.get_mut(usize::from(self.free))?;
        self.free = slot.next_free;
        *slot = Slot { cookie, memory, len_bytes, expected: slot.upcoming, ..*slot };
        Some(Cid(slot.expected))
    }

    /// Frees the slot of a completed command, and returns what it held. `None` when no such command is outstanding.
    #[inline]
    pub(crate) fn retire(&mut self, cid: Cid) -> Option<Slot> {
        let index = cid.0 & INDEX_MASK;
        let slot = self.slots.get_mut(usize::from(index))?;
        if slot.expected != cid.0 || cid == Cid::NONE {
            return None;
        }
        let done = *slot;
        slot.expected = Cid::NONE.0;
        slot.upcoming = cid.0.wrapping_add(self.generation_step);
        slot.next_free = self.free;
        self.free = index;
        Some(done)
    }

    /// Takes every slot off the free list: a wedged queue is a full one.
    pub(crate) fn close(&mut self) {
        self.free = END;
    }

    /// Whether a command that moves the memory with this index is outstanding.
    pub(crate) fn uses(&self, memory: u32) -> bool {
        self.slots.iter().any(|slot| slot.expected != Cid::NONE.0 && slot.memory == memory)
    }

    /// The commands outstanding, with their identifiers.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (Cid, &Slot)> {
        self.slots.iter().map(|slot| (Cid(slot.expected), slot)).filter(|(cid, _)| *cid != Cid::NONE)
    }

    pub(crate) fn count(&self) -> u16 {
        self.slots.len() as u16
    }
}

const INDEX_BITS: u32 = 12;
const INDEX_MASK: u16 = (1 << INDEX_BITS) - 1;
const END: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec::Vec;

    #[test]
    fn a_slot_is_two_to_a_cache_line() {
        assert_eq!(size_of::<Slot>(), 32);
    }

    #[test]
    fn stale_duplicate_and_unknown_identifiers_find_nothing() {
        let mut slots = Slots::new(3, true);
        let first = slots.take(1, NO_MEMORY, 0).unwrap();
        assert!(slots.retire(first).is_some());
        assert!(slots.retire(first).is_none(), "duplicate");
        let second = slots.take(2, NO_MEMORY, 0).unwrap();
        assert_ne!(first, second, "the generation moved on");
        assert!(slots.retire(first).is_none(), "stale");
        for unknown in [2, 3, 4094, 4095, 0x7fff, 0xffff] {
            assert!(slots.retire(Cid(unknown)).is_none(), "{unknown:#x}");
        }
        assert!(slots.retire(second).is_some());
    }

    #[test]
    fn no_identifier_is_ever_ffff() {
        let mut slots = Slots::new(u16::MAX, true);
        assert_eq!(slots.count(), MAX_SLOTS);
        let mut outstanding = Vec::new();
        for _ in 0..16 {
            while let Some(cid) = slots.take(0, 0, 0) {
                assert_ne!(cid, Cid::NONE);
                outstanding.push(cid);
            }
            outstanding.drain(..).for_each(|cid| assert!(slots.retire(cid).is_some()));
        }
    }

    #[test]
    fn without_generations_identifiers_are_indices() {
        let mut slots = Slots::new(2, false);
        for _ in 0..3 {
            let cid = slots.take(0, 0, 0).unwrap();
            assert_eq!(cid, Cid(0));
            assert!(slots.retire(cid).is_some());
        }
    }

    proptest! {
        /// Against a map as the oracle: each identifier is unique among the outstanding, and each is found once.
        #[test]
        fn slots_agree_with_a_map(count in 1u16..20, steps in proptest::collection::vec(any::<(bool, u8)>(), 0..400)) {
            let mut slots = Slots::new(count, true);
            let mut outstanding = BTreeMap::new();
            for (cookie, (take, pick)) in (0u64..).zip(steps) {
                if take {
                    let cid = slots.take(cookie, u32::from(pick), 0);
                    prop_assert_eq!(cid.is_some(), outstanding.len() < usize::from(count));
                    if let Some(cid) = cid {
                        prop_assert!(outstanding.insert(cid, (cookie, u32::from(pick))).is_none());
                    }
                } else if let Some(&cid) = outstanding.keys().nth(usize::from(pick) % outstanding.len().max(1)) {
                    let slot = slots.retire(cid).unwrap();
                    prop_assert_eq!(Some((slot.cookie, slot.memory)), outstanding.remove(&cid));
                }
                let used: BTreeSet<u32> = outstanding.values().map(|&(_, memory)| memory).collect();
                prop_assert_eq!(slots.uses(u32::from(pick)), used.contains(&u32::from(pick)));
            }
        }
    }
}
