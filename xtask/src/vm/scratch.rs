//! A folder for one run's temporary files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

/// A folder of this process alone. It is removed when the value is dropped; those that killed runs left behind
/// are removed when the next one is made.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = prefix();
        sweep(&prefix);
        // Relaxed: only the uniqueness of the number counts.
        let name = format!("{prefix}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// A path in the folder.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("vm: {} stays behind: {error}", self.path.display());
        }
    }
}

/// Names carry the namespace of process ids: in a container that shares the folder, a living process of another
/// one would look dead.
fn prefix() -> String {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("ugds-vm-{number}-")
}

fn sweep(prefix: &str) {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another user's, or another run was faster: not this run's problem.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_process_leaves_nothing() {
        // Above the largest process id that Linux gives.
        let dead = std::env::temp_dir().join(format!("{}4194305-0", prefix()));
        fs::create_dir_all(&dead).unwrap();
        let scratch = Scratch::new().unwrap();
        assert!(!dead.exists() && scratch.path.is_dir());
        let path = scratch.path.clone();
        drop(scratch);
        assert!(!path.exists());
    }
}
