//! Whether a description makes sense.

use super::{EmuConfig, Mode, NamespaceConfig};
use std::io;
use std::path::PathBuf;

/// Why there can be no controller of that description.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number lies outside of its range.
    #[error("{name} is {value}; {accepted} is accepted")]
    Value {
        /// The field.
        name: &'static str,
        /// What it holds.
        value: u64,
        /// What it could hold.
        accepted: &'static str,
    },
    /// A field of a namespace holds what it can't.
    #[error("namespace {nsid}: {name} is {value}; {accepted} is accepted")]
    Namespace {
        /// The namespace.
        nsid: u32,
        /// The field.
        name: &'static str,
        /// What it holds.
        value: u64,
        /// What it could hold.
        accepted: &'static str,
    },
    /// The backing file has content, but not enough.
    #[error("{} has {len_bytes} bytes; at least {needed_bytes}, or an empty or missing file, is accepted", path.display())]
    FileTooSmall {
        /// The file.
        path: PathBuf,
        /// Its length.
        len_bytes: u64,
        /// The sum of the namespaces' sizes.
        needed_bytes: u64,
    },
    /// The backing file belongs to another controller, of this process or of another.
    #[error("{} is in use by another device or process", path.display())]
    FileInUse {
        /// The file.
        path: PathBuf,
    },
    /// The backing file can't be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A thread or a descriptor could not be had.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl EmuConfig {
    /// Checks everything but the backing file.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Value`] or [`ConfigError::Namespace`], with the first value that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_numbers()?;
        self.namespaces.iter().try_for_each(validate_namespace)?;
        for pair in self.namespaces.windows(2) {
            if pair[0].nsid >= pair[1].nsid {
                return Err(namespace(&pair[1], "nsid", pair[1].nsid, "more than the one before"));
            }
        }
        Ok(())
    }

    fn validate_numbers(&self) -> Result<(), ConfigError> {
        let workers = match self.mode {
            Mode::Threads { workers } => workers,
            Mode::Stepped => 1,
        };
        let checks = [
            ("queues", self.queues.into(), (1..=1024).contains(&self.queues), "1 to 1024"),
            ("dstrd", self.dstrd.into(), self.dstrd <= 8, "0 to 8"),
            ("mpsmax", self.mpsmax.into(), self.mpsmax <= 8, "0 to 8"),
            ("mpsmin", self.mpsmin.into(), self.mpsmin <= self.mpsmax, "at most mpsmax"),
            ("mdts", self.mdts.into(), self.mdts <= 16, "0 to 16"),
            ("vectors", self.vectors.into(), self.vectors <= 2048, "0 to 2048"),
            ("workers", workers.into(), (1..=64).contains(&workers), "1 to 64"),
            ("cache_bytes", self.cache_bytes, self.cache_bytes >= 1 << 20, "at least 1 MiB"),
            ("namespaces", self.namespaces.len() as u64, self.namespaces.len() <= 1024, "at most 1024"),
        ];
        match checks.into_iter().find(|(_, _, right, _)| !right) {
            Some((name, value, _, accepted)) => Err(ConfigError::Value { name, value, accepted }),
            None => self.validate_grant(),
        }
    }

    fn validate_grant(&self) -> Result<(), ConfigError> {
        let Some((submission, completion)) = self.oddities.grant_queues else { return Ok(()) };
        for value in [submission, completion] {
            if value == 0 || value > self.queues {
                let accepted = "1 to the number of queues";
                return Err(ConfigError::Value { name: "grant_queues", value: value.into(), accepted });
            }
        }
        Ok(())
    }
}

fn validate_namespace(config: &NamespaceConfig) -> Result<(), ConfigError> {
    let block = config.lba_bytes;
    if config.nsid == 0 || config.nsid == u32::MAX {
        return Err(namespace(config, "nsid", config.nsid, "1 to fffffffeh"));
    }
    if !block.is_power_of_two() || !(512..=65536).contains(&block) {
        return Err(namespace(config, "lba_bytes", block, "a power of two from 512 to 65536"));
    }
    if config.size_bytes == 0
        || !config.size_bytes.is_multiple_of(block.into())
        || config.size_bytes > MAX_SIZE_BYTES
    {
        return Err(namespace(
            config,
            "size_bytes",
            config.size_bytes,
            "a multiple of lba_bytes, up to 2^60 bytes, that is not 0",
        ));
    }
    if config.format_index.is_some_and(|index| index > 63) {
        return Err(namespace(config, "format_index", config.format_index.unwrap_or(0), "0 to 63"));
    }
    Ok(())
}

fn namespace(
    config: &NamespaceConfig,
    name: &'static str,
    value: impl Into<u64>,
    accepted: &'static str,
) -> ConfigError {
    ConfigError::Namespace { nsid: config.nsid, name, value: value.into(), accepted }
}

/// Offsets into the backing stay far from overflow.
const MAX_SIZE_BYTES: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut EmuConfig)) -> String {
        let mut config = EmuConfig::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_value_and_what_is_accepted_are_named() {
        assert!(EmuConfig::default().validate().is_ok());
        assert_eq!(refused(|c| c.queues = 0), "queues is 0; 1 to 1024 is accepted");
        assert_eq!(refused(|c| c.dstrd = 9), "dstrd is 9; 0 to 8 is accepted");
        assert_eq!(refused(|c| c.mpsmin = 5), "mpsmin is 5; at most mpsmax is accepted");
        assert_eq!(
            refused(|c| c.oddities.grant_queues = Some((9, 1))),
            "grant_queues is 9; 1 to the number of queues is accepted"
        );
        assert_eq!(
            refused(|c| c.namespaces[0].lba_bytes = 520),
            "namespace 1: lba_bytes is 520; a power of two from 512 to 65536 is accepted"
        );
        assert_eq!(
            refused(|c| c.namespaces.push(NamespaceConfig::new(1, 512, 512))),
            "namespace 1: nsid is 1; more than the one before is accepted"
        );
        assert!(refused(|c| c.namespaces[0].size_bytes = 513).contains("size_bytes is 513"));
    }
}
