//! `cargo xtask nostd`: proves that the lower floors need no standard library.
//!
//! `#![no_std]` in a crate says nothing about its dependencies. So a static library with its own panic handler is
//! built on top of them: a `std` that leaks in from anywhere brings a second one, which is error E0152.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Crates that are proved, and whether they have a `std` feature to leave off.
const CRATES: [(&str, bool); 5] = [
    ("nvme-proto", false),
    ("ugds-hal", true),
    ("ugds-mem", true),
    ("ugds-queue", false),
    ("ugds-sched", false),
];

/// Builds the probe without `std`, then with it, which must fail: a check that cannot fail proves nothing.
pub(crate) fn run(workspace: &Workspace, _: &[String]) -> anyhow::Result<()> {
    let mut steps = Steps::of(2);
    let probe = write_probe(workspace)?;
    let build = |features: &str| -> Command {
        let mut command = workspace.cargo(&format!("build --release {features}"));
        command.current_dir(&probe).env("CARGO_TARGET_DIR", workspace.target_dir().join("nostd"));
        command
    };
    steps.command("without std", &mut build(""))?;
    steps.step("with std, must fail", || must_find_std(&mut build("--features std")))?;
    println!("without std: {}", CRATES.map(|(name, _)| name).join(", "));
    Ok(())
}

fn must_find_std(build: &mut Command) -> anyhow::Result<()> {
    let output = build.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "the probe built with std on: it can't see a std that leaks in");
    ensure!(text.contains("E0152"), "the probe failed for another reason than E0152:\n{text}");
    Ok(())
}

/// Writes the probe's package below the target folder and returns its place. The workspace's lock file goes with
/// it, so that the probe has the very versions of the workspace.
fn write_probe(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = workspace.target_dir().join("nostd-probe");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest(workspace.root()))?;
    fs::write(folder.join("src/lib.rs"), source())?;
    fs::copy(workspace.root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(folder)
}

fn manifest(root: &Path) -> String {
    let mut text = String::from(MANIFEST_HEAD);
    for (name, has_std) in CRATES {
        let features = if has_std { ", default-features = false" } else { "" };
        text.push_str(&format!("{name} = {{ path = {:?}{features} }}\n", root.join(name)));
    }
    let with_std: Vec<String> = CRATES
        .iter()
        .filter(|(_, has_std)| *has_std)
        .map(|(name, _)| format!("{:?}", format!("{name}/std")))
        .collect();
    text.push_str(&format!("\n[features]\nstd = [{}]\n", with_std.join(", ")));
    text
}

fn source() -> String {
    let mut text = String::from(SOURCE_HEAD);
    for (name, _) in CRATES {
        text.push_str(&format!("extern crate {};\n", name.replace('-', "_")));
    }
    text
}

/// An empty `[workspace]` keeps the probe out of ours, whose features would be unified with its own.
const MANIFEST_HEAD: &str = r#"[package]
name = "nostd-probe"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[lib]
crate-type = ["staticlib"]

[profile.release]
panic = "abort"

[dependencies]
"#;

/// The fixed part of the probe. It is no source of the workspace: it has what a bare-metal program must bring.
const SOURCE_HEAD: &str = include_str!("nostd/probe.rs.in");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_uses_every_crate_without_its_std() {
        let text = manifest(Path::new("/somewhere"));
        assert!(
            text.contains(r#"ugds-mem = { path = "/somewhere/ugds-mem", default-features = false }"#),
            "{text}"
        );
        assert!(text.contains(r#"std = ["ugds-hal/std", "ugds-mem/std"]"#), "{text}");
        for (name, _) in CRATES {
            assert!(source().contains(&format!("extern crate {};", name.replace('-', "_"))));
        }
    }
}
