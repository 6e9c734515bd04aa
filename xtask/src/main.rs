//! The developer tasks of the workspace: `cargo xtask TASK`. This file is their table; each task has a file.

mod layers;
mod lint;
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
    run: fn(&Workspace, &[String]) -> anyhow::Result<()>,
}

#[rustfmt::skip]
const TASKS: &[Task] = &[
    Task { name: "test",   arguments: "[FILTER..]", purpose: "every test, doctest and example, then the long properties in release mode", run: test::run },
    Task { name: "lint",   arguments: "", purpose: "format, clippy, documentation and the source rules, warnings as errors", run: lint::run },
    Task { name: "layers", arguments: "", purpose: "no dependency points up a floor", run: layers::run },
    Task { name: "nostd",  arguments: "", purpose: "the lower floors build without the standard library", run: nostd::run },
    Task { name: "vm",     arguments: vm::ARGUMENTS, purpose: "a virtual machine with an NVMe device behind an IOMMU", run: vm::run },
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
    let mut text = String::from("Developer tasks of uGDS\n\nUsage: cargo xtask TASK\n\nTasks:\n");
    for task in TASKS {
        let usage = format!("{} {}", task.name, task.arguments);
        text.push_str(&format!("  {usage:<23} {}\n", task.purpose));
    }
    text
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
        }
    }
}
