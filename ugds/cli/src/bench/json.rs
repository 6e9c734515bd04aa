//! Where JSON goes: to the standard output alone, or to a file beside the tables.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser};
use serde::Serialize;

use crate::output;
use crate::replacement::Replacement;

/// The value of `--json [FILE.json]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// None was given.
    Output,
    /// A file.
    File(PathBuf),
}

/// The parser of `--json`'s value. The extension tells a file from a URI behind a bare `--json`.
pub(super) fn target() -> impl TypedValueParser<Value = Target> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str() == BARE {
            return Ok(Target::Output);
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            return Ok(Target::File(path));
        }
        let path = path.display();
        Err(format!("{path} is no name for JSON; FILE.json is accepted, or nothing if --json comes last"))
    })
}

/// A place for one report. It is made before the first run, so that a wrong name costs no time.
pub(super) enum Json {
    /// Nobody asked for it.
    Nowhere,
    /// The standard output.
    Output,
    /// This file, which appears complete or not at all.
    File(Replacement),
}

impl Json {
    pub(super) fn of(target: Option<&Target>) -> anyhow::Result<Self> {
        Ok(match target {
            None => Self::Nowhere,
            Some(Target::Output) => Self::Output,
            Some(Target::File(path)) => Self::File(Replacement::of(path)?),
        })
    }

    /// Whether JSON is all that the standard output has.
    pub(super) fn is_output(&self) -> bool {
        matches!(self, Self::Output)
    }

    pub(super) fn write(self, report: &impl Serialize) -> anyhow::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Output => output::json(report),
            Self::File(new) => {
                let text = serde_json::to_string_pretty(report)? + "\n";
                let written = new.file().write_all(text.as_bytes());
                written.with_context(|| format!("cannot write {}", new.path().display()))?;
                new.commit()
            }
        }
    }
}

/// What stands for a `--json` without a value.
pub(super) const BARE: &str = "-";
