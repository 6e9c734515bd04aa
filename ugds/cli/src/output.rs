//! The standard output and the standard error. `println!` and `eprintln!` would panic when nobody takes what they
//! write; these return the error, or go on.

use std::io::{self, IsTerminal, Write};

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

/// Writes lines to the standard error: broken at spaces where that is a terminal, and one line a message otherwise.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    for line in text.lines() {
        let lines = if err.is_terminal() { wrap(line, LINE_CHARACTERS) } else { vec![line.to_owned()] };
        for line in lines {
            // There is no other place to say that this place is full.
            let _ = writeln!(err, "{line}");
        }
    }
}

/// `text` in lines of at most `width` characters where its spaces allow that.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (count, word) in text.split(' ').enumerate() {
        let line = lines.len() - 1;
        if count == 0 {
            lines[line].push_str(word);
        } else if lines[line].chars().count() + 1 + word.chars().count() <= width {
            lines[line].push_str(&format!(" {word}"));
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// What a terminal shows side by side.
pub(crate) const LINE_CHARACTERS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("  one two", 7), ["  one", "two"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("indivisible word", 7), ["indivisible", "word"]);
    }
}
