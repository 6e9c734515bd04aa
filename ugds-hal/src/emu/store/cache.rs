//! The volatile write cache: what is written lives here until it is flushed or pushed out, and a crash loses it.

use super::{Medium, MediumError};
use crate::emu::rng::SplitMix;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines of 4 KiB, each valid by sectors of 512 bytes.
#[derive(Debug)]
pub(super) struct Cache {
    max_lines: usize,
    /// How many lines there are, so that reads of a clean cache take no lock.
    lines: AtomicUsize,
    inner: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    by_number: HashMap<u64, Line>,
    /// The numbers in the order of their first write. A number without its line was dropped since.
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Line {
    data: Box<[u8; LINE_BYTES]>,
    /// Bit n: sector n holds newer data than the medium.
    valid: u8,
}

impl Cache {
    pub(super) fn new(size_bytes: u64) -> Self {
        let max_lines = usize::try_from(size_bytes / LINE_BYTES as u64).unwrap_or(usize::MAX).max(1);
        Self { max_lines, lines: AtomicUsize::new(0), inner: Mutex::default() }
    }

    pub(super) fn read(&self, medium: &Medium, offset: u64, to: &mut [u8]) -> Result<(), MediumError> {
        // Relaxed: a write that completed before this read was fetched is ordered by the queues' doorbells.
        if self.lines.load(Ordering::Relaxed) == 0 {
            return medium.read(offset, to);
        }
        let lines = self.lock();
        let mut done = 0;
        for (number, first, count) in spans(offset, to.len()) {
            let out = &mut to[done..done + count * SECTOR_BYTES];
            let at = offset + done as u64;
            lines.read_span(medium, number, first, at, out)?;
            done += out.len();
        }
        Ok(())
    }

    pub(super) fn write(&self, medium: &Medium, offset: u64, from: &[u8]) -> Result<(), MediumError> {
        let mut lines = self.lock();
        let mut done = 0;
        for (number, first, count) in spans(offset, from.len()) {
            lines.store(number, first, &from[done..done + count * SECTOR_BYTES]);
            done += count * SECTOR_BYTES;
        }
        while lines.by_number.len() > self.max_lines {
            lines.write_oldest_back(medium)?;
        }
        self.note(&lines);
        Ok(())
    }

    pub(super) fn write_through(&self, medium: &Medium, offset: u64, from: &[u8]) -> Result<(), MediumError> {
        if self.lines.load(Ordering::Relaxed) == 0 {
            return medium.write(offset, from);
        }
        let mut lines = self.lock();
        medium.write(offset, from)?;
        lines.discard(offset, from.len() as u64);
        self.note(&lines);
        Ok(())
    }

    pub(super) fn zero(&self, medium: &Medium, offset: u64, len: u64) -> Result<(), MediumError> {
        let mut lines = self.lock();
        medium.zero(offset, len)?;
        lines.discard(offset, len);
        self.note(&lines);
        Ok(())
    }

    pub(super) fn flush(&self, medium: &Medium) -> Result<(), MediumError> {
        let mut lines = self.lock();
        while !lines.by_number.is_empty() {
            lines.write_oldest_back(medium)?;
        }
        lines.order.clear();
        self.note(&lines);
        drop(lines);
        medium.sync()
    }

    pub(super) fn lose(&self, medium: &Medium, survivors: Option<u64>) {
        let mut lines = self.lock();
        if let Some(seed) = survivors {
            let mut rng = SplitMix::new(seed);
            let mut left: Vec<_> = lines.by_number.drain().collect();
            left.sort_unstable_by_key(|(number, _)| *number);
            for (number, mut line) in left {
                line.valid &= rng.next() as u8;
                // The power is gone: nobody is there to be told.
                let _ = line.write_back(medium, number);
            }
        }
        *lines = Lines::default();
        self.note(&lines);
    }

