//! What the facade's calls cost beside instructions: allocations, system calls, doorbells, locked instructions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// A count by its key. Its goal is its gate: none of these has a price.
pub(super) struct Count {
    pub(super) key: &'static str,
    pub(super) count: f64,
    pub(super) gate: f64,
}

/// Counts all of them. `facade` is `instr-facade`, `queue` is `instr`.
pub(super) fn counts(facade: &Path, queue: &Path) -> anyhow::Result<Vec<Count>> {
    let told = told_by(facade)?;
    let of =
        |key: &str| told.get(key).copied().with_context(|| format!("`instr-facade counts` says no {key}"));
    Ok(vec![
        Count { key: "mmio_writes_b32", count: of("mmio_writes_b32")?, gate: 2.0 },
        Count { key: "alloc_per_io", count: of("alloc_per_io")?, gate: 0.0 },
        Count { key: "syscall_per_io", count: system_calls(facade)?, gate: 0.0 },
        Count { key: "locked_rmw_queue", count: locked(queue)? as f64, gate: 0.0 },
    ])
}

/// What the program counts by itself: lines of a key and a number.
fn told_by(facade: &Path) -> anyhow::Result<BTreeMap<String, f64>> {
    let run = Command::new(facade).arg("counts").output()?;
    ensure!(run.status.success(), "instr-facade counts: {}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&run.stdout);
    let pair = |line: &str| {
        let (key, number) = line.split_once(' ')?;
        Some((key.to_owned(), number.parse().ok()?))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// System calls of one operation, from two runs that differ in nothing but the number of operations.
fn system_calls(facade: &Path) -> anyhow::Result<f64> {
    let mut more = 0;
    for key in KEYS {
        more += traced(facade, key, 2 * TIMES)?.saturating_sub(traced(facade, key, TIMES)?);
    }
    Ok(more as f64 / (KEYS.len() as u64 * TIMES) as f64)
}

fn traced(facade: &Path, key: &str, times: u64) -> anyhow::Result<u64> {
    let out = std::env::temp_dir().join(format!("ugds-strace-{}", std::process::id()));
    let run = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&out)
        .arg(facade)
        .args([key, &times.to_string()])
        .output()
        .context("cannot start strace; `apt-get install strace` brings it")?;
    ensure!(run.status.success(), "{key} under strace: {}", String::from_utf8_lossy(&run.stderr));
    let lines = fs::read_to_string(&out)?.lines().count() as u64;
    let _ = fs::remove_file(&out);
    Ok(lines)
}

/// Locked instructions in the loops around an exclusive queue, into which all of its hot path is inlined.
fn locked(queue: &Path) -> anyhow::Result<usize> {
    let run = Command::new("objdump").args(["-d", "-C", "--no-show-raw-insn"]).arg(queue).output();
    let run = run.context("cannot start objdump; `apt-get install binutils` brings it")?;
    ensure!(run.status.success(), "objdump: {}", String::from_utf8_lossy(&run.stderr));
    locked_in(&String::from_utf8_lossy(&run.stdout)).context("no loop around a queue was found")
}

fn locked_in(listing: &str) -> Option<usize> {
    let mut inside = false;
    let (mut found, mut locked) = (false, 0);
    for line in listing.lines() {
        if line.ends_with(">:") {
            inside = line.contains("Rig::reads");
            found |= inside;
        } else if inside {
            locked += usize::from(is_locked(line));
        }
    }
    found.then_some(locked)
}

fn is_locked(line: &str) -> bool {
    let instruction = line.split_once(":\t").map_or("", |(_, instruction)| instruction);
    let exchanges_memory = instruction.starts_with("xchg") && instruction.contains('(');
    instruction.starts_with("lock ") || exchanges_memory || instruction.starts_with("mfence")
}

const KEYS: [&str; 3] = ["facade_read_4k_sync", "facade_read_1m_sync", "facade_batch_4k_b32"];
const TIMES: u64 = 3200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_instructions_count_where_the_queue_is() {
        let listing = "0001 <instr::Rig::reads>:\n  10:\tlock xadd %eax,(%rdi)\n  14:\txchg %ax,%ax\n  \
                       18:\txchg %eax,(%rbx)\n  1c:\tmfence\n  20:\tmov %eax,%ebx\n\n\
                       0002 <other>:\n  30:\tlock incl (%rdi)\n";
        assert_eq!(locked_in(listing), Some(3));
        assert_eq!(locked_in("nothing"), None);
    }
}
