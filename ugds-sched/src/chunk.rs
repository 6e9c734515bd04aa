//! How much of a large request goes into one command.

use crate::presence::Presence;
use crate::tuning::Tuning;
use crate::want::{Mode, Want};

/// How a piece of a request is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Not held back; commands of up to so many bytes.
    Free { chunk_bytes: u32 },
    /// Needs a credit, of which so many bytes are out at most.
    Capped { chunk_bytes: u32, cap_bytes: u64 },
}

/// The rule for the next piece of a request that is not small, or that was declared to be in the background.
pub(crate) fn rule(tuning: &Tuning, presence: &Presence, want: &Want) -> Rule {
    if !want.is_background(tuning.small_bytes) {
        return Rule::Free { chunk_bytes: foreground(tuning, want.request_bytes) };
    }
    let narrow = tuning.background_chunk_bytes.min(tuning.transfer_max_bytes);
    match want.mode {
        Mode::Throughput => Rule::Free { chunk_bytes: foreground(tuning, want.request_bytes) },
        Mode::Latency => Rule::Capped { chunk_bytes: narrow, cap_bytes: tuning.background_bytes },
        Mode::Priority => Rule::Capped { chunk_bytes: narrow, cap_bytes: tuning.priority_bytes },
        Mode::Adaptive if presence.pass(narrow) => {
            Rule::Capped { chunk_bytes: narrow, cap_bytes: tuning.background_bytes }
        }
        Mode::Adaptive => Rule::Capped {
            // Several chunks under the cap keep the pipe full while one is on its way.
            chunk_bytes: foreground(tuning, want.request_bytes)
                .min(at_least_one(tuning.quiet_bytes / QUIET_CHUNKS)),
            cap_bytes: tuning.quiet_bytes,
        },
    }
}

/// What is not held back: an eighth of the request, so that it is pipelined, as a power of two up to 1 MiB.
#[inline]
pub(crate) fn foreground(tuning: &Tuning, request_bytes: u64) -> u32 {
    let eighth = (request_bytes >> 3).clamp(1, FOREGROUND_MAX_BYTES);
    (1 << eighth.ilog2()).max(tuning.pipeline_bytes).min(tuning.transfer_max_bytes)
}

fn at_least_one(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).max(1)
}

const FOREGROUND_MAX_BYTES: u64 = 1 << 20;
const QUIET_CHUNKS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::want::{Level, Settings};

    fn of(want: Want, presence: &Presence) -> (u32, Option<u64>) {
        match rule(&Tuning::default(), presence, &want) {
            Rule::Free { chunk_bytes } => (chunk_bytes >> 10, None),
            Rule::Capped { chunk_bytes, cap_bytes } => (chunk_bytes >> 10, Some(cap_bytes >> 10)),
        }
    }

    #[test]
    fn large_requests_are_cut_by_table() {
        let quiet = Presence::new(0);
        let busy = Presence::new(1 << 30);
        busy.note();
        let mode = |mode| Want::write(1 << 20).settings(Settings::new().mode(mode));
        assert_eq!(of(Want::read(1 << 20), &busy), (128, None));
        assert_eq!(of(Want::read(3 << 20), &busy), (256, None));
        assert_eq!(of(Want::read(1 << 40), &busy), (1024, None));
        assert_eq!(of(Want::write(1 << 20), &busy), (32, Some(128)));
        assert_eq!(of(Want::write(1 << 30), &quiet), (128, Some(1024)));
        assert_eq!(of(mode(Mode::Latency), &quiet), (32, Some(128)));
        assert_eq!(of(mode(Mode::Priority), &quiet), (32, Some(96)));
        assert_eq!(of(mode(Mode::Throughput), &busy), (128, None));
        let read = Want::read(1 << 20).settings(Settings::new().level(Level::Background));
        assert_eq!(of(read, &busy), (32, Some(128)));
    }

    #[test]
    fn the_device_limit_comes_first() {
        let tuning = Tuning { transfer_max_bytes: 16 << 10, ..Tuning::default() };
        let presence = Presence::new(0);
        assert_eq!(rule(&tuning, &presence, &Want::read(1 << 20)), Rule::Free { chunk_bytes: 16 << 10 });
    }
}
