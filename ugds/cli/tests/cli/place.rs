//! Runs the program and looks at what it leaves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use tempfile::TempDir;

/// A temporary folder, which is the program's working folder and its place for temporary files.
pub(crate) struct Place(TempDir);

/// What a run left.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `ugds` with these words.
    pub(crate) fn ugds(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ugds"));
        let command = command.timeout(HANGS_AFTER);
        let output = command.args(words).current_dir(&self.0).env("TMPDIR", self.0.path()).output().unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The same, and requires that it succeeds in silence on the standard error.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let ran = self.ugds(words);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{words:?}: {}", ran.stdout);
        ran.stdout
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// No command of a test takes nearly as long, even on a busy machine.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Bytes that don't repeat.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
