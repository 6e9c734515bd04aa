//! `cargo xtask nightly`: what takes longer than a change should wait for.

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Everything of `test`, then the same tests with more and larger cases.
pub(crate) fn run(workspace: &Workspace, _: &[String]) -> anyhow::Result<()> {
    let mut steps = Steps::of(3);
    // In release mode the matrix copies 20 MiB, and the cycles are a thousand.
    let matrix = "test --release -p ugds-cli --test matrix -- --nocapture";
    steps.libtest("copies through every make of controller", &mut workspace.cargo(matrix))?;
    let oracle = "test --release -p ugds-tests -- --nocapture";
    let mut oracle = workspace.cargo(oracle);
    steps.libtest("random operations and faults", oracle.env("UGDS_CASES", CASES))?;
    let mut soak = workspace.cargo("test --release -p ugds-tests --test soak -- --nocapture");
    steps.libtest("everything at once", soak.env("UGDS_SOAK_SECONDS", SOAK_SECONDS))
}

/// How many times as many cases of each property as `test` runs.
const CASES: &str = "8";
/// Ten minutes of what `test` does for a second.
const SOAK_SECONDS: &str = "600";
