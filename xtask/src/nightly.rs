//! `cargo xtask nightly`: what takes longer than a change should wait for.

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Everything of `test`, then the same tests with more and larger cases.
pub(crate) fn run(workspace: &Workspace, _: &[String]) -> anyhow::Result<()> {
    let mut steps = Steps::of(2);
    // In release mode the matrix copies 20 MiB, and the cycles are a thousand.
    let matrix = "test --release -p ugds-cli --test matrix -- --nocapture";
    steps.libtest("copies through every make of controller", &mut workspace.cargo(matrix))?;
    let oracle = "test --release -p ugds-tests -- --nocapture";
    let mut oracle = workspace.cargo(oracle);
    steps.libtest("random operations and faults", oracle.env("UGDS_CASES", CASES))
}

/// How many times as many cases of each property as `test` runs.
const CASES: &str = "8";
