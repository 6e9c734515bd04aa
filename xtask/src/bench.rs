//! `cargo xtask bench instr`: instructions per operation, counted by callgrind, against goals and gates.
//!
//! A count repeats exactly, whatever else the machine does. Only the null device is left out, by the names of its
//! functions; everything in the driver's crates counts, in the default release profile, called from another crate.

mod facade;
mod figures;
mod sched;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::workspace::Workspace;
use figures::Figures;

/// One operation: its key, and the instructions that it should and may take.
struct Row {
    key: &'static str,
    program: &'static str,
    goal: u64,
    gate: u64,
}

const ROWS: &[Row] = &[
    Row { key: "queue_read_4k_b1", program: QUEUE, goal: 100, gate: 120 },
    Row { key: "queue_read_4k_b32", program: QUEUE, goal: 70, gate: 85 },
    Row { key: "queue_read_128k_b32", program: QUEUE, goal: 85, gate: 95 },
    Row { key: "queue_read_128k_pool_b32", program: QUEUE, goal: 350, gate: 400 },
    Row { key: "facade_read_4k_sync", program: FACADE, goal: 250, gate: 300 },
    Row { key: "facade_batch_4k_b32", program: FACADE, goal: 160, gate: 200 },
    Row { key: "facade_read_1m_sync", program: FACADE, goal: 1200, gate: 1500 },
];

/// The programs that run the operations.
const QUEUE: &str = "instr";
const FACADE: &str = "instr-facade";

/// What was counted for one key, and what it should and may be.
struct Measured {
    key: &'static str,
    count: f64,
    goal: f64,
    gate: f64,
}

/// Counts every operation and prints the table. `--json FILE` writes the counts as one flat object; `--against FILE`
/// judges by such a file, and else the gates judge.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    if let [what, options @ ..] = arguments
        && what == "sched"
    {
        return sched::run(options);
    }
    let (json, against) = match arguments {
        [what] if what == "instr" => (None, None),
        [what, option, file] if what == "instr" && option == "--json" => (Some(file), None),
        [what, option, file] if what == "instr" && option == "--against" => (None, Some(file)),
        other => {
            bail!(
                "`bench` accepts `sched`, `instr`, `instr --json FILE` and `instr --against FILE`, but was given `{}`",
                other.join(" ")
            )
        }
    };
    let against = against.map(|file| Figures::read(file)).transpose()?;
    let measured = measure(workspace)?;
    if let Some(file) = json {
        Figures::of(&measured)?.write(file)?;
    }
    match against {
        Some(figures) => figures.judge(&measured),
        None => by_gates(&measured),
    }
}

fn by_gates(measured: &[Measured]) -> anyhow::Result<()> {
    let beyond: Vec<_> = measured.iter().filter(|m| m.count > m.gate).map(|m| m.key).collect();
    ensure!(beyond.is_empty(), "beyond the gate: {}", beyond.join(", "));
    Ok(())
}

/// Counts, and prints each count as it comes.
fn measure(workspace: &Workspace) -> anyhow::Result<Vec<Measured>> {
    let build = format!("build --release -p ugds-tests --bin {QUEUE} --bin {FACADE}");
    ensure!(workspace.cargo(&build).status()?.success(), "the programs to be counted were not built");
    let program = |name| workspace.target_dir().join("release").join(name);
    let empty = |name| per_operation(&program(name), "empty");
    let loops = [(QUEUE, empty(QUEUE)?), (FACADE, empty(FACADE)?)];
    let mut measured = Vec::new();
    println!("{:<26} {:>12} {:>6} {:>6}", "operation", "instructions", "goal", "gate");
    for Row { key, program: name, goal, gate } in ROWS {
        let empty = loops.iter().find(|(of, _)| of == name).map_or(0.0, |(_, count)| *count);
        let count = per_operation(&program(name), key)? - empty;
        println!("{key:<26} {count:>12.1} {goal:>6} {gate:>6}");
        measured.push(Measured { key, count, goal: *goal as f64, gate: *gate as f64 });
    }
    println!("{:<26} {:>12} {:>6} {:>6}", "other", "count", "goal", "gate");
    for facade::Count { key, count, gate } in facade::counts(&program(FACADE), &program(QUEUE))? {
        println!("{key:<26} {count:>12.3} {gate:>6} {gate:>6}");
        measured.push(Measured { key, count, goal: gate, gate });
    }
    Ok(measured)
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
    let annotated =
        Command::new("callgrind_annotate").args(["--auto=no", "--threshold=100"]).arg(&out).output()?;
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
