//! How long requests took, and what follows from it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::table::Table;

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
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
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
        let micros = |quantile: f64| self.times.value_at_quantile(quantile) as f64 / 1e3;
        Summary {
            requests: self.times.len(),
            bytes: self.bytes,
            seconds,
            gib_per_s: per_second(self.bytes as f64 / GIB),
            iops: per_second(self.times.len() as f64),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            max_us: micros(1.0),
        }
    }
}

impl Default for Measure {
    fn default() -> Self {
        Self::new()
    }
}

/// A table with a row for each summary.
pub(crate) fn table<'a>(rows: impl IntoIterator<Item = (&'a str, &'a Summary)>) -> String {
    let mut table = Table::new(&["", "GiB/s", "IOPS", "p50 us", "p99 us", "p99.9 us", "max us"]);
    for (name, summary) in rows {
        table.row(vec![
            name.to_owned(),
            format!("{:.2}", summary.gib_per_s),
            format!("{:.0}", summary.iops),
            format!("{:.1}", summary.p50_us),
            format!("{:.1}", summary.p99_us),
            format!("{:.1}", summary.p999_us),
            format!("{:.1}", summary.max_us),
        ]);
    }
    table.render()
}

const GIB: f64 = (1_u64 << 30) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_rates_and_percentiles() {
        let mut measure = Measure::new();
        for micros in 1..=1000 {
            measure.add(Duration::from_micros(micros), 1 << 20);
        }
        let mut sum = Measure::new();
        sum.merge(&measure);
        let summary = sum.summary(Duration::from_secs(2));
        assert_eq!((summary.requests, summary.bytes), (1000, 1000 << 20));
        assert!((summary.iops - 500.0).abs() < 1e-9);
        assert!((summary.gib_per_s - 500.0 / 1024.0).abs() < 1e-9);
        assert!((summary.p50_us - 500.0).abs() < 1.0, "{}", summary.p50_us);
        assert!((summary.p99_us - 990.0).abs() < 1.0, "{}", summary.p99_us);
        assert!((summary.max_us - 1000.0).abs() < 1.0, "{}", summary.max_us);
    }

    #[test]
    fn even_large_numbers_fit_a_terminal() {
        let summary = Summary {
            requests: 0,
            bytes: 0,
            seconds: 0.0,
            gib_per_s: 1234.56,
            iops: 123_456_789.0,
            p50_us: 123_456.7,
            p99_us: 1_234_567.8,
            p999_us: 1_234_567.8,
            max_us: 12_345_678.9,
        };
        let text = table([("write", &summary)]);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn no_requests_are_no_division_by_zero() {
        let summary = Measure::new().summary(Duration::ZERO);
        assert_eq!((summary.requests, summary.max_us), (0, 0.0));
        assert!(summary.iops == 0.0 && summary.gib_per_s == 0.0);
    }
}
