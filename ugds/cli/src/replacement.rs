//! Files that take the place of others only when they are complete.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use tempfile::NamedTempFile;

use crate::cleanup::Temporary;
use crate::failure::usage;
use crate::file::must_be_regular;

/// A file under another name beside its destination, which takes its place at the end. If it is dropped before, or
/// a signal ends the program, nothing is left of it.
pub(crate) struct Replacement {
    file: NamedTempFile,
    path: PathBuf,
    temporary: Temporary,
}

impl Replacement {
    /// A file that becomes the one at `path`, which is replaced if it exists. A link is followed.
    ///
    /// # Errors
    /// When no file can be made there, or what is there is no regular file.
    pub(crate) fn of(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let (path, permissions) = match fs::metadata(path) {
            Ok(metadata) => {
                must_be_regular(path, &metadata, "a regular or a new file")?;
                (fs::canonicalize(path).with_context(|| name.to_string())?, metadata.permissions())
            }
            // The process's mask is applied to it, as to every new file.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (end_of_links(path)?, Permissions::from_mode(0o666))
            }
            Err(error) => return Err(error).with_context(|| format!("cannot make {name}")),
        };
        let folder = folder(&path);
        if !folder.is_dir() {
            return Err(anyhow!("there is no folder {}", folder.display()))
                .with_context(|| format!("cannot make {}", path.display()));
        }
        let mut builder = tempfile::Builder::new();
        let make = || builder.prefix(".ugds-").permissions(permissions).tempfile_in(folder);
        let (file, temporary) = Temporary::make(make, NamedTempFile::path)
            // Its text has the name of a file that nobody has asked for.
            .map_err(|error| io::Error::from(error.kind()))
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { file, path, temporary })
    }

    /// The file that is being filled.
    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The name that it will have.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it in its place.
    pub(crate) fn commit(self) -> anyhow::Result<()> {
        let Self { file, path, temporary } = self;
        file.persist(&path).map(drop).with_context(|| format!("cannot replace {}", path.display()))?;
        drop(temporary);
        Ok(())
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where a link leads whose target is missing; `path` itself if it is no link.
fn end_of_links(path: &Path) -> anyhow::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            // `join` with an absolute target is that target.
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(usage(format!("{} is one of more than {LINKS_MAX} links to follow", path.display())))
}

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;
