//! Files that people name.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::Context;

use crate::failure::usage;

/// Opens the file at `path` to read it. Returns its length, too.
///
/// # Errors
/// When it can't be read, is empty, or is no regular file.
pub(crate) fn regular_file(path: &Path) -> anyhow::Result<(File, u64)> {
    let name = path.display();
    // Before it is opened: opening a pipe waits for somebody to write to it.
    let metadata = std::fs::metadata(path).with_context(|| format!("cannot open {name}"))?;
    must_be_regular(path, &metadata, "a regular file")?;
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let len_bytes = file.metadata().with_context(|| name.to_string())?.len();
    if len_bytes == 0 {
        return Err(usage(format!("{name} is empty; a file of 1 byte or more is accepted")));
    }
    Ok((file, len_bytes))
}

/// # Errors
/// When `path` is a folder, a pipe, a device or a socket.
pub(crate) fn must_be_regular(path: &Path, metadata: &Metadata, accepted: &str) -> anyhow::Result<()> {
    let name = path.display();
    if metadata.file_type().is_block_device() {
        let device = "kernel block devices can't be opened; use vfio:BUS:DEVICE.FUNCTION, its PCI address";
        return Err(usage(format!("{name} is no regular file; {device}")));
    }
    if !metadata.is_file() {
        return Err(usage(format!("{name} is no regular file; {accepted} is accepted")));
    }
    Ok(())
}

/// Whether both names are there and lead to one file, by whatever links.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((place(one), place(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name);
        std::fs::write(name("a"), b"a").unwrap();
        std::fs::write(name("b"), b"a").unwrap();
        std::os::unix::fs::symlink("a", name("symbolic")).unwrap();
        std::fs::hard_link(name("a"), name("hard")).unwrap();
        assert!(same_file(&name("symbolic"), &name("hard")));
        assert!(!same_file(&name("a"), &name("b")));
        assert!(!same_file(&name("missing"), &name("missing")));
    }
}
