//! A small load, and the times at which each of its requests began and ended.

use std::ops::Range;

use anyhow::Context;
use ugds::nvme::Lba;
use ugds::{Batch, Device, Instant, Namespace, Region};

use super::Pattern;
use crate::device::Area;
use crate::random::Random;

/// What to do.
pub(super) struct Load {
    pub(super) pattern: Pattern,
    pub(super) request_bytes: u64,
    pub(super) count: u32,
    pub(super) depth: u32,
    pub(super) seed: u64,
    pub(super) area: Area,
    /// Places in the area, at least `depth`.
    pub(super) slots: u64,
}

/// What was done.
pub(super) struct Requests {
    /// Those that have ended, in the order in which they began.
    pub(super) requests: Vec<Request>,
    /// The first that failed, which was the last.
    pub(super) failure: Option<anyhow::Error>,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) writes: bool,
    pub(super) lba: u64,
    pub(super) blocks: u64,
    pub(super) entered: Instant,
    pub(super) returned: Instant,
}

/// Makes the requests.
///
/// # Errors
/// When there is no memory for them. That a request failed is no error here.
pub(super) fn run(device: &Device, namespace: &Namespace, load: &Load) -> anyhow::Result<Requests> {
    let bytes = load.request_bytes as usize;
    let region = device.alloc(bytes * load.depth as usize).context("cannot register memory")?;
    let places = Places { random: Random::new(load.seed), next: 0, load, lba_bytes: namespace.lba_bytes() };
    let mut run = Run { device, namespace, region: &region, load, places, done: Vec::new() };
    let result = if load.depth == 1 {
        run.one_by_one()
    } else {
        let batch = device.batch(load.depth as usize).context("cannot make a batch")?;
        run.batched(batch)
    };
    let mut requests = run.done;
    requests.sort_by_key(|request| request.entered);
    Ok(Requests { requests, failure: result.err() })
}

struct Run<'r> {
    device: &'r Device,
    namespace: &'r Namespace,
    region: &'r Region,
    load: &'r Load,
    places: Places<'r>,
    done: Vec<Request>,
}

impl Run<'_> {
    fn one_by_one(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.load.count {
            let lba = self.places.choose(|_| false);
            let entered = self.device.now();
            let range = self.range(0);
            let result = if self.load.pattern.writes() {
                self.namespace.write(self.region, range, Lba(lba))
            } else {
                self.namespace.read(self.region, range, Lba(lba))
            };
            self.ended(lba, entered);
            result.with_context(|| self.name(lba))?;
        }
        Ok(())
    }

    fn batched(&mut self, mut batch: Batch) -> anyhow::Result<()> {
        // The request of each lane.
        let mut flights: Vec<Option<(u64, Instant)>> = vec![None; self.load.depth as usize];
        let (mut left, mut outcomes) = (self.load.count, Vec::new());
        while left != 0 || !batch.is_empty() {
            for lane in 0..flights.len() {
                if left == 0 || flights[lane].is_some() {
                    continue;
                }
                let lba = self.places.choose(|lba| flights.iter().flatten().any(|(busy, _)| *busy == lba));
                let entered = self.device.now();
                let (range, cookie) = (self.range(lane), lane as u64);
                let put = if self.load.pattern.writes() {
                    batch.write(self.namespace, self.region, range, Lba(lba), cookie)
                } else {
                    batch.read(self.namespace, self.region, range, Lba(lba), cookie)
                };
                put.with_context(|| self.name(lba))?;
                flights[lane] = Some((lba, entered));
                left -= 1;
            }
            batch.submit().context("submit")?;
            batch.harvest(1, None, &mut outcomes).context("harvest")?;
            for outcome in outcomes.drain(..) {
                let flight = flights.get_mut(outcome.cookie as usize).and_then(Option::take);
                let (lba, entered) = flight.context("an outcome without a request")?;
                self.ended(lba, entered);
                outcome.result.with_context(|| self.name(lba))?;
            }
        }
        Ok(())
    }

    fn ended(&mut self, lba: u64, entered: Instant) {
        let blocks = self.load.request_bytes / u64::from(self.namespace.lba_bytes());
        let (writes, returned) = (self.load.pattern.writes(), self.device.now());
        self.done.push(Request { writes, lba, blocks, entered, returned });
    }

    fn range(&self, lane: usize) -> Range<usize> {
        let bytes = self.load.request_bytes as usize;
        lane * bytes..(lane + 1) * bytes
    }

    fn name(&self, lba: u64) -> String {
        format!("{} {} bytes at block {lba}", self.load.pattern.name(), self.load.request_bytes)
    }
}

/// Where requests go.
struct Places<'r> {
    random: Random,
    next: u64,
    load: &'r Load,
    lba_bytes: u32,
}

impl Places<'_> {
    /// The block at which the next request begins. There are at least as many places as requests, so one is not busy.
    fn choose(&mut self, is_busy: impl Fn(u64) -> bool) -> u64 {
        if self.load.pattern.is_random() {
            self.next = self.random.below(self.load.slots);
        }
        loop {
            let offset = self.load.area.offset_bytes + self.next * self.load.request_bytes;
            self.next = (self.next + 1) % self.load.slots;
            let lba = offset / u64::from(self.lba_bytes);
            if !is_busy(lba) {
                return lba;
            }
        }
    }
}
