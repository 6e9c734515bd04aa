//! How long commands take: an access time each, and one pipe for the data of all.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

/// The data of commands goes through the pipe one after the other, in the order in which they were fetched.
#[derive(Debug)]
pub(super) struct Pipe {
    latency: u64,
    /// Bytes per second, 0 for a pipe that takes no time.
    bandwidth: u64,
    free_at: Mutex<u64>,
}

impl Pipe {
    pub(super) fn new(latency: Duration, bandwidth_mib_s: u64) -> Self {
        let latency = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        Self { latency, bandwidth: bandwidth_mib_s.saturating_mul(1 << 20), free_at: Mutex::new(0) }
    }

    /// When a command that is fetched at `now` and moves `bytes` is done.
    pub(super) fn schedule(&self, now: u64, bytes: u64) -> u64 {
        let first_byte = now.saturating_add(self.latency);
        if self.bandwidth == 0 || bytes == 0 {
            return first_byte;
        }
        let time = u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = first_byte.max(*free_at).saturating_add(time as u64);
        *free_at
    }

    /// The span over which completions may be disordered.
    pub(super) fn latency(&self) -> u64 {
        self.latency
    }

    pub(super) fn reset(&self) {
        *self.free_at.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 4 KiB read alone takes 10.6 us on the device of the scheduling model, and waits behind what is in the pipe.
    #[test]
    fn small_reads_wait_behind_large_writes() {
        let pipe = Pipe::new(Duration::from_micros(10), 7_000_000_000 >> 20);
        assert_eq!(pipe.schedule(0, 4096) / 100, 105);
        let behind = pipe.schedule(1000, 1 << 20);
        assert!(pipe.schedule(1000, 4096) > behind);
        assert_eq!(pipe.schedule(1000, 0), 11_000);
    }
}
