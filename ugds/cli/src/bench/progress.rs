//! What long runs are doing: on a terminal, and nowhere else.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::job::Load;
use crate::device::size_text;

/// A line that is gone at the end.
pub(super) struct Progress {
    bar: ProgressBar,
    runs: usize,
}

impl Progress {
    /// The line for these runs; none if they are over before anyone wonders.
    pub(super) fn of(loads: &[Load]) -> Self {
        let total: Duration = loads.iter().map(|load| load.time).sum();
        let long = total >= PROGRESS_FROM || loads.iter().any(|load| load.verify);
        let bar = if long { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let template =
            format!("{{prefix}}{{msg}}: {{elapsed}} of about {} {{spinner}}", duration_text(total));
        // Without it, the line has another form.
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, runs: loads.len() }
    }

    /// Run `index` begins.
    pub(super) fn begin(&self, index: usize, load: &Load) {
        let (name, size) = (load.pattern.name(), size_text(load.request_bytes));
        let what = format!("{name} of {size}, {}", load.concurrency());
        self.bar.set_prefix(if self.runs > 1 {
            format!("{} of {}, {what}", index + 1, self.runs)
        } else {
            what
        });
    }

    /// What the run does besides what it is for; nothing if that is empty.
    pub(super) fn now(&self, what: &str) {
        self.bar.set_message(if what.is_empty() { String::new() } else { format!(", {what}") });
    }

    /// Does `body`, which writes to the standard output, with the line out of its way.
    pub(super) fn aside<T>(&self, body: impl FnOnce() -> T) -> T {
        self.bar.suspend(body)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A time as people say it.
pub(super) fn duration_text(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_millis());
    }
    let seconds = time.as_secs_f64();
    if seconds < 9.95 {
        return format!("{} s", (seconds * 10.0).round() / 10.0);
    }
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Shorter runs end before anyone wonders.
const PROGRESS_FROM: Duration = Duration::from_secs(2);
/// Rare enough to be lost in the noise of what is measured.
const TICK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_exactly_as_anyone_cares() {
        for (millis, text) in [
            (150, "150 ms"),
            (1250, "1.3 s"),
            (5000, "5 s"),
            (9960, "10 s"),
            (59_600, "1 min 0 s"),
            (150_000, "2 min 30 s"),
            (86_400_000, "24 h 0 min"),
        ] {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
    }
}
