//! Counters as JSON, for whoever reads them in another process.

use super::{Measured, QueueStats, Stats};
use std::fmt::{self, Write};
use ugds_hal::Histogram;

/// All of `stats` on one line.
pub(super) fn of(stats: &Stats) -> String {
    let mut out = format!("{{\"elapsed_ns\":{},\"queues\":[", stats.elapsed.as_nanos());
    for (index, stats) in stats.queues.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        // Writing to a string does not fail.
        let _ = queue(&mut out, stats);
    }
    out.push_str("]}");
    out
}

/// A string in quotes.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            // RFC 8259: control characters must be escaped.
            '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

fn queue(out: &mut String, stats: &QueueStats) -> fmt::Result {
    write!(
        out,
        "{{\"qid\":{},\"class\":\"{}\",\"submitted\":{},\"completed\":{},\"failed\":{},\"bytes\":{},\
         \"doorbells\":{},\"outstanding\":{},\"measured\":",
        stats.qid.0,
        stats.class.name(),
        stats.submitted,
        stats.completed,
        stats.failed,
        stats.bytes,
        stats.doorbells,
        stats.outstanding,
    )?;
    match &stats.measured {
        None => out.push_str("null"),
        Some(stats) => measured(out, stats)?,
    }
    out.push('}');
    Ok(())
}

fn measured(out: &mut String, stats: &Measured) -> fmt::Result {
    write!(out, "{{\"passes\":{},\"control_failed\":{},\"data\":", stats.passes, stats.control_failed)?;
    histogram(out, &stats.data)?;
    out.push_str(",\"control\":");
    histogram(out, &stats.control)?;
    out.push('}');
    Ok(())
}

fn histogram(out: &mut String, times: &Histogram) -> fmt::Result {
    write!(out, "{{\"total_ns\":{},\"buckets\":[", times.total_ns())?;
    for (index, (bucket, count)) in times.buckets().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        write!(out, "{separator}[{bucket},{count}]")?;
    }
    out.push_str("]}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(text("a\"b\\c\n\u{1b}ä"), "\"a\\\"b\\\\c\\u000a\\u001bä\"");
    }

    #[test]
    fn nothing_is_an_empty_list() {
        assert_eq!(of(&Stats::default()), "{\"elapsed_ns\":0,\"queues\":[]}");
    }
}