    pub(super) fn dirty_bytes(&self) -> u64 {
        let lines = self.lock();
        let sectors: u64 = lines.by_number.values().map(|line| u64::from(line.valid.count_ones())).sum();
        sectors * SECTOR_BYTES as u64
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, lines: &Lines) {
        self.lines.store(lines.by_number.len(), Ordering::Relaxed);
    }
}

impl Lines {
    fn read_span(
        &self,
        medium: &Medium,
        number: u64,
        first: usize,
        at: u64,
        out: &mut [u8],
    ) -> Result<(), MediumError> {
        let Some(line) = self.by_number.get(&number) else { return medium.read(at, out) };
        for (i, sector) in out.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            let index = first + i;
            if line.valid & 1 << index != 0 {
                sector.copy_from_slice(&line.data[index * SECTOR_BYTES..][..SECTOR_BYTES]);
            } else {
                medium.read(at + (i * SECTOR_BYTES) as u64, sector)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, number: u64, first: usize, bytes: &[u8]) {
        let line = self.by_number.entry(number).or_insert_with(|| {
            self.order.push_back(number);
            Line { data: Box::new([0; LINE_BYTES]), valid: 0 }
        });
        line.data[first * SECTOR_BYTES..][..bytes.len()].copy_from_slice(bytes);
        line.valid |= mask(first, bytes.len() / SECTOR_BYTES);
    }

    fn write_oldest_back(&mut self, medium: &Medium) -> Result<(), MediumError> {
        let Some(&number) = self.order.front() else {
            self.by_number.clear();
            return Ok(());
        };
        if let Some(line) = self.by_number.get(&number) {
            line.write_back(medium, number)?;
            self.by_number.remove(&number);
        }
        self.order.pop_front();
        Ok(())
    }

    /// Drops what is cached of a range that the medium has just got.
    fn discard(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let touched = |number: u64| {
            let start = number * LINE_BYTES as u64;
            start < end && start + LINE_BYTES as u64 > offset
        };
        self.by_number.retain(|&number, line| {
            if touched(number) {
                for sector in 0..SECTORS {
                    let at = number * LINE_BYTES as u64 + (sector * SECTOR_BYTES) as u64;
                    if at >= offset && at < end {
                        line.valid &= !(1 << sector);
                    }
                }
            }
            line.valid != 0
        });
        let kept = &self.by_number;
        self.order.retain(|number| kept.contains_key(number));
    }
}

impl Line {
    fn write_back(&self, medium: &Medium, number: u64) -> Result<(), MediumError> {
        let base = number * LINE_BYTES as u64;
        if self.valid == u8::MAX {
            return medium.write(base, &self.data[..]);
        }
        for sector in (0..SECTORS).filter(|sector| self.valid & 1 << sector != 0) {
            let at = sector * SECTOR_BYTES;
            medium.write(base + at as u64, &self.data[at..at + SECTOR_BYTES])?;
        }
        Ok(())
    }
}

/// The lines that a range touches: each with its first sector and how many.
fn spans(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut sector = offset / SECTOR_BYTES as u64;
    let end = sector + (len / SECTOR_BYTES) as u64;
    core::iter::from_fn(move || {
        if sector >= end {
            return None;
        }
        let first = (sector % SECTORS as u64) as usize;
        let count = (SECTORS - first).min((end - sector) as usize);
        let number = sector / SECTORS as u64;
        sector += count as u64;
        Some((number, first, count))
    })
}

fn mask(first: usize, count: usize) -> u8 {
    (((1_u16 << count) - 1) << first) as u8
}

const SECTOR_BYTES: usize = 512;
const SECTORS: usize = 8;
const LINE_BYTES: usize = SECTORS * SECTOR_BYTES;

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryMedium;
    use super::*;
    use proptest::prelude::*;

    fn medium() -> Medium {
        Medium::Memory(MemoryMedium::default())
    }

    fn read(cache: &Cache, medium: &Medium, sector: u64) -> u8 {
        let mut out = [0xee; 512];
        cache.read(medium, sector * 512, &mut out).unwrap();
        assert!(out.iter().all(|b| *b == out[0]));
        out[0]
    }

    #[test]
    fn a_crash_loses_what_was_not_flushed_and_nothing_else() {
        let (cache, medium) = (Cache::new(1 << 20), medium());
        cache.write(&medium, 0, &[1; 4096]).unwrap();
        cache.flush(&medium).unwrap();
        cache.write(&medium, 512, &[2; 1024]).unwrap();
        cache.write_through(&medium, 1024, &[3; 512]).unwrap();
        assert_eq!((0..4).map(|s| read(&cache, &medium, s)).collect::<Vec<_>>(), [1, 2, 3, 1]);
        assert_eq!(cache.dirty_bytes(), 512);
        cache.lose(&medium, None);
        assert_eq!((0..4).map(|s| read(&cache, &medium, s)).collect::<Vec<_>>(), [1, 1, 3, 1]);
    }

    #[test]
    fn a_full_cache_writes_the_oldest_back() {
        let (cache, medium) = (Cache::new(2 * 4096), medium());
        for line in 0..5 {
            cache.write(&medium, line * 4096, &[line as u8 + 1; 4096]).unwrap();
        }
        cache.lose(&medium, None);
        let kept: Vec<_> = (0..5).map(|line| read(&cache, &medium, line * 8)).collect();
        assert_eq!(kept, [1, 2, 3, 0, 0]);
    }

    proptest! {
        /// Whatever is done, reads see the last write; after a flush, so does the medium.
        #[test]
        fn reads_see_the_last_write(
            steps in proptest::collection::vec((0u8..5, 0u64..60, 1u64..30, 1u8..255), 1..60),
        ) {
            let (cache, medium) = (Cache::new(3 * 4096), medium());
            let mut expected = [0u8; 90];
            for (what, start, count, value) in steps {
                let data = vec![value; count as usize * 512];
                let at = start * 512;
                match what {
                    0 | 1 => cache.write(&medium, at, &data).unwrap(),
                    2 => cache.write_through(&medium, at, &data).unwrap(),
                    3 => cache.zero(&medium, at, count * 512).unwrap(),
                    _ => cache.flush(&medium).unwrap(),
                }
                if what < 4 {
                    let value = if what == 3 { 0 } else { value };
                    expected[start as usize..(start + count) as usize].fill(value);
                }
                for (sector, value) in expected.iter().enumerate() {
                    prop_assert_eq!(read(&cache, &medium, sector as u64), *value);
                }
            }
            cache.flush(&medium).unwrap();
            cache.lose(&medium, None);
            for (sector, value) in expected.iter().enumerate() {
                prop_assert_eq!(read(&cache, &medium, sector as u64), *value);
            }
        }
    }
}
