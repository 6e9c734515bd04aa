//! The standard output. `println!` would panic when a reader goes away; these return the error.

use std::io::{self, Write};

use serde::Serialize;

/// Writes `text` as it is.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes `line` and a newline.
pub(crate) fn line(line: impl AsRef<str>) -> anyhow::Result<()> {
    text(&format!("{}\n", line.as_ref()))
}

/// Writes `value` as JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}
