//! A distribution of times in a fixed number of buckets.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;
use core::time::Duration;

/// A distribution of times in buckets of fixed bounds: exact below 16 ns, then 16 buckets for each power of two, so that
/// a time is known to within 6.25 %. All above 68 s is one bucket.
///
/// Two histograms can be added and subtracted, since their buckets are the same.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use ugds_hal::Histogram;
///
/// let mut times = Histogram::new();
/// (1..=100).for_each(|us| times.add(Duration::from_micros(us), 1));
/// let median = times.quantile(0.5).as_nanos() as f64;
/// assert!((median / 50_000.0 - 1.0).abs() <= 0.0625);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    total_ns: u64,
}

impl Histogram {
    /// How many buckets there are.
    pub const BUCKETS: usize = (1 << SUB_BITS) * (LAST_BITS - SUB_BITS + 1) as usize + 1;

    /// A distribution of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: vec![0; Self::BUCKETS].into(), total_ns: 0 }
    }

    /// The bucket of a time in nanoseconds.
    #[inline]
    #[must_use]
    pub const fn bucket_of(ns: u64) -> usize {
        if ns < 1 << SUB_BITS {
            return ns as usize;
        }
        let bits = u64::BITS - ns.leading_zeros();
        if bits > LAST_BITS {
            return Self::BUCKETS - 1;
        }
        let shift = bits - SUB_BITS - 1;
        // The leading bit is told by the row.
        (((shift + 1) as usize) << SUB_BITS) + ((ns >> shift) as usize & ((1 << SUB_BITS) - 1))
    }

    /// The first nanosecond of a bucket. The one behind the last is the end of time.
    #[must_use]
    pub const fn start_of(bucket: usize) -> u64 {
        if bucket >= Self::BUCKETS {
            return u64::MAX;
        }
        let (row, column) = (bucket >> SUB_BITS, bucket & ((1 << SUB_BITS) - 1));
        if row == 0 { column as u64 } else { ((1 << SUB_BITS) + column as u64) << (row - 1) }
    }

    /// Adds `times` times of about `time`.
    pub fn add(&mut self, time: Duration, times: u64) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.add_to(Self::bucket_of(ns), times, ns.saturating_mul(times));
    }

    /// Adds `times` to a bucket, which together took `total_ns`. A bucket that there is not changes nothing.
    pub fn add_to(&mut self, bucket: usize, times: u64, total_ns: u64) {
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(times);
            self.total_ns = self.total_ns.saturating_add(total_ns);
        }
    }

    /// Adds another distribution.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }

    /// What came since `earlier`, which is an older state of this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then));
        Self { counts: counts.collect(), total_ns: self.total_ns.saturating_sub(earlier.total_ns) }
    }

    /// How many times there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// All of them together, in nanoseconds.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Their mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.total_ns / self.count().max(1))
    }

    /// The time that a part of them, from 0 to 1, did not exceed: the last nanosecond of its bucket. Zero when there are
    /// none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let count = self.count();
        // The smallest is the quantile 0. A float has fewer digits than a count, so it may come out above all of them.
        let rank = ((part * count as f64) + 1.0 - f64::EPSILON) as u64;
        let (rank, mut seen) = (rank.clamp(1, count.max(1)), 0u64);
        let bucket = self.counts.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        bucket.map_or(Duration::ZERO, |bucket| Duration::from_nanos(Self::start_of(bucket + 1) - 1))
    }

    /// The buckets that are not empty, and how much is in them.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count != 0)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .finish_non_exhaustive()
    }
}

/// 16 buckets for each power of two.
const SUB_BITS: u32 = 4;
/// The bits of the longest time that has a bucket of its own: 2^36 ns are 68.7 s.
const LAST_BITS: u32 = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_cover_all_times_once() {
        assert_eq!((Histogram::start_of(0), Histogram::start_of(Histogram::BUCKETS)), (0, u64::MAX));
        for bucket in 0..Histogram::BUCKETS {
            let (start, end) = (Histogram::start_of(bucket), Histogram::start_of(bucket + 1));
            assert!(start < end, "bucket {bucket}");
            assert_eq!(Histogram::bucket_of(start), bucket);
            assert_eq!(Histogram::bucket_of(end - 1), bucket);
            let last = bucket + 1 == Histogram::BUCKETS;
            assert!(last || (end - start) * 16 <= start.max(16), "bucket {bucket} is too wide");
        }
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_times(
            mut times in prop::collection::vec(0u64..1 << 36, 1..200),
            part in 0.0f64..=1.0,
        ) {
            let mut histogram = Histogram::new();
            times.iter().for_each(|ns| histogram.add(Duration::from_nanos(*ns), 1));
            times.sort_unstable();
            prop_assert_eq!(histogram.count(), times.len() as u64);
            prop_assert_eq!(histogram.total_ns(), times.iter().sum::<u64>());
            let exact = times[((part * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1];
            let found = histogram.quantile(part).as_nanos() as u64;
            prop_assert_eq!(Histogram::bucket_of(found), Histogram::bucket_of(exact));
            prop_assert!(found >= exact);
        }

        #[test]
        fn a_difference_is_what_was_added(
            before in prop::collection::vec(any::<u64>(), 0..50),
            after in prop::collection::vec(0u64..1 << 50, 0..50),
        ) {
            let of = |times: &[u64]| {
                let mut histogram = Histogram::new();
                // So that the sum has room.
                times.iter().for_each(|ns| histogram.add(Duration::from_nanos(*ns >> 14), 1));
                histogram
            };
            let mut all = of(&before);
            all.merge(&of(&after));
            prop_assert_eq!(all.since(&of(&before)), of(&after));
        }
    }
}
