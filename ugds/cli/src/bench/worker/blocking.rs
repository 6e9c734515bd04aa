//! Requests that block their thread, one after the other.

use std::time::Instant;

use anyhow::Context;

use super::{Flight, Until, Worker};
use crate::bench::places::Direction;

impl Worker {
    /// Makes requests on one lane until the end, or until data are wrong.
    pub(super) fn one_by_one(&mut self, until: &Until<'_>) -> anyhow::Result<()> {
        while self.found.mismatch.is_none() && until.goes_on(Instant::now()) {
            let flight = self.choose(0)?;
            let start = Instant::now();
            self.blocking(0, &flight)?;
            let time = start.elapsed();
            self.ended(0, &flight, time)?;
        }
        Ok(())
    }

    /// Makes one request from or to the memory of `lane`.
    pub(super) fn blocking(&self, lane: usize, flight: &Flight) -> anyhow::Result<()> {
        let range = self.range(lane);
        let result = match flight.direction {
            Direction::Read => self.namespace.read(&self.region, range, flight.lba),
            Direction::Write => self.namespace.write(&self.region, range, flight.lba),
        };
        result.with_context(|| flight.name(self.request_bytes))
    }
}
