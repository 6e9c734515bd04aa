//! The results as text, at most 80 columns wide, and as a flat JSON object.

use std::fmt::Write;

use super::Results;
use super::host::COSTS;
use super::scenario::{Beside, Bound, Check, Many, Phase, Served, us};

/// Small reads beside large writes.
pub(crate) fn beside(rows: &[Beside]) -> String {
    let mut text = String::new();
    line(&mut text, "4 KiB reads beside 1 MiB writes; 4 queues; 1 reader, 7 writers if not said");
    line(
        &mut text,
        &format!(
            "{:<31}{:>8}{:>8}{:>8}{:>7}{:>8}{:>9}",
            "", "p50 us", "p99 us", "max us", "GB/s", "written", "worst ms"
        ),
    );
    for row in rows {
        let worst =
            if row.worst_write_ps == 0 { "-".into() } else { format!("{:.2}", us(row.worst_write_ps) / 1e3) };
        line(
            &mut text,
            &format!(
                "{:<31}{:>8.1}{:>8.1}{:>8.1}{:>7.2}{:>8.2}{worst:>9}",
                row.name,
                row.read_us(50),
                row.read_us(99),
                row.read_us(100),
                row.all_bytes_per_s / 1e9,
                row.write_bytes_per_s / 1e9,
            ),
        );
    }
    text
}

/// Many callers, and one with large reads.
pub(crate) fn many(rows: &[Many]) -> String {
    let mut text = String::new();
    line(&mut text, "Reads alone; 4 queues");
    line(&mut text, &format!("{:<36}{:>10}{:>9}{:>12}{:>12}", "", "1000/s", "GB/s", "p99 us", "worst us"));
    for row in rows {
        line(
            &mut text,
            &format!(
                "{:<36}{:>10.2}{:>9.2}{:>12.1}{:>12.1}",
                row.name,
                row.requests_per_s / 1e3,
                row.bytes_per_s / 1e9,
                row.p99_us,
                row.worst_us
            ),
        );
    }
    text
}

/// A changing load.
pub(crate) fn phases(rows: &[Phase]) -> String {
    let mut text = String::new();
    line(&mut text, "A load that changes: cost of a request in us, latency + price x processor time");
    line(
        &mut text,
        &format!(
            "(interrupt: {} us later, {} us of processor; price {}; even at {} us)",
            COSTS.interrupt_latency_ns as f64 / 1e3,
            COSTS.interrupt_cpu_ns as f64 / 1e3,
            COSTS.cpu_price_percent as f64 / 100.0,
            COSTS.even_wait_ns() as f64 / 1e3
        ),
    );
    line(
        &mut text,
        &format!(
            "{:<3}{:<20}{:>9}{:>11}{:>10}  {}",
            "", "phase", "poll", "interrupt", "adaptive", "switches"
        ),
    );
    for (at, row) in rows.iter().enumerate() {
        let switches = row.switches.iter().map(|(at_us, to)| format!("{to:?} at {at_us:.0} us"));
        line(
            &mut text,
            &format!(
                "{:<3}{:<20}{:>9.1}{:>11.1}{:>10.1}  {}",
                at + 1,
                row.name,
                row.poll_us,
                row.interrupt_us,
                row.adaptive_us,
                switches.collect::<Vec<_>>().join(", ")
            ),
        );
    }
    text
}

/// A backlog of every level.
pub(crate) fn levels(rows: &[Served]) -> String {
    let mut text = String::new();
    line(&mut text, "A full backlog of every level");
    line(&mut text, &format!("{:<20}{:>10}{:>30}", "", "share %", "commands of others before it"));
    for row in rows {
        let level = format!("{:?}", row.level);
        line(&mut text, &format!("{level:<20}{:>10.1}{:>30}", row.share_percent, row.worst_others));
    }
    text
}

/// The bounds, and whether they are kept.
pub(crate) fn checks(rows: &[Check]) -> String {
    let mut text = String::new();
    line(&mut text, &format!("{:<44}{:>10}{:>16}", "bound", "value", "accepted"));
    for row in rows {
        let accepted = match row.bound {
            Bound::AtMost(most) => format!("<= {most:.2}"),
            Bound::AtLeast(least) => format!(">= {least:.2}"),
        };
        let verdict = if row.holds() { "ok" } else { "MISSED" };
        line(
            &mut text,
            &format!("{:<44}{:>10.2}{accepted:>12} {:<3} {verdict}", row.name, row.value, row.unit),
        );
    }
    text
}

/// A flat object of all numbers.
pub(crate) fn json(results: &Results) -> String {
    let Results { beside, many, phases, levels } = results;
    let mut numbers: Vec<(String, f64)> = Vec::new();
    for row in beside {
        let key = row.key;
        numbers.push((format!("{key}_p50_us"), row.read_us(50)));
        numbers.push((format!("{key}_p99_us"), row.read_us(99)));
        numbers.push((format!("{key}_max_us"), row.read_us(100)));
        numbers.push((format!("{key}_bytes_per_s"), row.all_bytes_per_s));
        numbers.push((format!("{key}_write_bytes_per_s"), row.write_bytes_per_s));
        numbers.push((format!("{key}_worst_write_us"), us(row.worst_write_ps)));
        numbers.push((format!("{key}_background_max_bytes"), row.background_max_bytes as f64));
    }
    for row in many {
        numbers.push((format!("{}_requests_per_s", row.key), row.requests_per_s));
        numbers.push((format!("{}_worst_us", row.key), row.worst_us));
    }
    for (at, row) in phases.iter().enumerate() {
        numbers.push((format!("phase_{}_poll_us", at + 1), row.poll_us));
        numbers.push((format!("phase_{}_interrupt_us", at + 1), row.interrupt_us));
        numbers.push((format!("phase_{}_adaptive_us", at + 1), row.adaptive_us));
    }
    for row in levels {
        numbers.push((format!("level_{:?}_share_percent", row.level).to_lowercase(), row.share_percent));
    }
    let lines: Vec<String> = numbers.iter().map(|(key, value)| format!("  \"{key}\": {value:.3}")).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

fn line(text: &mut String, content: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", content.trim_end());
}
