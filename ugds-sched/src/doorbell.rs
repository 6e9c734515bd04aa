//! When to tell the device about staged commands.

use crate::want::Mode;

/// Counts staged commands and says when one doorbell should publish them all. One for each queue, under its lock.
///
/// # Examples
///
/// ```
/// use ugds_sched::{Doorbell, Mode, Ring};
///
/// let mut doorbell = Doorbell::new(Mode::Throughput);
/// assert_eq!(doorbell.staged(0), Ring::Later);
/// assert_eq!(doorbell.end_of_burst(), Ring::Now);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Doorbell {
    staged: u32,
    low_commands: u32,
}

/// Whether to write the doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ring {
    /// Now, for all that is staged.
    Now,
    /// Not yet: more follows.
    Later,
}

/// A device that waits for more than so many commands starves.
pub const DOORBELL_MAX: u32 = 32;

impl Doorbell {
    /// Nothing staged. For [`Mode::Latency`] and [`Mode::Priority`] an idle device is told of the first command at once;
    /// else all of a burst shares one doorbell.
    #[inline]
    #[must_use]
    pub const fn new(mode: Mode) -> Self {
        let low_commands = match mode {
            Mode::Latency | Mode::Priority => 1,
            Mode::Throughput | Mode::Adaptive => 0,
        };
        Self { staged: 0, low_commands }
    }

    /// Nothing staged, and the doorbell rings at once while fewer than `low_commands` are published and outstanding.
    #[inline]
    #[must_use]
    pub const fn with_low(low_commands: u32) -> Self {
        Self { staged: 0, low_commands }
    }

    /// A command was staged, while `published` others are on the device.
    #[inline]
    pub fn staged(&mut self, published: u32) -> Ring {
        self.staged += 1;
        self.ring_if(self.staged >= DOORBELL_MAX || published < self.low_commands)
    }

    /// Nothing more follows for now.
    #[inline]
    pub fn end_of_burst(&mut self) -> Ring {
        self.ring_if(self.staged != 0)
    }

    #[inline]
    fn ring_if(&mut self, due: bool) -> Ring {
        if due {
            self.staged = 0;
            return Ring::Now;
        }
        Ring::Later
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_of_32_is_one_doorbell() {
        let mut doorbell = Doorbell::new(Mode::Adaptive);
        let rings = (0..32).filter(|_| doorbell.staged(0) == Ring::Now).count();
        assert_eq!((rings, doorbell.end_of_burst()), (1, Ring::Later));
    }

    #[test]
    fn an_idle_device_is_told_at_once_for_latency() {
        let mut doorbell = Doorbell::new(Mode::Latency);
        assert_eq!(
            (doorbell.staged(0), doorbell.staged(1), doorbell.end_of_burst()),
            (Ring::Now, Ring::Later, Ring::Now)
        );
    }

    proptest! {
        #[test]
        fn never_more_than_32_wait_and_none_after_a_burst(bursts in proptest::collection::vec(1u32..100, 1..20), low in 0u32..8) {
            let mut doorbell = Doorbell::with_low(low);
            let (mut waiting, mut published) = (0u32, 0u32);
            for burst in bursts {
                for _ in 0..burst {
                    waiting += 1;
                    if doorbell.staged(published) == Ring::Now {
                        published += core::mem::take(&mut waiting);
                    }
                    prop_assert!(waiting < DOORBELL_MAX && (waiting == 0 || published >= low));
                }
                if doorbell.end_of_burst() == Ring::Now {
                    published += core::mem::take(&mut waiting);
                }
                prop_assert_eq!(waiting, 0);
                published /= 2;
            }
        }
    }
}
