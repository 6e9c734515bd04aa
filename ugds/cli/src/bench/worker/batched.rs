//! Requests in a batch that is kept full: whatever has ended makes room for the next ones, which go together.

use std::time::Instant;

use anyhow::Context;
use ugds::Batch;

use super::{Flight, Until, Worker};
use crate::bench::places::Direction;

/// What is out.
struct Sky {
    /// The request of each lane.
    flights: Vec<Option<Flight>>,
    /// When the device was given it.
    starts: Vec<Instant>,
    /// Lanes without one.
    idle: Vec<usize>,
}

impl Worker {
    /// Makes requests on all lanes until the end, or until data are wrong, and waits for those that are out.
    pub(super) fn batched(&mut self, mut batch: Batch, until: &Until<'_>) -> anyhow::Result<()> {
        let lanes = self.lanes;
        let mut now = Instant::now();
        let mut sky =
            Sky { flights: vec![None; lanes], starts: vec![now; lanes], idle: (0..lanes).collect() };
        let mut outcomes = Vec::with_capacity(lanes);
        loop {
            if self.found.mismatch.is_none() && until.goes_on(now) {
                self.launch(&mut batch, &mut sky)?;
            }
            if batch.is_empty() {
                return Ok(());
            }
            batch.harvest(1, None, &mut outcomes).context("harvest")?;
            now = Instant::now();
            for outcome in outcomes.drain(..) {
                let lane = outcome.cookie as usize;
                let flight = sky.flights[lane].take().context("an outcome without a request")?;
                outcome.result.with_context(|| flight.name(self.request_bytes))?;
                self.ended(lane, &flight, now - sky.starts[lane])?;
                sky.idle.push(lane);
            }
        }
    }

    /// Gives each idle lane a request.
    fn launch(&mut self, batch: &mut Batch, sky: &mut Sky) -> anyhow::Result<()> {
        for &lane in &sky.idle {
            let flight = self.choose(lane)?;
            let (range, cookie) = (self.range(lane), lane as u64);
            let put = match flight.direction {
                Direction::Read => batch.read(&self.namespace, &self.region, range, flight.lba, cookie),
                Direction::Write => batch.write(&self.namespace, &self.region, range, flight.lba, cookie),
            };
            put.with_context(|| flight.name(self.request_bytes))?;
            sky.flights[lane] = Some(flight);
        }
        // One look at the clock for all of them: the device is given all at once.
        let start = Instant::now();
        sky.idle.drain(..).for_each(|lane| sky.starts[lane] = start);
        batch.submit().context("submit")?;
        Ok(())
    }
}
