//! Writes archives of the format `newc`, the one that the kernel unpacks as its first file system.
//!
//! The format is described in the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`. Times are
//! zero and everything belongs to root, so the same tree gives the same bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// A tree of files that becomes an archive.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// By path without the leading slash. The order puts a folder before what is in it, as the kernel needs.
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
enum Entry {
    Folder,
    Bytes { content: Vec<u8>, mode: u32 },
    Host { path: PathBuf, mode: u32 },
}

impl Tree {
    /// Adds a folder, with its parents.
    pub(crate) fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            self.entries.entry(path[..at].to_owned()).or_insert(Entry::Folder);
        }
        self.entries.entry(path.to_owned()).or_insert(Entry::Folder);
    }

    /// Adds a file with the permission bits `mode` (say `0o644`). A later file of the same path replaces it.
    pub(crate) fn bytes(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) {
        self.insert(path, Entry::Bytes { content: content.into(), mode });
    }

    /// Adds the host's file `host`, which is read when the archive is written.
    pub(crate) fn host_file(&mut self, path: &str, mode: u32, host: &Path) {
        self.insert(path, Entry::Host { path: host.to_owned(), mode });
    }

    /// Whether something is at `path`.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_matches('/'))
    }

    fn insert(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Writes the archive with its trailer.
    ///
    /// # Errors
    /// When a host file cannot be read or is larger than the format's 4 GiB.
    pub(crate) fn write(&self, to: &mut impl Write) -> anyhow::Result<()> {
        for (at, (name, entry)) in self.entries.iter().enumerate() {
            let inode = u32::try_from(at + 1)?;
            match entry {
                Entry::Folder => header(to, inode, S_IFDIR | 0o755, 0, name)?,
                Entry::Bytes { content, mode } => {
                    header(to, inode, S_IFREG | mode, u32::try_from(content.len())?, name)?;
                    to.write_all(content)?;
                    pad(to, content.len())?;
                }
                Entry::Host { path, mode } => {
                    host_file(to, inode, *mode, name, path).with_context(|| path.display().to_string())?;
                }
            }
        }
        header(to, 0, 0, 0, TRAILER)?;
        Ok(())
    }
}

fn host_file(to: &mut impl Write, inode: u32, mode: u32, name: &str, path: &Path) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    let len = u32::try_from(file.metadata()?.len()).context("larger than 4 GiB")?;
    header(to, inode, S_IFREG | mode, len, name)?;
    let copied = io::copy(&mut file, to)?;
    ensure!(copied == u64::from(len), "changed from {len} to {copied} bytes while it was read");
    pad(to, len as usize)?;
    Ok(())
}

fn header(to: &mut impl Write, inode: u32, mode: u32, file_len: u32, name: &str) -> io::Result<()> {
    let name_len = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
    // In the format's order: ino, mode, uid, gid, nlink, mtime, filesize, four device numbers, namesize, check.
    let fields = [inode, mode, 0, 0, 1, 0, file_len, 0, 0, 0, 0, name_len, 0];
    write!(to, "070701")?;
    for field in fields {
        write!(to, "{field:08X}")?;
    }
    to.write_all(name.as_bytes())?;
    to.write_all(&[0])?;
    pad(to, HEADER_LEN + name.len() + 1)
}

/// Fills up to the multiple of 4 bytes at which names end and files begin.
fn pad(to: &mut impl Write, len: usize) -> io::Result<()> {
    to.write_all(&[0; 3][..len.next_multiple_of(4) - len])
}

const HEADER_LEN: usize = 110;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const TRAILER: &str = "TRAILER!!!";

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn archive(tree: &Tree) -> Vec<u8> {
        let mut bytes = Vec::new();
        tree.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_file_has_its_header_name_and_padding() {
        let mut tree = Tree::default();
        tree.bytes("/a", 0o755, "hello");
        let bytes = archive(&tree);
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081ED", "a regular file of mode 755");
        assert_eq!(&bytes[54..62], b"00000005");
        assert_eq!(&bytes[110..112], b"a\0");
        assert_eq!(&bytes[112..120], b"hello\0\0\0");
        assert!(bytes.len().is_multiple_of(4));
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut tree = Tree::default();
        tree.bytes("lib/modules/vfio.ko", 0o644, "");
        tree.folder("lib");
        let names: Vec<_> = tree.entries.keys().cloned().collect();
        assert_eq!(names, ["lib", "lib/modules", "lib/modules/vfio.ko"]);
        assert!(tree.contains("/lib/modules") && !tree.contains("/lib64"));
    }

    #[test]
    fn the_tool_of_the_same_name_reads_it() {
        let mut tree = Tree::default();
        tree.bytes("vm/steps/000", 0o644, "exec true\n");
        tree.host_file("vm/self", 0o644, Path::new(env!("CARGO_MANIFEST_PATH")));
        let mut cpio = std::process::Command::new("cpio");
        cpio.arg("-it").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut list) = cpio.spawn() else { return println!("skipped: no cpio on this machine") };
        list.stdin.take().unwrap().write_all(&archive(&tree)).unwrap();
        let output = list.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "vm\nvm/self\nvm/steps\nvm/steps/000\n");
    }
}
