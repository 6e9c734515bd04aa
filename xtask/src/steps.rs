//! Runs the steps of a task one after the other and keeps the time of each.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// The steps done so far, with their times. The table is printed when the value is dropped, so that a task that
/// fails half-way shows it too.
pub(crate) struct Steps {
    total: usize,
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// No steps yet, of `total`.
    pub(crate) fn of(total: usize) -> Self {
        Self { total, done: Vec::new() }
    }

    /// Runs `command` to its end.
    ///
    /// # Errors
    /// When it cannot be started or does not succeed; the error carries the step's name.
    pub(crate) fn command(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        self.step(name, || {
            let status = command.status().with_context(|| format!("cannot start {}", line_of(command)))?;
            succeeded(status, command)
        })
    }

    /// Runs `command`, shows its output, and requires that libtest reported at least one test.
    ///
    /// # Errors
    /// As [`Steps::command`], and when no test ran: a runner that finds nothing proves nothing.
    pub(crate) fn libtest(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        self.step(name, || {
            let (status, tests) = count_tests(command)?;
            succeeded(status, command)?;
            ensure!(tests > 0, "`{}` ran no test", line_of(command));
            println!("{tests} tests");
            Ok(())
        })
    }

    /// Runs `body` as the step `name`.
    pub(crate) fn step(
        &mut self,
        name: &str,
        body: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let number = self.done.len() + 1;
        debug_assert!(number <= self.total, "step `{name}` is number {number} of {}", self.total);
        println!("== step {number} of {}: {name}", self.total);
        let start = Instant::now();
        let result = body();
        self.done.push((name.to_owned(), start.elapsed()));
        result.with_context(|| format!("step `{name}`"))
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        println!("\n{:<40} {:>8}", "step", "minutes");
        for (name, time) in &self.done {
            println!("{name:<40} {:>8.2}", minutes(*time));
        }
        println!("{:<40} {:>8.2}", "all", minutes(self.done.iter().map(|(_, time)| *time).sum()));
    }
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

fn succeeded(status: ExitStatus, command: &Command) -> anyhow::Result<()> {
    if !status.success() {
        bail!("`{}`: {status}", line_of(command));
    }
    Ok(())
}

/// The command as it would be typed, without the environment that `Debug` shows.
fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

fn count_tests(command: &mut Command) -> anyhow::Result<(ExitStatus, u64)> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", line_of(command)))?;
    let mut tests = 0;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            tests += tests_in(&line);
            writeln!(std::io::stdout(), "{line}")?;
        }
    }
    Ok((child.wait()?, tests))
}

/// The number of tests that a line of libtest's output reports as run.
fn tests_in(line: &str) -> u64 {
    let Some(result) = line.strip_prefix("test result: ") else { return 0 };
    let mut words = result.split_whitespace().peekable();
    let mut sum = 0;
    while let Some(word) = words.next() {
        if let (Ok(count), Some(kind)) = (word.parse::<u64>(), words.peek())
            && (kind.starts_with("passed") || kind.starts_with("failed"))
        {
            sum += count;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_ran_are_counted() {
        let line =
            "test result: ok. 3 passed; 1 failed; 7 ignored; 0 measured; 12 filtered out; finished in 0.1s";
        assert_eq!(tests_in(line), 4);
        assert_eq!(tests_in("test result: ok. 0 passed; 0 failed; 7 ignored; 0 measured; 9 filtered out"), 0);
        assert_eq!(tests_in("test types::tests::three ... ok"), 0);
    }

    #[test]
    fn a_runner_without_tests_fails() {
        let mut runner = Command::new("echo");
        runner.arg("test result: ok. 0 passed; 0 failed");
        let error = Steps::of(1).libtest("empty", &mut runner).unwrap_err();
        assert!(format!("{error:#}").contains("ran no test"), "{error:#}");
    }

    #[test]
    #[should_panic(expected = "step `second` is number 2 of 1")]
    fn the_number_of_steps_is_told_right() {
        let mut steps = Steps::of(1);
        steps.step("first", || Ok(())).unwrap();
        let _ = steps.step("second", || Ok(()));
    }

    #[test]
    fn a_failing_step_is_named() {
        let error = Steps::of(1).command("falls over", &mut Command::new("false")).unwrap_err();
        assert!(format!("{error:#}").contains("step `falls over`"), "{error:#}");
    }
}
