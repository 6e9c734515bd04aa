//! `cargo xtask model`: what threads share, in every order of steps (loom).

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Packages with models: each in `tests/loom.rs`, or, where they are about what nobody else sees, in a module `model_tests`.
const MODELLED: &[(&str, &str)] =
    &[("ugds-mem", "--test loom"), ("ugds-sched", "--test loom"), ("ugds", "--lib model_tests")];

/// Runs the models of every package. A build with loom's atomics is of no other use, so it has a folder of its own.
pub(crate) fn run(workspace: &Workspace, _: &[String]) -> anyhow::Result<()> {
    let mut steps = Steps::of(MODELLED.len());
    for (package, target) in MODELLED {
        let mut call = workspace.cargo(&format!("test --release -p {package} {target}"));
        call.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", workspace.target_dir().join("loom"));
        steps.libtest(package, &mut call)?;
    }
    Ok(())
}
