//! One outstanding request after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use ugds::nvme::Lba;
use ugds::{Namespace, Region};

use super::Pattern;
use super::job::Limits;
use super::pattern::{Mismatch, Stamp};
use crate::device::Area;
use crate::measure::Measure;
use crate::random::{Random, mix};

/// The slots that a worker uses: requests that lie side by side from `first` on.
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
    /// The share of worker `index`. Random places are shared by all, unless their data are verified: then, and in
    /// sequences, each worker has places of its own.
    pub(super) fn of(index: u32, limits: &Limits, area: Area, slots: u64) -> Self {
        let offset_bytes = area.offset_bytes;
        let in_sequence = matches!(limits.pattern, Pattern::Read | Pattern::Write);
        if !limits.verify && !in_sequence {
            return Self { offset_bytes, first: 0, count: slots };
        }
        let start = |index: u32| (u128::from(slots) * u128::from(index) / u128::from(limits.workers)) as u64;
        Self { offset_bytes, first: start(index), count: start(index + 1) - start(index) }
    }
}

/// Makes requests, one at a time.
pub(super) struct Worker {
    namespace: Namespace,
    region: Region,
    share: Share,
    pattern: Pattern,
    request_bytes: usize,
    seed: u64,
    random: Random,
    /// The slot of the share that comes next in a sequence.
    next: u64,
    /// With `--verify`: how many times each slot of the share was written.
    versions: Option<Vec<u32>>,
    buffer: Vec<u8>,
    found: Found,
}

/// What a worker brings back.
#[derive(Default)]
struct Found {
    read: Measure,
    write: Measure,
    verified_blocks: u64,
    mismatch: Option<Mismatch>,
}

impl Worker {
    pub(super) fn new(
        namespace: Namespace,
        region: Region,
        share: Share,
        limits: &Limits,
        index: u32,
    ) -> anyhow::Result<Self> {
        let request_bytes = limits.request_bytes as usize;
        let mut random = Random::new(mix(limits.seed ^ mix(u64::from(index))));
        let mut buffer = vec![0; request_bytes];
        // Zeros would be a special case for some devices.
        random.fill(&mut buffer);
        region.copy_in(0, &buffer)?;
        Ok(Self {
            namespace,
            region,
            share,
            pattern: limits.pattern,
            request_bytes,
            seed: limits.seed,
            random,
            next: 0,
            versions: limits.verify.then(|| vec![0; share.count as usize]),
            buffer,
            found: Found::default(),
        })
    }

    pub(super) fn memory_path(&self) -> String {
        self.region.path().to_string()
    }

    pub(super) fn read_times(&self) -> &Measure {
        &self.found.read
    }

    pub(super) fn write_times(&self) -> &Measure {
        &self.found.write
    }

    pub(super) fn verified_blocks(&self) -> u64 {
        self.found.verified_blocks
    }

    pub(super) fn mismatch(&self) -> Option<&Mismatch> {
        self.found.mismatch.as_ref()
    }

    /// Writes each slot of the share once, so that all data are known.
    pub(super) fn fill(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.share.count {
            self.stamp(slot)?;
            self.request(slot, Direction::Write)?;
        }
        self.namespace.flush().context("flush")
    }

    /// Makes requests until the time is over, another worker fails, or data are wrong.
    pub(super) fn run(&mut self, time: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
        let deadline = Instant::now() + time;
        // Relaxed: the flag says nothing about other memory, and is seen within a request or two.
        while Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
            let result = self.step();
            if result.is_err() || self.found.mismatch.is_some() {
                // Relaxed: as above.
                stop.store(true, Ordering::Relaxed);
            }
            result?;
        }
        Ok(())
    }

    /// Reads each slot of the share and checks it.
    pub(super) fn check_all(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.share.count {
            if self.found.mismatch.is_some() {
                break;
            }
            self.request(slot, Direction::Read)?;
            self.check(slot)?;
        }
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let (slot, direction) = self.choose();
        if direction == Direction::Write {
            self.stamp(slot)?;
        }
        let start = Instant::now();
        self.request(slot, direction)?;
        let time = start.elapsed();
        match direction {
            Direction::Write => self.found.write.add(time, self.request_bytes as u64),
            Direction::Read => {
                self.found.read.add(time, self.request_bytes as u64);
                self.check(slot)?;
            }
        }
        Ok(())
    }

    fn choose(&mut self) -> (u64, Direction) {
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

    fn request(&self, slot: u64, direction: Direction) -> anyhow::Result<()> {
        let lba = Lba(self.first_lba(slot));
        let range = 0..self.request_bytes;
        let (verb, result) = match direction {
            Direction::Read => ("read", self.namespace.read(&self.region, range, lba)),
            Direction::Write => ("write", self.namespace.write(&self.region, range, lba)),
        };
        result.with_context(|| format!("{verb} {} bytes at block {lba}", self.request_bytes))
    }

    /// Fills the region with the next version of `slot`. Without `--verify` it keeps what it holds: random
    /// numbers, or what was read last.
    fn stamp(&mut self, slot: u64) -> anyhow::Result<()> {
        let first_lba = self.first_lba(slot);
        let lba_bytes = self.namespace.lba_bytes() as usize;
        let Some(versions) = &mut self.versions else { return Ok(()) };
        let version = &mut versions[slot as usize];
        *version = version.wrapping_add(1);
        for (lba, block) in (first_lba..).zip(self.buffer.chunks_exact_mut(lba_bytes)) {
            Stamp { seed: self.seed, lba, version: u64::from(*version) }.fill(block);
        }
        Ok(self.region.copy_in(0, &self.buffer)?)
    }

    /// Compares the region with what `slot` should hold, and keeps the first difference.
    fn check(&mut self, slot: u64) -> anyhow::Result<()> {
        let first_lba = self.first_lba(slot);
        let lba_bytes = self.namespace.lba_bytes() as usize;
        let Some(versions) = &self.versions else { return Ok(()) };
        let version = u64::from(versions[slot as usize]);
        self.region.copy_out(0, &mut self.buffer)?;
        for (lba, block) in (first_lba..).zip(self.buffer.chunks_exact(lba_bytes)) {
            match (Stamp { seed: self.seed, lba, version }).check(block) {
                Ok(()) => self.found.verified_blocks += 1,
                Err(mismatch) => {
                    self.found.mismatch.get_or_insert(mismatch);
                }
            }
        }
        Ok(())
    }

    fn first_lba(&self, slot: u64) -> u64 {
        let offset_bytes = self.share.offset_bytes + (self.share.first + slot) * self.request_bytes as u64;
        offset_bytes / u64::from(self.namespace.lba_bytes())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(pattern: Pattern, workers: u32, slots: u64, verify: bool) -> Vec<Share> {
        let limits = Limits { pattern, request_bytes: 4096, workers, time: Duration::ZERO, seed: 0, verify };
        let area = Area { offset_bytes: 8192, len_bytes: slots * 4096 };
        (0..workers).map(|index| Share::of(index, &limits, area, slots)).collect()
    }

    #[test]
    fn own_places_cover_the_area_once() {
        for (pattern, verify) in [(Pattern::Randrw, true), (Pattern::Read, false)] {
            let shares = shares(pattern, 3, 10, verify);
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
    fn random_places_are_shared() {
        for share in shares(Pattern::Randread, 3, 10, false) {
            assert_eq!(share, Share { offset_bytes: 8192, first: 0, count: 10 });
        }
    }
}
