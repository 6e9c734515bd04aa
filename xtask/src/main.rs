//! The developer tasks of the workspace: `cargo xtask TASK`. This file is their table; each task has a file.

mod bench;
mod gpu;
mod layers;
mod lint;
mod model;
mod nightly;
mod nostd;
mod steps;
mod test;
mod vm;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

/// One row of the table of tasks.
struct Task {
    name: &'static str,
    arguments: &'static str,
    purpose: &'static str,
    /// For `--help` of the task: what it does step by step, and what it needs.
    details: &'static str,
    run: fn(&Workspace, &[String]) -> anyhow::Result<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        arguments: "[FILTER..]",
        purpose: "every test, doctest and example, then the long properties in release mode",
        details: "With FILTERs, only the unit and integration tests whose names contain one of them.\n\
                  cargo-nextest runs them if it is installed, else `cargo test`. Nothing needs root,\n\
                  a GPU or an NVMe device; `cargo xtask vm test` is the one with a kernel.\n",
        run: test::run,
    },
    Task {
        name: "lint",
        arguments: "",
        purpose: "format, clippy, documentation and the source rules, warnings as errors",
        details: "The source rules: where unsafe code may stand and that it says why, which crates\n\
                  forbid it, and how long a lib.rs may be. Stops at the first step that fails.\n",
        run: lint::run,
    },
    Task {
        name: "layers",
        arguments: "",
        purpose: "no dependency points up a floor",
        details: "Reads `cargo metadata`, dev-dependencies included.\n",
        run: layers::run,
    },
    Task {
        name: "nostd",
        arguments: "",
        purpose: "the lower floors build without the standard library",
        details: "Builds a `no_std` program with them; with their std features it must fail to build.\n",
        run: nostd::run,
    },
    Task {
        name: "bench",
        arguments: "instr|sched [OPTION..]",
        purpose: "instructions per operation, or policies in virtual time, against bounds",
        details: "instr [--json FILE]: needs valgrind, strace and objdump. Counts in the default release profile, so\n\
                  the first build takes a while. Fails beyond a gate.\n\
                  instr --against xtask/figures.json: fails where a gate that was kept is not, and with the\n\
                  same compiler where a count grew by 2 %. What was beyond its gate before is only told.\n\
                  sched [--json FILE] [--plot FILE.svg]: small reads beside large writes on a modelled device,\n\
                  many callers, polling against interrupts. Repeats exactly.\n",
        run: bench::run,
    },
    Task {
        name: "model",
        arguments: "",
        purpose: "what threads share, in every order of steps",
        details: "Builds with loom's atomics (`--cfg loom`) in a target folder of its own.\n",
        run: model::run,
    },
    Task {
        name: "nightly",
        arguments: "",
        purpose: "the tests that take longer: large copies, eight times the random cases",
        details: "About 12 minutes on 2 cores. UGDS_MATRIX_FILE names a file of one's own for the copies.\n",
        run: nightly::run,
    },
    Task {
        name: "gpu",
        arguments: "[--out FOLDER]",
        purpose: "a folder to carry to a machine with a GPU: `ugds-gpu-check`",
        details: "Builds in release mode, without CUDA or a GPU. The program prints a report, as text or with --json.\n\
                  It exits with 0 when all checks passed, 1 when one failed, 3 when there is no GPU.\n",
        run: gpu::run,
    },
    Task {
        name: "vm",
        arguments: vm::ARGUMENTS,
        purpose: "a virtual machine with an NVMe device behind an IOMMU",
        // It prints its own help.
        details: "",
        run: vm::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        None | Some("help" | "--help" | "-h") => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Some(name) => match TASKS.iter().find(|task| task.name == name) {
            Some(task) => execute(task, &arguments[1..]),
            None => {
                eprintln!("xtask: error: no task named `{name}`; accepted are {}", names());
                ExitCode::from(2)
            }
        },
    }
}

fn execute(task: &Task, arguments: &[String]) -> ExitCode {
    if !task.details.is_empty() && arguments.iter().any(|word| word == "--help" || word == "-h") {
        print!("{}", help_of(task));
        return ExitCode::SUCCESS;
    }
    if task.arguments.is_empty()
        && let Some(extra) = arguments.first()
    {
        eprintln!("xtask: error: `{}` takes no arguments, but was given `{extra}`", task.name);
        return ExitCode::from(2);
    }
    match Workspace::locate().and_then(|workspace| (task.run)(&workspace, arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {} failed: {error:#}", task.name);
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let mut text = String::from(
        "Developer tasks of uGDS\n\nUsage: cargo xtask TASK, or cargo xtask TASK --help\n\nTasks:\n",
    );
    for task in TASKS {
        let usage = format!("{} {}", task.name, task.arguments);
        text.push_str(&format!("  {usage:<23} {}\n", task.purpose));
    }
    text
}

fn help_of(task: &Task) -> String {
    let usage = format!("cargo xtask {} {}", task.name, task.arguments);
    format!("{}: {}\n\nUsage: {}\n\n{}", task.name, task.purpose, usage.trim_end(), task.details)
}

fn names() -> String {
    TASKS.iter().map(|task| format!("`{}`", task.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_each_task_once() {
        for task in TASKS {
            assert_eq!(TASKS.iter().filter(|other| other.name == task.name).count(), 1, "{}", task.name);
            assert!(help().contains(&format!("  {} ", task.name)));
            assert!(help_of(task).lines().all(|line| line.len() <= 100), "{}", task.name);
        }
    }
}
