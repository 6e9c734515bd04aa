//! Blocks in a file, by `pread` and `pwrite`: a mapped file would turn a full disk into a signal.

use super::MediumError;
use crate::emu::config::ConfigError;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

#[derive(Debug)]
pub(super) struct FileMedium {
    /// Locked for as long as it is open: two controllers over one image, each with a cache and a layout of its own,
    /// would destroy each other's blocks unnoticed.
    file: Flock<File>,
}

impl FileMedium {
    /// Opens a file of at least `size_bytes`, for this controller alone; makes it, sparse, when it is missing or empty.
    pub(super) fn open(path: &Path, size_bytes: u64) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::File { path: path.to_owned(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        // Before anything is looked at or changed. By flock and not by fcntl, whose locks belong to the process.
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => ConfigError::FileInUse { path: path.to_owned() },
            errno => failed(errno.into()),
        })?;
        let len_bytes = file.metadata().map_err(failed)?.len();
        if len_bytes == 0 {
            file.set_len(size_bytes).map_err(failed)?;
        } else if len_bytes < size_bytes {
            return Err(ConfigError::FileTooSmall {
                path: path.to_owned(),
                len_bytes,
                needed_bytes: size_bytes,
            });
        }
        Ok(Self { file })
    }

    /// Reads. A file that somebody truncated has no data there, which is an error and not zeroes.
    pub(super) fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), MediumError> {
        self.file.read_exact_at(to, offset).map_err(|_| MediumError::Read)
    }

    pub(super) fn write(&self, offset: u64, from: &[u8]) -> Result<(), MediumError> {
        self.file.write_all_at(from, offset).map_err(|error| write_error(&error))
    }

    pub(super) fn zero(&self, offset: u64, len: u64) -> Result<(), MediumError> {
        if len == 0 {
            return Ok(());
        }
        let (Ok(start), Ok(bytes)) = (i64::try_from(offset), i64::try_from(len)) else {
            return Err(MediumError::Write);
        };
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&*self.file, flags, start, bytes) {
            Ok(()) => Ok(()),
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => self.write_zeroes(offset, len),
            Err(errno) => Err(write_error(&errno.into())),
        }
    }

    pub(super) fn sync(&self) -> Result<(), MediumError> {
        match self.file.sync_data() {
            Ok(()) => Ok(()),
            // A backing that can't be synced, such as a device file, has nothing to make durable.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            Err(error) => Err(write_error(&error)),
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), MediumError> {
        let zeroes = [0; 64 << 10];
        let mut done = 0;
        while done < len {
            let step = (len - done).min(zeroes.len() as u64);
            self.write(offset + done, &zeroes[..step as usize])?;
            done += step;
        }
        Ok(())
    }
}

fn write_error(error: &io::Error) -> MediumError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => MediumError::Capacity,
        _ => MediumError::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_made_and_a_small_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let medium = FileMedium::open(&path, 1 << 20).unwrap();
        medium.write(4096, &[7; 512]).unwrap();
        assert_eq!(medium.zero(4096, 256), Ok(()));
        let mut back = [1; 512];
        medium.read(4096, &mut back).unwrap();
        assert!(back[..256].iter().all(|&b| b == 0) && back[256..].iter().all(|&b| b == 7));
        drop(medium);
        let error = FileMedium::open(&path, 1 << 21).unwrap_err();
        assert!(matches!(
            error,
            ConfigError::FileTooSmall { len_bytes: 0x10_0000, needed_bytes: 0x20_0000, .. }
        ));
    }

    /// By the same name, through a symbolic link and through a hard one.
    #[test]
    fn an_image_has_one_user_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let name = |name: &str| dir.path().join(name);
        let medium = FileMedium::open(&name("disk"), 4096).unwrap();
        std::os::unix::fs::symlink("disk", name("symbolic")).unwrap();
        std::fs::hard_link(name("disk"), name("hard")).unwrap();
        for path in ["disk", "symbolic", "hard"].map(name) {
            let error = FileMedium::open(&path, 4096).unwrap_err();
            let expected = format!("{} is in use by another device or process", path.display());
            assert_eq!(error.to_string(), expected);
        }
        drop(medium);
        FileMedium::open(&name("hard"), 4096).unwrap();
    }

    #[test]
    fn what_was_truncated_away_can_not_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let medium = FileMedium::open(&path, 8192).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        let mut out = [0; 512];
        assert_eq!(medium.read(3584, &mut out), Ok(()));
        assert_eq!(medium.read(3840, &mut out), Err(MediumError::Read));
        assert_eq!(medium.read(4096, &mut out), Err(MediumError::Read));
    }

    #[test]
    fn a_full_device_is_a_capacity_error() {
        let file = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let file = Flock::lock(file, FlockArg::LockSharedNonblock).unwrap();
        assert_eq!(FileMedium { file }.write(0, &[0; 512]), Err(MediumError::Capacity));
    }
}
