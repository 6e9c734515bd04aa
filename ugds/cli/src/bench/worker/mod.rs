//! A thread's requests.

mod batched;
mod blocking;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use ugds::nvme::Lba;
use ugds::{Batch, Device, Namespace, Region};

use super::Mode;
use super::job::Load;
use super::pattern::Mismatch;
use super::places::{Direction, Memory, Places, Share};
use crate::device::Area;
use crate::measure::Measure;
use crate::random::{Random, mix};

/// Makes requests: each has a lane, which is a place in registered memory.
pub(super) struct Worker {
    namespace: Namespace,
    /// Side by side, a request's bytes for each lane.
    region: Region,
    lanes: usize,
    /// One for all lanes, or with `--verify` one for each, so that no two requests are at one place at a time.
    places: Vec<Places>,
    /// Until the run begins. Without one, requests block.
    batch: Option<Batch>,
    request_bytes: usize,
    scratch: Vec<u8>,
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
    /// Worker `index` of `load`, for the requests that lie in `slots` slots of `area`.
    pub(super) fn new(
        device: &Device,
        namespace: &Namespace,
        load: &Load,
        (area, slots): (Area, u64),
        index: u32,
    ) -> anyhow::Result<Self> {
        let request_bytes = load.request_bytes as usize;
        let lanes = load.mode.lanes() as usize;
        let region = device.alloc(request_bytes * lanes).context("cannot register memory")?;
        let mut scratch = vec![0; request_bytes];
        // Zeros would be a special case for some devices.
        Random::new(mix(load.seed ^ u64::from(index))).fill(&mut scratch);
        for lane in 0..lanes {
            region.copy_in(lane * request_bytes, &scratch)?;
        }
        let places =
            |share: u32| Places::new(Share::of(share, load, area, slots), load, namespace.lba_bytes(), share);
        let each = load.shares() / load.workers();
        let batch = match load.mode {
            Mode::Sync { .. } => None,
            Mode::Batch { entries } => Some(device.batch(entries as usize).context("cannot make a batch")?),
        };
        Ok(Self {
            namespace: namespace.clone(),
            region,
            lanes,
            places: (index * each..(index + 1) * each).map(places).collect(),
            batch,
            request_bytes,
            scratch,
            found: Found::default(),
        })
    }

    /// Writes each slot once, so that all data are known.
    pub(super) fn fill(&mut self) -> anyhow::Result<()> {
        for share in 0..self.places.len() {
            // With several shares, lanes have the same numbers.
            for slot in 0..self.places[share].count() {
                self.stamp(share, slot)?;
                self.blocking(share, &self.flight(share, slot, Direction::Write))?;
            }
        }
        self.namespace.flush().context("flush")
    }

    /// Makes requests until the time is over, another worker fails, or data are wrong.
    pub(super) fn run(&mut self, time: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
        let until = Until { deadline: Instant::now() + time, stop };
        let result = match self.batch.take() {
            None => self.one_by_one(&until),
            Some(batch) => self.batched(batch, &until),
        };
        if result.is_err() || self.found.mismatch.is_some() {
            // Relaxed: as where it is read.
            stop.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Reads each slot and checks it.
    pub(super) fn check_all(&mut self) -> anyhow::Result<()> {
        for share in 0..self.places.len() {
            for slot in 0..self.places[share].count() {
                if self.found.mismatch.is_some() {
                    return Ok(());
                }
                self.blocking(share, &self.flight(share, slot, Direction::Read))?;
                self.check(share, slot)?;
            }
        }
        Ok(())
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

    /// The share that `lane` takes its places from.
    fn share(&self, lane: usize) -> usize {
        if self.places.len() == 1 { 0 } else { lane }
    }

    /// The next request of `lane`.
    fn choose(&mut self, lane: usize) -> anyhow::Result<Flight> {
        let share = self.share(lane);
        let (slot, direction) = self.places[share].choose();
        if direction == Direction::Write {
            self.stamp(lane, slot)?;
        }
        Ok(self.flight(share, slot, direction))
    }

    fn flight(&self, share: usize, slot: u64, direction: Direction) -> Flight {
        Flight { slot, direction, lba: Lba(self.places[share].first_lba(slot)) }
    }

    fn range(&self, lane: usize) -> Range<usize> {
        lane * self.request_bytes..(lane + 1) * self.request_bytes
    }

    /// Fills the memory of `lane` with what its share's `slot` is to hold.
    fn stamp(&mut self, lane: usize, slot: u64) -> anyhow::Result<()> {
        let (share, offset) = (self.share(lane), self.range(lane).start);
        let mut memory = Memory { region: &self.region, offset, scratch: &mut self.scratch };
        self.places[share].stamp(slot, &mut memory)
    }

    /// Compares the memory of `lane` with what its share's `slot` should hold, and keeps the first difference.
    fn check(&mut self, lane: usize, slot: u64) -> anyhow::Result<()> {
        let (share, offset) = (self.share(lane), self.range(lane).start);
        let mut memory = Memory { region: &self.region, offset, scratch: &mut self.scratch };
        let checked = self.places[share].check(slot, &mut memory)?;
        self.found.verified_blocks += checked.blocks;
        if self.found.mismatch.is_none() {
            self.found.mismatch = checked.mismatch;
        }
        Ok(())
    }

    /// A request that has ended well.
    fn ended(&mut self, lane: usize, flight: &Flight, time: Duration) -> anyhow::Result<()> {
        match flight.direction {
            Direction::Write => self.found.write.add(time, self.request_bytes as u64),
            Direction::Read => {
                self.found.read.add(time, self.request_bytes as u64);
                self.check(lane, flight.slot)?;
            }
        }
        Ok(())
    }
}

/// A request that was chosen.
#[derive(Clone, Copy)]
struct Flight {
    slot: u64,
    direction: Direction,
    lba: Lba,
}

impl Flight {
    /// What is told of it when it fails.
    fn name(&self, bytes: usize) -> String {
        let verb = match self.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        format!("{verb} {bytes} bytes at block {}", self.lba)
    }
}

/// The end of a run.
struct Until<'s> {
    deadline: Instant,
    stop: &'s AtomicBool,
}

impl Until<'_> {
    /// Whether requests may still begin at `now`.
    fn goes_on(&self, now: Instant) -> bool {
        // Relaxed: the flag says nothing about other memory, and is seen within a request or two.
        now < self.deadline && !self.stop.load(Ordering::Relaxed)
    }
}
