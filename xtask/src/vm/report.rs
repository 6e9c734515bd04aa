//! Reads what the guest reports about its steps.

use std::time::Duration;

/// One step that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepReport {
    /// As in the shell: 128 and the signal's number for a step that was killed.
    pub(crate) status: i32,
    pub(crate) time: Duration,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The lines of the control port, which `tests/vm/init` writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) ready: bool,
    /// The number of the step that began last.
    begun: Option<String>,
    ended: Vec<(i32, Duration)>,
    pub(crate) done: bool,
    pub(crate) failure: Option<String>,
}

impl Control {
    pub(crate) fn parse(text: &str) -> Self {
        let mut control = Self::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "ready" => control.ready = true,
                "begin" => control.begun = Some(rest.to_owned()),
                "end" => control.ended.extend(end(rest)),
                "fail" => control.failure = Some(rest.to_owned()),
                "done" => control.done = true,
                _ => {}
            }
        }
        control
    }

    /// How far the guest came.
    pub(crate) fn position(&self) -> String {
        match &self.begun {
            _ if !self.ready => "while the guest was booting".to_owned(),
            None => "before the first step".to_owned(),
            Some(_) if self.done => "after the last step".to_owned(),
            Some(number) => format!("in step {number}, after {} that ended", self.ended.len()),
        }
    }
}

/// Reads `NUMBER STATUS MILLISECONDS`.
fn end(words: &str) -> Option<(i32, Duration)> {
    let mut words = words.split(' ').skip(1);
    let status = words.next()?.parse().ok()?;
    let time = Duration::from_millis(words.next()?.parse().ok()?);
    Some((status, time))
}

/// Gives each step its part of the streams, stdout and stderr, which have the line `separator` after each step.
/// Without a separator there is one step, and all is its.
pub(crate) fn steps(control: &Control, streams: &[String; 2], separator: &str) -> Vec<StepReport> {
    let [mut stdout, mut stderr] = streams.each_ref().map(|stream| parts(stream, separator));
    let mut next = move || (stdout.next().unwrap_or_default(), stderr.next().unwrap_or_default());
    let reports = control.ended.iter().map(|(status, time)| {
        let (stdout, stderr) = next();
        StepReport { status: *status, time: *time, stdout, stderr }
    });
    reports.collect()
}

fn parts(stream: &str, separator: &str) -> impl Iterator<Item = String> {
    let parts: Vec<String> = match separator {
        "" => vec![stream.to_owned()],
        _ => stream.split(&format!("{separator}\n")).map(str::to_owned).collect(),
    };
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_part_of_the_streams() {
        let control =
            Control::parse("ready 4000\nbegin 000\nend 000 0 12\nbegin 001\nend 001 137 5000\ndone 9\n");
        let streams = ["no line feed====\nsecond\n====\n".to_owned(), "====\n====\n".to_owned()];
        let steps = steps(&control, &streams, "====");
        assert_eq!((steps[0].status, steps[0].stdout.as_str()), (0, "no line feed"));
        assert_eq!((steps[1].status, steps[1].stdout.as_str()), (137, "second\n"));
        assert_eq!((steps[1].time, steps[1].stderr.as_str()), (Duration::from_secs(5), ""));
        assert_eq!(control.position(), "after the last step");
    }

    #[test]
    fn a_guest_that_hangs_is_somewhere() {
        assert_eq!(Control::parse("").position(), "while the guest was booting");
        assert_eq!(
            Control::parse("ready 1\nbegin 000\nend 000 0 1\nbegin 001\n").position(),
            "in step 001, after 1 that ended"
        );
        assert_eq!(Control::parse("fail cannot bind\ndone 1\n").failure.as_deref(), Some("cannot bind"));
    }
}
