//! Where the workspace is, and how its cargo is called.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The workspace that this program was built from.
pub(crate) struct Workspace {
    root: PathBuf,
    cargo: PathBuf,
}

impl Workspace {
    /// Finds the workspace by the place of this package, and cargo by `$CARGO`, which cargo itself sets.
    pub(crate) fn locate() -> anyhow::Result<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.parent().context("the package xtask has no parent folder")?.to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into();
        Ok(Self { root, cargo })
    }

    /// The folder of the workspace's manifest.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The cargo to call.
    pub(crate) fn cargo_path(&self) -> &Path {
        &self.cargo
    }

    /// The folder for build results, as cargo sees it.
    pub(crate) fn target_dir(&self) -> PathBuf {
        match std::env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => self.root.join(folder),
            None => self.root.join("target"),
        }
    }

    /// A call of cargo at the workspace's root, yet to be run.
    ///
    /// The words are split at spaces. What cargo told this program about its own package is taken away, so that
    /// build scripts see the same environment as under a call by hand and nothing is rebuilt.
    pub(crate) fn cargo(&self, words: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(words.split_whitespace()).current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
                command.env_remove(name);
            }
        }
        command
    }

    /// Whether cargo knows the subcommand `name`.
    pub(crate) fn has_subcommand(&self, name: &str) -> bool {
        self.cargo(name).arg("--version").output().is_ok_and(|output| output.status.success())
    }
}
