//! `cargo xtask test`: everything that can fail, in the order of how fast it fails.

use std::process::Command;

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Packages whose properties draw more cases, or bigger ones, without `cfg!(debug_assertions)`. They run a second
/// time in release mode.
const LONG_IN_RELEASE: &[&str] = &["nvme-proto", "ugds-mem", "ugds", "ugds-tests"];

/// Examples that are run, with their packages. All others are built only.
const RUN: &[(&str, &str)] = &[("ugds-cli", "first")];

/// Runs the tests whose names contain one of `filters`, or all of them with doctests and examples.
pub(crate) fn run(workspace: &Workspace, filters: &[String]) -> anyhow::Result<()> {
    let mut steps = Steps::of(if filters.is_empty() { 4 + RUN.len() } else { 1 });
    let runner = Runner::choose(workspace);
    runner.run(&mut steps, "unit and integration tests", "--workspace", filters)?;
    if !filters.is_empty() {
        return Ok(());
    }
    steps.libtest("doctests", &mut workspace.cargo("test --doc --workspace"))?;
    steps.command("build of all examples", &mut workspace.cargo("build --workspace --examples"))?;
    for (package, example) in RUN {
        let call = format!("run --quiet -p {package} --example {example}");
        steps.command(&format!("example {example}"), &mut workspace.cargo(&call))?;
    }
    let packages: String = LONG_IN_RELEASE.iter().map(|package| format!(" -p {package}")).collect();
    runner.run(&mut steps, "long properties, release", &format!("--release{packages}"), &[])
}

/// What runs the unit and integration tests.
enum Runner<'a> {
    /// A process per test, in parallel across binaries.
    Nextest(&'a Workspace),
    /// What every cargo has.
    Libtest(&'a Workspace),
}

impl<'a> Runner<'a> {
    fn choose(workspace: &'a Workspace) -> Self {
        if workspace.has_subcommand("nextest") {
            return Self::Nextest(workspace);
        }
        println!("cargo-nextest is not installed: `cargo test` runs the tests");
        Self::Libtest(workspace)
    }

    fn run(&self, steps: &mut Steps, name: &str, selection: &str, filters: &[String]) -> anyhow::Result<()> {
        match self {
            Self::Nextest(workspace) => {
                let mut call = nextest(workspace, selection);
                steps.command(name, without_lto(&mut call).args(filters))
            }
            // `--all-targets` would add the benches.
            Self::Libtest(workspace) => {
                let mut call =
                    workspace.cargo(&format!("test --no-fail-fast --lib --bins --tests {selection} --"));
                steps.libtest(name, without_lto(&mut call).args(filters))
            }
        }
    }
}

/// Properties need speed, not the last of it: optimising each of many test binaries at link time takes minutes.
fn without_lto(call: &mut Command) -> &mut Command {
    call.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
}

fn nextest(workspace: &Workspace, selection: &str) -> Command {
    workspace.cargo(&format!("nextest run --no-fail-fast --no-tests=fail --status-level=slow {selection}"))
}
