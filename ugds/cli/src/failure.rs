//! How a command ends.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::output;

/// What a command that ran to its end found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Success,
    /// Data differ. The command has said which.
    Mismatch,
}

/// A mistake in what was asked for, as opposed to something that failed.
#[derive(Debug)]
struct Usage(String);

/// The exit status for a mistake in what was asked for.
pub(crate) const USAGE: u8 = 2;
const FAILURE: u8 = 1;

/// An error for a mistake in what was asked for.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// Says on the standard error what went wrong, if anything did, and turns it into the exit status.
pub(crate) fn exit_code(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Mismatch) => ExitCode::from(FAILURE),
        // Whoever reads the output has had enough of it; there is nobody to tell.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(FAILURE),
        Err(error) => {
            output::complain(&report(&error));
            ExitCode::from(if error.chain().any(<dyn std::error::Error>::is::<Usage>) {
                USAGE
            } else {
                FAILURE
            })
        }
    }
}

/// The error and its causes, a line each. A cause that the line above already tells is left out.
fn report(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let message = cause.to_string();
        if last.is_empty() {
            text.push_str(&format!("ugds: error: {message}\n"));
        } else if !last.contains(&message) {
            text.push_str(&format!("ugds:   because {message}\n"));
        }
        last = message;
    }
    text
}

/// Only the standard output is a pipe here: files and devices are not.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref().map(io::Error::kind);
    error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn each_cause_has_a_line_and_none_is_told_twice() {
        let inner: anyhow::Result<()> = Err(io::Error::other("disk on fire")).context("write block 7");
        let error = inner.context("copy a to b: write block 7").unwrap_err();
        assert_eq!(report(&error), "ugds: error: copy a to b: write block 7\nugds:   because disk on fire\n");
    }
}
