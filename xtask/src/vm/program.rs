//! Builds the workspace's programs for the guest.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};
use cargo_metadata::Message;

use super::initramfs::Addition;
use crate::workspace::Workspace;

/// A program of the workspace: a binary, an example or a test, built in release mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    pub(crate) package: &'static str,
    /// How cargo selects it: `--bin`, `--example` or `--test`.
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
}

/// Builds `programs` and gives the files to add; in the guest each has its cargo name and is in `PATH`.
pub(crate) fn build(
    workspace: &Workspace,
    programs: impl IntoIterator<Item = Program>,
) -> anyhow::Result<Vec<Addition>> {
    let programs: BTreeSet<Program> = programs.into_iter().collect();
    let additions = programs.into_iter().map(|program| {
        let host = build_one(workspace, program).with_context(|| format!("{program:?}"))?;
        Ok(Addition { host, guest: Some(format!("/vm/bin/{}", program.name)) })
    });
    additions.collect()
}

fn build_one(workspace: &Workspace, program: Program) -> anyhow::Result<PathBuf> {
    let Program { package, kind, name } = program;
    // A test is built by `cargo test` alone.
    let verb = if kind == "--test" { "test --no-run" } else { "build" };
    let line = format!(
        "{verb} --quiet --release -p {package} {kind} {name} --message-format=json-render-diagnostics"
    );
    let mut child = workspace.cargo(&line).stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut path = None;
    for message in Message::parse_stream(BufReader::new(output)) {
        if let Message::CompilerArtifact(artifact) = message?
            && artifact.target.name == name
        {
            path = artifact.executable.map(PathBuf::from).or(path);
        }
    }
    ensure!(child.wait()?.success(), "cargo failed");
    path.context("cargo built no such program")
}
