//! Where kernels and tools are kept between runs: outside the checkout, by version, so that checkouts share them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The folder of everything that was fetched.
#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$UGDS_VM_CACHE`, else `ugds-vm` in `$XDG_CACHE_HOME` or `~/.cache`. It is made if it isn't there.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = variable("UGDS_VM_CACHE")
            .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("ugds-vm")))
            .or_else(|| Some(variable("HOME")?.join(".cache/ugds-vm")))
            .context("none of UGDS_VM_CACHE, XDG_CACHE_HOME and HOME is set")?;
        fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
        Ok(Self { root })
    }

    /// What was fetched under `name`, if it is complete.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let folder = self.root.join(name);
        folder.is_dir().then_some(folder)
    }

    /// The folder that `alias` was last pointed to, if it is still there.
    pub(crate) fn current(&self, alias: &str) -> Option<PathBuf> {
        self.find(fs::read_to_string(self.alias_path(alias)).ok()?.trim())
    }

    /// Lets `fill` make the folder `name` and points `alias` to it.
    ///
    /// The folder appears whole or not at all; of two runs that make it at once, the first one's stays.
    pub(crate) fn store(
        &self,
        alias: &str,
        name: &str,
        fill: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        let folder = self.root.join(name);
        if !folder.is_dir() {
            let staging = Staging::new(self)?;
            fill(staging.path())?;
            if let Err(error) = fs::rename(staging.path(), &folder)
                && !folder.is_dir()
            {
                return Err(error).with_context(|| folder.display().to_string());
            }
        }
        replace(&self.alias_path(alias), name.as_bytes())?;
        Ok(folder)
    }

    fn alias_path(&self, alias: &str) -> PathBuf {
        self.root.join(format!("{alias}.current"))
    }
}

/// A folder in the cache for work in progress. It is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
}

impl Staging {
    pub(crate) fn new(cache: &Cache) -> anyhow::Result<Self> {
        let path = cache.root.join(unique("staging"));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // It is gone when it was renamed to its final place.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Puts `content` at `path` such that a reader sees the old or the new file, never a part.
pub(crate) fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let new = path.with_file_name(unique("new"));
    fs::write(&new, content).and_then(|()| fs::rename(&new, path)).with_context(|| path.display().to_string())
}

/// A name that no other process and no earlier call of this one uses.
fn unique(purpose: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the uniqueness of the number counts.
    format!("{purpose}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> Cache {
        let root = std::env::temp_dir().join(unique(name));
        fs::create_dir_all(&root).unwrap();
        Cache { root }
    }

    #[test]
    fn a_folder_is_stored_once_and_found() {
        let cache = cache("stored-once");
        assert!(cache.current("kernel").is_none());
        let fill = |folder: &Path| Ok(fs::write(folder.join("vmlinuz"), "1")?);
        let folder = cache.store("kernel", "kernel-7.3", fill).unwrap();
        let again = cache.store("kernel", "kernel-7.3", |_| panic!("it is there")).unwrap();
        assert_eq!((&folder, cache.current("kernel")), (&again, Some(folder.clone())));
        fs::remove_dir_all(&cache.root).unwrap();
    }

    #[test]
    fn a_failed_fill_leaves_nothing() {
        let cache = cache("failed-fill");
        cache.store("kernel", "kernel-7.3", |_| anyhow::bail!("no network")).unwrap_err();
        assert_eq!(fs::read_dir(&cache.root).unwrap().count(), 0);
        fs::remove_dir_all(&cache.root).unwrap();
    }
}
