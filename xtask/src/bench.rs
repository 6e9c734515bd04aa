//! `cargo xtask bench instr`: instructions per operation, counted by callgrind, against goals and gates.
//!
//! A count repeats exactly, whatever else the machine does. Only the null device is left out, by the names of its two
//! functions; everything in the driver's crates counts, in the default release profile, called from another crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::workspace::Workspace;

/// One operation: its key, and the instructions that it should and may take.
struct Row {
    key: &'static str,
    goal: u64,
    gate: u64,
}

const ROWS: &[Row] = &[
    Row { key: "queue_read_4k_b1", goal: 100, gate: 120 },
    Row { key: "queue_read_4k_b32", goal: 70, gate: 85 },
    Row { key: "queue_read_128k_b32", goal: 85, gate: 95 },
];

/// Counts every operation and prints the table; `--json FILE` writes the counts as one flat object.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    let json = match arguments {
        [what] if what == "instr" => None,
        [what, option, file] if what == "instr" && option == "--json" => Some(file),
        other => {
            bail!("`bench` accepts `instr` and `instr --json FILE`, but was given `{}`", other.join(" "))
        }
    };
    let status = workspace.cargo("build --release -p ugds-tests --bin instr").status()?;
    ensure!(status.success(), "the program to be counted was not built");
    let program = workspace.target_dir().join("release/instr");
    let empty = per_operation(&program, "empty")?;
    println!("{:<24} {:>12} {:>6} {:>6}", "operation", "instructions", "goal", "gate");
    let (mut counts, mut beyond) = (Vec::new(), Vec::new());
    for Row { key, goal, gate } in ROWS {
        let count = per_operation(&program, key)? - empty;
        println!("{key:<24} {count:>12.1} {goal:>6} {gate:>6}");
        counts.push(format!("  \"{key}\": {count:.1}"));
        if count > *gate as f64 {
            beyond.push(*key);
        }
    }
    if let Some(file) = json {
        fs::write(file, format!("{{\n{}\n}}\n", counts.join(",\n")))
            .with_context(|| format!("cannot write {file}"))?;
    }
    ensure!(beyond.is_empty(), "beyond the gate: {}", beyond.join(", "));
    Ok(())
}

/// The difference of two runs, so that starting and ending the program does not count.
fn per_operation(program: &Path, key: &str) -> anyhow::Result<f64> {
    let (few, many) = (count(program, key, TIMES)?, count(program, key, 2 * TIMES)?);
    Ok((many as f64 - few as f64) / TIMES as f64)
}

/// The instructions of one run, less those of the null device.
fn count(program: &Path, key: &str, times: u64) -> anyhow::Result<u64> {
    let out = std::env::temp_dir().join(format!("ugds-callgrind-{}", std::process::id()));
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", &format!("--callgrind-out-file={}", out.display())])
        .arg(program)
        .args([key, &times.to_string()])
        .output()
        .context("cannot start valgrind; `apt-get install valgrind` brings it")?;
    ensure!(run.status.success(), "{key}: {}", String::from_utf8_lossy(&run.stderr));
    let annotated = Command::new("callgrind_annotate").arg("--threshold=100").arg(&out).output()?;
    let _ = fs::remove_file(&out);
    total(&String::from_utf8_lossy(&annotated.stdout)).with_context(|| format!("{key}: no count was found"))
}

/// The program's total less the null device's functions, from the table of `callgrind_annotate`.
fn total(table: &str) -> Option<u64> {
    let number = |line: &str| line.trim().split([' ', '(']).next()?.replace(',', "").parse::<u64>().ok();
    let total = table.lines().find(|line| line.contains("PROGRAM TOTALS")).and_then(number)?;
    let device = table.lines().filter(|line| line.contains("null_device_")).filter_map(number);
    Some(total - device.sum::<u64>())
}

/// Operations of the shorter run: a multiple of every batch.
const TIMES: u64 = 6_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_device_does_not_count() {
        let table = "1,234,567 (100.0%)  PROGRAM TOTALS\n\n\
                     1,000,000 (81.0%)  ???:instr::main [/x/instr]\n  \
                     34,567 ( 2.8%)  ???:ugds_null::null_device_complete [/x/instr]\n";
        assert_eq!(total(table), Some(1_200_000));
        assert_eq!(total("nothing"), None);
    }
}
