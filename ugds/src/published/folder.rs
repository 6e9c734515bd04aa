//! The folder of the sockets, which only its user may enter.

use nix::unistd::geteuid;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why statistics can't be published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The folder is not one that only this user may enter.
    #[error("{path} {fault}; a folder of user {user} with mode 0700 is accepted", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
        /// The user of this process.
        user: u32,
    },
    /// The operating system refused.
    #[error("{what} {path}: {reason}", path = path.display())]
    System {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
}

impl PublishError {
    pub(super) fn system(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::System { what, path: path.to_owned(), reason }
    }
}

/// The folder of this user's sockets: `ugds` in `$XDG_RUNTIME_DIR`, or `/tmp/ugds-UID` where there is none. It is there
/// once something was published.
#[must_use]
pub fn folder() -> PathBuf {
    // Both have to say the same: a path that is not absolute would depend on where a program was started.
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(runtime) => runtime.join("ugds"),
        None => PathBuf::from(format!("/tmp/ugds-{}", geteuid())),
    }
}

/// Makes the folder if it is missing.
pub(super) fn make() -> Result<PathBuf, PublishError> {
    let path = folder();
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(PublishError::system("cannot make", &path)(error));
        }
        _ => {}
    }
    check(&path)?;
    Ok(path)
}

/// Whether nobody but this user can have put anything into it. Anybody can make a folder in `/tmp` of any name.
pub(super) fn check(path: &Path) -> Result<(), PublishError> {
    let metadata = fs::symlink_metadata(path).map_err(PublishError::system("cannot look at", path))?;
    let user = geteuid().as_raw();
    let mode = metadata.mode() & 0o777;
    let fault = if !metadata.is_dir() {
        "is no folder".to_owned()
    } else if metadata.uid() != user {
        format!("belongs to user {}", metadata.uid())
    } else if mode & 0o077 != 0 {
        format!("has mode {mode:04o}")
    } else {
        return Ok(());
    };
    Err(PublishError::Folder { path: path.to_owned(), fault, user })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let inside = |name: &str| place.path().join(name);
        let fault = |name: &str| check(&inside(name)).unwrap_err().to_string();
        DirBuilder::new().mode(0o700).create(inside("own")).unwrap();
        check(&inside("own")).unwrap();
        fs::set_permissions(inside("own"), Permissions::from_mode(0o750)).unwrap();
        assert!(fault("own").contains("has mode 0750"), "{}", fault("own"));
        symlink("own", inside("link")).unwrap();
        assert!(fault("link").contains("is no folder"));
        fs::write(inside("file"), "").unwrap();
        assert!(fault("file").contains("mode 0700 is accepted"));
        assert!(fault("none").contains("cannot look at"));
    }
}
