//! How long requests took, and what follows from it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::table::Table;
use crate::units;

/// The times of requests of one kind.
pub(crate) struct Measure {
    /// In nanoseconds, three significant digits.
    times: Histogram<u64>,
    bytes: u64,
}

/// What a [`Measure`] comes to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) gib_per_s: f64,
    pub(crate) iops: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) p9999_us: f64,
    pub(crate) max_us: f64,
}

impl Measure {
    /// No requests yet.
    pub(crate) fn new() -> Self {
        // Three digits is within what the constructor accepts (0 to 5).
        let times = Histogram::new(3).unwrap_or_else(|_| unreachable!("three significant digits"));
        Self { times, bytes: 0 }
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, time: Duration, bytes: u64) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The histogram grows on demand, which fails only where `usize` is too small for any number of nanoseconds.
        let _ = self.times.record(nanos);
        self.bytes += bytes;
    }

    /// Adds all requests of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        // Both grow on demand, so the sum has room.
        self.times += &other.times;
        self.bytes += other.bytes;
    }

    /// Whether there was no request.
    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The rates over `elapsed`, and the percentiles.
    pub(crate) fn summary(&self, elapsed: Duration) -> Summary {
        let seconds = elapsed.as_secs_f64();
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        Summary {
            requests: self.times.len(),
            bytes: self.bytes,
            seconds,
            gib_per_s: per_second(self.bytes as f64 / GIB),
            iops: per_second(self.times.len() as f64),
            p50_us: self.quantile_us(0.5),
            p90_us: self.quantile_us(0.9),
            p99_us: self.quantile_us(0.99),
            p999_us: self.quantile_us(0.999),
            p9999_us: self.quantile_us(0.9999),
            max_us: self.quantile_us(1.0),
        }
    }

    /// The distribution as points `(x, us)`: one of `x` requests took `us` microseconds or longer. It goes from 1 to
    /// the number of requests, or to [`TAIL_MAX`].
    pub(crate) fn tail(&self) -> Vec<(f64, f64)> {
        let end = (self.times.len() as f64).min(TAIL_MAX);
        let point = |step: i32| 10f64.powf(f64::from(step) / TAIL_STEPS);
        let points = (0..).map(point).take_while(|one_of| *one_of < end).chain([end]);
        points.map(|one_of| (one_of, self.quantile_us(1.0 - 1.0 / one_of))).collect()
    }

    fn quantile_us(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64 / 1e3
    }
}

impl Default for Measure {
    fn default() -> Self {
        Self::new()
    }
}

/// A table with a row for each summary.
pub(crate) fn table<'a>(rows: impl IntoIterator<Item = (&'a str, &'a Summary)>) -> String {
    let mut table = Table::new(&["", "GiB/s", "IOPS", "p50", "p90", "p99", "p99.9", "p99.99", "max"]);
    for (name, summary) in rows {
        table.row(vec![
            name.to_owned(),
            format!("{:.2}", summary.gib_per_s),
            format!("{:.0}", summary.iops),
            units::time(summary.p50_us),
            units::time(summary.p90_us),
            units::time(summary.p99_us),
            units::time(summary.p999_us),
            units::time(summary.p9999_us),
            units::time(summary.max_us),
        ]);
    }
    table.render()
}

/// Behind this point of a distribution, one of so many requests is left.
pub(crate) const TAIL_MAX: f64 = 1e5;
/// Points for each power of 10: too many to see corners.
const TAIL_STEPS: f64 = 40.0;
const GIB: f64 = (1_u64 << 30) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred thousand times, evenly from 1 us to 100 ms: a percentile is known, and so is how exact it is.
    fn uniform() -> Measure {
        let mut sum = Measure::new();
        for part in 0..4 {
            let mut measure = Measure::new();
            for micros in (1..=100_000).filter(|micros| micros % 4 == part) {
                measure.add(Duration::from_micros(micros), 1 << 20);
            }
            sum.merge(&measure);
        }
        sum
    }

    #[test]
    fn percentiles_of_parts_are_those_of_the_whole() {
        let summary = uniform().summary(Duration::from_secs(2));
        for (name, found, expected) in [
            ("p50", summary.p50_us, 50_000.0),
            ("p90", summary.p90_us, 90_000.0),
            ("p99", summary.p99_us, 99_000.0),
            ("p99.9", summary.p999_us, 99_900.0),
            ("p99.99", summary.p9999_us, 99_990.0),
            ("max", summary.max_us, 100_000.0),
        ] {
            assert!((found / expected - 1.0).abs() <= 1e-3, "{name}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_rare_slow_request_is_seen_in_the_tail_alone() {
        let mut measure = Measure::new();
        for count in 0..100_000 {
            measure.add(Duration::from_micros(if count % 5000 == 0 { 3000 } else { 10 }), 0);
        }
        let summary = measure.summary(Duration::from_secs(1));
        assert!((summary.p999_us - 10.0).abs() < 0.1, "{}", summary.p999_us);
        assert!((summary.p9999_us - 3000.0).abs() < 3.0, "{}", summary.p9999_us);
    }

    #[test]
    fn the_tail_goes_from_the_fastest_to_the_slowest() {
        let tail = uniform().tail();
        assert_eq!(tail.len(), 201);
        for (index, one_of, us) in
            [(0, 1.0, 1.0), (40, 10.0, 90_000.0), (160, 1e4, 99_990.0), (200, 1e5, 99_999.0)]
        {
            assert!((tail[index].0 / one_of - 1.0).abs() < 1e-9, "{:?}", tail[index]);
            assert!((tail[index].1 / us - 1.0).abs() <= 1e-3, "{:?}", tail[index]);
        }
        let mut few = Measure::new();
        few.add(Duration::from_micros(7), 0);
        assert_eq!(few.tail().len(), 1);
        few.add(Duration::from_micros(7), 0);
        assert_eq!(few.tail().last().map(|(one_of, _)| *one_of), Some(2.0));
    }

    #[test]
    fn rates_are_those_of_the_time_that_passed() {
        let summary = uniform().summary(Duration::from_secs(2));
        assert_eq!((summary.requests, summary.bytes), (100_000, 100_000 << 20));
        assert!((summary.iops - 50_000.0).abs() < 1e-9);
        assert!((summary.gib_per_s - 50_000.0 / 1024.0).abs() < 1e-9);
    }

    #[test]
    fn even_large_numbers_fit_a_terminal() {
        let us = 999_400_000.0;
        let summary = Summary {
            requests: 0,
            bytes: 0,
            seconds: 0.0,
            gib_per_s: 1234.56,
            iops: 123_456_789.0,
            p50_us: us,
            p90_us: us,
            p99_us: us,
            p999_us: us,
            p9999_us: us,
            max_us: us,
        };
        let text = table([("write 4100K", &summary)]);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn no_requests_are_no_division_by_zero() {
        let summary = Measure::new().summary(Duration::ZERO);
        assert_eq!((summary.requests, summary.max_us), (0, 0.0));
        assert!(summary.iops == 0.0 && summary.gib_per_s == 0.0);
    }
}
