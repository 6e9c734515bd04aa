//! The commands of one queue that may be outstanding, and their identifiers.

use nvme_proto::Cid;
use ugds_hal::{Held, Table};

/// The most slots of a queue: 12 bits of the identifier, less the value with which FFFFh could be made.
pub const MAX_SLOTS: u16 = (1 << INDEX_BITS) - 1;

/// A fixed set of slots with a LIFO free list, so that the slot used last, still in the cache, is used next.
///
/// An identifier is the slot's index in the low 12 bits and its generation above. A slot holds the identifier of its
/// command, or, while free, that of the next free slot's next command, whose index is never its own. So one comparison
/// tells an outstanding command from unknown, stale and duplicate ones.
///
/// # Invariants
///
/// - Every free slot is on the list that starts at `free` exactly once, and no other is.
/// - The last entry of the table is no slot, and so holds no identifier with its own index.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Table<Slot>,
    count: u16,
    /// The identifier of the next command, or [`END`].
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
    /// The identifier that completes it. While it is free, the one that the next free slot gives, or [`END`].
    cid: u16,
}

/// The memory index of a command that moves no data.
pub(crate) const NO_MEMORY: u32 = u32::MAX;

/// Whether identifiers of one slot differ from use to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generations {
    /// They do, so that a completion that comes twice or too late is recognized.
    #[default]
    On,
    /// They are the bare indices, for controllers that choke on anything else.
    Off,
}

impl Slots {
    /// Makes `count` slots, at most [`MAX_SLOTS`].
    pub(crate) fn new(count: u16, generations: Generations) -> Self {
        let count = count.min(MAX_SLOTS);
        let slot = |index: u16| Slot {
            cookie: 0,
            memory: NO_MEMORY,
            len_bytes: 0,
            // The last entry has the index of `END`, and so must hold something else; so do all that are no slots.
            cid: if index + 1 < count {
                index + 1
            } else if index < count {
                END
            } else {
                !index
            },
        };
        Self {
            // At least one entry more than slots.
            slots: Table::new(u16::BITS - count.leading_zeros(), slot),
            count,
            free: if count == 0 { END } else { 0 },
            generation_step: match generations {
                Generations::On => 1 << INDEX_BITS,
                Generations::Off => 0,
            },
        }
    }

    /// Whether [`take`](Self::take) would find a slot.
    #[inline]
    pub(crate) fn has_free(&self) -> bool {
        self.free != END
    }

    /// Takes a free slot for a command.
    #[inline]
    pub(crate) fn take(&mut self, cookie: u64, memory: u32, len_bytes: u32) -> Option<Cid> {
        let cid = self.free;
        if cid == END {
            return None;
        }
        let slot = self.slots.at(cid.into());
        self.free = slot.cid;
        slot.cookie = cookie;
        slot.memory = memory;
        slot.len_bytes = len_bytes;
        slot.cid = cid;
        Some(Cid(cid))
    }

    /// Frees slots in a row, with the head of the free list at hand.
    #[inline]
    pub(crate) fn retiring(&mut self) -> Retiring<'_> {
        Retiring {
            free: self.free,
            step: self.generation_step,
            slots: self.slots.hold(),
            head: &mut self.free,
        }
    }

    /// Frees the slot of a completed command, whose identifier is the low half of `tag`, and returns it. `None` when no
    /// such command is outstanding.
    #[inline]
    pub(crate) fn retire(&mut self, tag: u32) -> Option<&Slot> {
        retire(self.slots.at(tag), &mut self.free, self.generation_step, tag as u16)
    }

    /// Takes every slot off the free list: a wedged queue is a full one.
    pub(crate) fn rename(&mut self, cid: Cid, cookie: u64) {
        let slot = self.slots.at(cid.0.into());
        if slot.cid == cid.0 {
            slot.cookie = cookie;
        }
    }

    pub(crate) fn close(&mut self) {
        self.free = END;
    }

    /// Forgets every command: nothing is outstanding then, and nothing is taken any more.
    pub(crate) fn forget(&mut self) {
        self.close();
        self.slots.values_mut().iter_mut().for_each(|slot| slot.cid = 0);
        // The first slot alone has that index.
        self.slots.at(0).cid = END;
    }

    /// Whether a command that moves the memory with this index is outstanding.
    pub(crate) fn uses(&self, memory: u32) -> bool {
        self.outstanding().any(|(_, slot)| slot.memory == memory)
    }

    /// The commands outstanding, with their identifiers.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (Cid, &Slot)> {
        let own = self.slots.mask();
        let slots = self.slots.values().iter().zip(0..self.count);
        slots.filter(move |(slot, index)| slot.cid & own == *index).map(|(slot, _)| (Cid(slot.cid), slot))
    }

    /// The index of the slot that gave `cid`.
    #[inline]
    pub(crate) fn index(&self, cid: Cid) -> usize {
        usize::from(cid.0 & self.slots.mask())
    }

    /// Whether the command `cid` is outstanding.
    pub(crate) fn is_outstanding(&self, cid: Cid) -> bool {
        self.slots.values()[self.index(cid)].cid == cid.0
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }
}

