//! Polling or waiting for an interrupt.

use crate::atomic::{AtomicU64, Ordering};

/// How a caller learns that its command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// It looks, again and again.
    Poll,
    /// It sleeps until the device interrupts.
    Interrupt,
}

/// What waiting costs. A wait that polls costs processor time for as long as it lasts; one that sleeps costs the
/// interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// How much later a sleeper learns of the end, in ns.
    pub interrupt_latency_ns: u64,
    /// The processor time of an interrupt and of waking up, in ns.
    pub interrupt_cpu_ns: u64,
    /// What processor time is worth, in percent of as much latency.
    pub cpu_price_percent: u64,
    /// The access time of the device, in ns.
    pub access_ns: u64,
    /// The bytes a second of its pipe.
    pub bytes_per_s: u64,
}

impl Default for Costs {
    /// 4 us and 2.5 us for an interrupt, four units of processor time for one of latency; 10 us and 7 GB/s.
    fn default() -> Self {
        Self {
            interrupt_latency_ns: 4_000,
            interrupt_cpu_ns: 2_500,
            cpu_price_percent: 25,
            access_ns: 10_000,
            bytes_per_s: 7_000_000_000,
        }
    }
}

impl Costs {
    /// The wait, in ns, for which both ways cost the same.
    #[must_use]
    pub fn even_wait_ns(&self) -> u64 {
        self.interrupt_latency_ns * 100 / self.cpu_price_percent.max(1) + self.interrupt_cpu_ns
    }

    /// The bytes ahead of the end of a command for which it waits as long as that.
    #[must_use]
    pub fn even_bytes(&self) -> u64 {
        self.even_wait_ns().saturating_sub(self.access_ns) * (self.bytes_per_s / 1_000_000) / 1_000
    }
}

/// Chooses by size and load, and does not change its mind at every command.
///
/// It follows the average of the bytes that are outstanding; what it averages over is the last ten commands or so. It
/// changes to interrupts a quarter above the break-even point, and back to polling a quarter below it. One is enough for
/// a device; many threads may ask at once.
///
/// # Examples
///
/// ```
/// use ugds_sched::{Adaptive, Completion, Costs};
///
/// let adaptive = Adaptive::new(&Costs::default());
/// assert_eq!(adaptive.decide(4096, 4096), Completion::Poll);
/// assert_eq!(adaptive.decide(16 << 20, 16 << 20), Completion::Interrupt);
/// assert_eq!(adaptive.decide(4096, 4096), Completion::Poll);
/// ```
#[derive(Debug)]
pub struct Adaptive {
    /// The average in bytes, and whether interrupts are chosen.
    state: AtomicU64,
    low_bytes: u64,
    high_bytes: u64,
}

impl Adaptive {
    /// Begins with polling.
    #[must_use]
    pub fn new(costs: &Costs) -> Self {
        let quarter = costs.even_bytes() / 4;
        Self { state: AtomicU64::new(0), low_bytes: 3 * quarter, high_bytes: 5 * quarter }
    }

    /// Chooses for a command of `own_bytes` on a device with `outstanding_bytes`, its own among them.
    #[inline]
    pub fn decide(&self, own_bytes: u64, outstanding_bytes: u64) -> Completion {
        if own_bytes > self.high_bytes {
            // Its own length decides, and says nothing about the small ones beside it.
            return Completion::Interrupt;
        }
        // Relaxed: one word of its own; a sample that gets lost among threads changes the average a little.
        let state = self.state.load(Ordering::Relaxed);
        let next = self.follow(state, outstanding_bytes);
        if next != state {
            // Relaxed: as above. In a steady state nothing is stored, and the line stays shared.
            self.state.store(next, Ordering::Relaxed);
        }
        completion(next)
    }

    /// What was chosen last.
    #[must_use]
    pub fn current(&self) -> Completion {
        // Relaxed: for show.
        completion(self.state.load(Ordering::Relaxed))
    }

    #[inline]
    fn follow(&self, state: u64, outstanding_bytes: u64) -> u64 {
        // Without the limit, one giant would be remembered for long.
        let sample = outstanding_bytes.min(SAMPLE_FACTOR * self.high_bytes);
        let average = state & !INTERRUPT;
        let average = if sample > average {
            average + (sample - average).div_ceil(1 << WEIGHT_SHIFT)
        } else {
            average - (average - sample).div_ceil(1 << WEIGHT_SHIFT)
        };
        let interrupt = match completion(state) {
            Completion::Poll => average > self.high_bytes,
            Completion::Interrupt => average >= self.low_bytes,
        };
        if interrupt { average | INTERRUPT } else { average }
    }
}

#[inline]
fn completion(state: u64) -> Completion {
    if state & INTERRUPT == 0 { Completion::Poll } else { Completion::Interrupt }
}

const INTERRUPT: u64 = 1 << 63;
/// An eighth of the difference is followed at each step.
const WEIGHT_SHIFT: u32 = 3;
const SAMPLE_FACTOR: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_break_even_point_is_where_both_cost_the_same() {
        let costs = Costs::default();
        assert_eq!((costs.even_wait_ns(), costs.even_bytes()), (18_500, 59_500));
    }

    #[test]
    fn it_changes_with_the_load_and_only_then() {
        let adaptive = Adaptive::new(&Costs::default());
        let steps = |load| (0..100).filter(|_| adaptive.decide(4096, load) == Completion::Interrupt).count();
        assert_eq!(steps(60_000), 0, "within the band it stays with polling");
        assert!(steps(200_000) > 90);
        assert_eq!(steps(60_000), 100, "within the band it stays with interrupts");
        assert!(steps(4096) < 20);
    }

    proptest! {
        #[test]
        fn a_steady_load_is_decided_once(loads in proptest::collection::vec(0u64..1 << 40, 1..50), steady in 0u64..1 << 20) {
            let adaptive = Adaptive::new(&Costs::default());
            for load in loads {
                adaptive.decide(4096, load);
            }
            let mut changes = 0;
            let mut last = adaptive.current();
            for _ in 0..200 {
                let now = adaptive.decide(4096, steady);
                changes += u32::from(now != last);
                last = now;
            }
            prop_assert!(changes <= 1);
            prop_assert!(last == Completion::Poll || steady >= 44_000);
            prop_assert!(last == Completion::Interrupt || steady <= 75_000);
        }
    }
}
