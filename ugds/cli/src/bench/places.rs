//! Where requests go, and what is there.

use ugds::Region;

use super::Pattern;
use super::job::Load;
use super::pattern::{Mismatch, Stamp};
use crate::device::Area;
use crate::random::{Random, mix};

/// Slots: requests that lie side by side from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The first byte of the area on the namespace.
    pub(super) offset_bytes: u64,
    /// Its first slot in the area.
    pub(super) first: u64,
    /// How many there are.
    pub(super) count: u64,
}

impl Share {
    /// Share `index` of those that `load` needs. Random places are shared by all, unless their data are verified:
    /// then, and in sequences, each share is apart from the others.
    pub(super) fn of(index: u32, load: &Load, area: Area, slots: u64) -> Self {
        let offset_bytes = area.offset_bytes;
        let in_sequence = matches!(load.pattern, Pattern::Read | Pattern::Write);
        if !load.verify && !in_sequence {
            return Self { offset_bytes, first: 0, count: slots };
        }
        let start = |index: u32| (u128::from(slots) * u128::from(index) / u128::from(load.shares())) as u64;
        Self { offset_bytes, first: start(index), count: start(index + 1) - start(index) }
    }
}

/// Hands out places for requests, and knows what was written there.
pub(super) struct Places {
    share: Share,
    pattern: Pattern,
    request_bytes: usize,
    lba_bytes: usize,
    seed: u64,
    random: Random,
    /// The slot of the share that comes next in a sequence.
    next: u64,
    /// With `--verify`: how many times each slot of the share was written.
    versions: Option<Vec<u32>>,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// What a comparison found.
pub(super) struct Checked {
    /// Blocks that were right.
    pub(super) blocks: u64,
    /// The first block that was not.
    pub(super) mismatch: Option<Mismatch>,
}

impl Places {
    /// The places of share `index`.
    pub(super) fn new(share: Share, load: &Load, lba_bytes: u32, index: u32) -> Self {
        Self {
            share,
            pattern: load.pattern,
            request_bytes: load.request_bytes as usize,
            lba_bytes: lba_bytes as usize,
            seed: load.seed,
            random: Random::new(mix(load.seed ^ mix(u64::from(index)))),
            next: 0,
            versions: load.verify.then(|| vec![0; share.count as usize]),
        }
    }

    /// How many slots there are.
    pub(super) fn count(&self) -> u64 {
        self.share.count
    }

    /// The next request.
    pub(super) fn choose(&mut self) -> (u64, Direction) {
        match self.pattern {
            Pattern::Read => (self.in_sequence(), Direction::Read),
            Pattern::Write => (self.in_sequence(), Direction::Write),
            Pattern::Randread => (self.random.below(self.share.count), Direction::Read),
            Pattern::Randwrite => (self.random.below(self.share.count), Direction::Write),
            Pattern::Randrw => {
                let direction = if self.random.below(2) == 0 { Direction::Read } else { Direction::Write };
                (self.random.below(self.share.count), direction)
            }
        }
    }

    fn in_sequence(&mut self) -> u64 {
        let slot = self.next;
        self.next = if slot + 1 == self.share.count { 0 } else { slot + 1 };
        slot
    }

    /// The first block of `slot`.
    pub(super) fn first_lba(&self, slot: u64) -> u64 {
        let offset_bytes = self.share.offset_bytes + (self.share.first + slot) * self.request_bytes as u64;
        offset_bytes / self.lba_bytes as u64
    }

    /// Fills `memory` with the next version of `slot`. Without `--verify` it keeps what it holds: random numbers, or
    /// what was read last.
    pub(super) fn stamp(&mut self, slot: u64, memory: &mut Memory<'_>) -> anyhow::Result<()> {
        let (seed, first_lba) = (self.seed, self.first_lba(slot));
        let Some(versions) = &mut self.versions else { return Ok(()) };
        let version = &mut versions[slot as usize];
        *version = version.wrapping_add(1);
        for (lba, block) in (first_lba..).zip(memory.scratch.chunks_exact_mut(self.lba_bytes)) {
            Stamp { seed, lba, version: u64::from(*version) }.fill(block);
        }
        Ok(memory.region.copy_in(memory.offset, memory.scratch)?)
    }

    /// Compares `memory` with what `slot` should hold. Nothing is found without `--verify`.
    pub(super) fn check(&self, slot: u64, memory: &mut Memory<'_>) -> anyhow::Result<Checked> {
        let mut checked = Checked { blocks: 0, mismatch: None };
        let Some(versions) = &self.versions else { return Ok(checked) };
        let version = u64::from(versions[slot as usize]);
        memory.region.copy_out(memory.offset, memory.scratch)?;
        for (lba, block) in (self.first_lba(slot)..).zip(memory.scratch.chunks_exact(self.lba_bytes)) {
            match (Stamp { seed: self.seed, lba, version }).check(block) {
                Ok(()) => checked.blocks += 1,
                Err(mismatch) => {
                    checked.mismatch.get_or_insert(mismatch);
                }
            }
        }
        Ok(checked)
    }
}

/// The registered memory of a request, and as much that is not.
pub(super) struct Memory<'w> {
    pub(super) region: &'w Region,
    /// Where in `region` it starts.
    pub(super) offset: usize,
    pub(super) scratch: &'w mut [u8],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Mode;
    use std::time::Duration;

    fn shares(pattern: Pattern, threads: u32, slots: u64, verify: bool) -> Vec<Share> {
        let (time, mode) = (Duration::ZERO, Mode::Sync { depth: 1 });
        let load = Load { pattern, mode, request_bytes: 4096, threads, time, seed: 0, verify };
        let area = Area { offset_bytes: 8192, len_bytes: slots * 4096 };
        (0..load.shares()).map(|index| Share::of(index, &load, area, slots)).collect()
    }

    #[test]
    fn own_places_cover_the_area_once() {
        for (pattern, verify) in [(Pattern::Randrw, true), (Pattern::Read, false)] {
            let shares = shares(pattern, 3, 10, verify);
            assert_eq!(shares.len(), 3);
            let mut next = 0;
            for share in &shares {
                assert_eq!(share.first, next);
                assert!(share.count > 0);
                next += share.count;
            }
            assert_eq!(next, 10);
        }
    }

    #[test]
    fn lanes_of_a_batch_share_a_sequence_but_no_verified_data() {
        let load = |pattern, verify| {
            let (time, mode) = (Duration::ZERO, Mode::Batch { entries: 4 });
            Load { pattern, mode, request_bytes: 4096, threads: 2, time, seed: 0, verify }
        };
        assert_eq!(load(Pattern::Read, false).shares(), 2);
        assert_eq!(load(Pattern::Read, true).shares(), 8);
        assert_eq!(load(Pattern::Randrw, true).shares(), 8);
    }

    #[test]
    fn random_places_are_shared() {
        for share in shares(Pattern::Randread, 3, 10, false) {
            assert_eq!(share, Share { offset_bytes: 8192, first: 0, count: 10 });
        }
    }
}