/// The slots during a pass. The free list is whole again once it is finished.
pub(crate) struct Retiring<'s> {
    slots: Held<'s, Slot>,
    free: u16,
    step: u16,
    head: &'s mut u16,
}

impl Retiring<'_> {
    /// Frees the slot of a completed command, whose identifier is the low half of `tag`, and returns it. `None` when no
    /// such command is outstanding.
    #[inline]
    pub(crate) fn retire(&mut self, tag: u32) -> Option<&Slot> {
        retire(self.slots.at(tag), &mut self.free, self.step, tag as u16)
    }
}

impl Retiring<'_> {
    /// Ends the pass.
    #[inline]
    pub(crate) fn finish(self) {
        *self.head = self.free;
        core::mem::forget(self);
    }
}

#[inline]
fn retire<'s>(slot: &'s mut Slot, free: &mut u16, step: u16, cid: u16) -> Option<&'s Slot> {
    if slot.cid != cid {
        return None;
    }
    slot.cid = *free;
    *free = cid.wrapping_add(step);
    Some(slot)
}

impl Drop for Retiring<'_> {
    /// A pass that did not end was broken off by a panic, and which completions will be found again is not known. So
    /// nothing is taken from this queue any more.
    fn drop(&mut self) {
        *self.head = END;
    }
}

const INDEX_BITS: u32 = 12;
/// The end of the free list: no command's identifier.
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
        let mut slots = Slots::new(3, Generations::On);
        let first = slots.take(1, NO_MEMORY, 0).unwrap();
        assert!(slots.retire(first.0.into()).is_some());
        assert!(slots.retire(first.0.into()).is_none(), "duplicate");
        let second = slots.take(2, NO_MEMORY, 0).unwrap();
        assert_ne!(first, second, "the generation moved on");
        assert!(slots.retire(first.0.into()).is_none(), "stale");
        for unknown in [2, 3, 4094, 4095, 0x7fff, 0xffff] {
            assert!(slots.retire(unknown).is_none(), "{unknown:#x}");
        }
        assert!(slots.retire(second.0.into()).is_some());
    }

    #[test]
    fn no_identifier_is_ever_ffff() {
        let mut slots = Slots::new(u16::MAX, Generations::On);
        assert_eq!(slots.count(), MAX_SLOTS);
        let mut outstanding = Vec::new();
        for _ in 0..16 {
            while let Some(cid) = slots.take(0, 0, 0) {
                assert_ne!(cid, Cid::NONE);
                outstanding.push(cid);
            }
            outstanding.drain(..).for_each(|cid| assert!(slots.retire(cid.0.into()).is_some()));
        }
    }

    #[test]
    fn without_generations_identifiers_are_indices() {
        let mut slots = Slots::new(2, Generations::Off);
        for _ in 0..3 {
            let cid = slots.take(0, 0, 0).unwrap();
            assert_eq!(cid, Cid(0));
            assert!(slots.retire(cid.0.into()).is_some());
        }
    }

    proptest! {
        /// Against a map as the oracle: each identifier is unique among the outstanding, and each is found once.
        #[test]
        fn slots_agree_with_a_map(count in 1u16..20, steps in proptest::collection::vec(any::<(bool, u8)>(), 0..400)) {
            let mut slots = Slots::new(count, Generations::On);
            let mut outstanding = BTreeMap::new();
            for (cookie, (take, pick)) in (0u64..).zip(steps) {
                if take {
                    let cid = slots.take(cookie, u32::from(pick), 0);
                    prop_assert_eq!(cid.is_some(), outstanding.len() < usize::from(count));
                    if let Some(cid) = cid {
                        prop_assert!(outstanding.insert(cid, (cookie, u32::from(pick))).is_none());
                    }
                } else if let Some(&cid) = outstanding.keys().nth(usize::from(pick) % outstanding.len().max(1)) {
                    let slot = *slots.retire(cid.0.into()).unwrap();
                    prop_assert_eq!(Some((slot.cookie, slot.memory)), outstanding.remove(&cid));
                }
                let used: BTreeSet<u32> = outstanding.values().map(|&(_, memory)| memory).collect();
                prop_assert_eq!(slots.uses(u32::from(pick)), used.contains(&u32::from(pick)));
            }
        }
    }
}
