//! The numbers behind the decisions, each for one device.

/// What a scheduler knows about its device. The defaults suit a device of 7 GB/s with an access time of 10 us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// A request of up to so many bytes is small.
    pub small_bytes: u32,
    /// The most bytes of a command (MDTS, and what a list of pages can hold).
    pub transfer_max_bytes: u32,
    /// The least bytes that a large request which is not held back is cut into.
    pub pipeline_bytes: u32,
    /// The most bytes of a command in the background while small reads are about: such a command can't be preempted, so
    /// each makes a small read wait as long as it takes.
    pub background_chunk_bytes: u32,
    /// Background bytes in flight on the device while small reads are about.
    pub background_bytes: u64,
    /// The same in [`Mode::Priority`](crate::Mode::Priority).
    pub priority_bytes: u64,
    /// The same in [`Mode::Adaptive`](crate::Mode::Adaptive) while no small reads are about. The first small read waits
    /// behind as much.
    pub quiet_bytes: u64,
    /// Small reads are about until so many background bytes went by without one.
    pub presence_bytes: u64,
    /// The most commands outstanding on a queue.
    pub queue_commands: u32,
}

/// Numbers with which nothing would ever move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TuningError {
    /// A size that is 0.
    #[error("{name} is 0; at least 1 is needed")]
    Zero {
        /// Its name in [`Tuning`].
        name: &'static str,
    },
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            small_bytes: 16 << 10,
            transfer_max_bytes: 1 << 20,
            pipeline_bytes: 128 << 10,
            background_chunk_bytes: 32 << 10,
            background_bytes: 128 << 10,
            priority_bytes: 96 << 10,
            quiet_bytes: 1 << 20,
            presence_bytes: 64 << 20,
            queue_commands: 1023,
        }
    }
}

impl Tuning {
    /// The numbers for a device whose pipe moves `bytes_per_s` and whose commands take `access_ns` before they move data.
    ///
    /// To fill the pipe, the bytes in flight must last for the access time and one chunk more. The cap is that, rounded
    /// up to whole chunks; in [`Mode::Priority`](crate::Mode::Priority) it is rounded down, and small requests fill the
    /// gap. Small reads are remembered for about 9 ms of the pipe.
    #[must_use]
    pub fn for_device(bytes_per_s: u64, access_ns: u64) -> Self {
        let tuning = Self::default();
        let chunk_bytes = u64::from(tuning.background_chunk_bytes);
        let access_bytes = bytes_per_s / 1000 * access_ns / 1_000_000;
        Self {
            background_bytes: (access_bytes + chunk_bytes).div_ceil(chunk_bytes) * chunk_bytes,
            priority_bytes: (access_bytes + chunk_bytes) / chunk_bytes * chunk_bytes,
            quiet_bytes: (access_bytes * QUIET_FACTOR).next_power_of_two(),
            presence_bytes: bytes_per_s * PRESENCE_MS / 1000,
            ..tuning
        }
    }

    pub(crate) fn check(&self) -> Result<(), TuningError> {
        let sizes = [
            ("transfer_max_bytes", u64::from(self.transfer_max_bytes)),
            ("pipeline_bytes", self.pipeline_bytes.into()),
            ("background_chunk_bytes", self.background_chunk_bytes.into()),
            ("background_bytes", self.background_bytes),
            ("priority_bytes", self.priority_bytes),
            ("quiet_bytes", self.quiet_bytes),
            ("queue_commands", self.queue_commands.into()),
        ];
        if let Some((name, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(TuningError::Zero { name });
        }
        Ok(())
    }
}

/// Chunks of an eighth of that then keep several in flight.
const QUIET_FACTOR: u64 = 10;
const PRESENCE_MS: u64 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_model() {
        let fitted = Tuning::for_device(7_000_000_000, 10_000);
        assert_eq!(Tuning { presence_bytes: 64 << 20, ..fitted }, Tuning::default());
        assert!(fitted.presence_bytes.abs_diff(64 << 20) < 8 << 20);
        fitted.check().unwrap();
    }

    #[test]
    fn numbers_that_stop_everything_are_refused() {
        let zero = Tuning { quiet_bytes: 0, ..Tuning::default() };
        assert_eq!(zero.check(), Err(TuningError::Zero { name: "quiet_bytes" }));
    }
}
