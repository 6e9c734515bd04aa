//! The medium behind a controller's namespaces, and the volatile write cache before it.

mod cache;
mod file;
mod memory;

use super::config::{Backing, ConfigError};
use cache::Cache;
use core::sync::atomic::{AtomicBool, Ordering};
use file::FileMedium;
pub(super) use memory::MemoryMedium;
use nvme_proto::Status;
use nvme_proto::status::{generic, media};

/// All blocks of a controller, by byte offset. Offsets and lengths are multiples of 512 bytes.
#[derive(Debug)]
pub(super) struct Store {
    medium: Medium,
    cache: Cache,
    /// Whether writes may stay in the cache.
    caching: AtomicBool,
}

#[derive(Debug)]
enum Medium {
    Memory(MemoryMedium),
    File(FileMedium),
}

/// What a medium can fail with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediumError {
    Read,
    Write,
    Capacity,
}

impl MediumError {
    pub(super) fn status(self) -> Status {
        match self {
            Self::Read => media::UNRECOVERED_READ_ERROR,
            Self::Write => media::WRITE_FAULT,
            Self::Capacity => generic::CAPACITY_EXCEEDED,
        }
    }
}

/// Whether a write has to be durable when it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    Cached,
    Through,
}

impl Store {
    pub(super) fn open(backing: &Backing, size_bytes: u64, cache_bytes: u64) -> Result<Self, ConfigError> {
        let medium = match backing {
            Backing::Memory => Medium::Memory(MemoryMedium::default()),
            Backing::File(path) => Medium::File(FileMedium::open(path, size_bytes)?),
        };
        Ok(Self { medium, cache: Cache::new(cache_bytes), caching: AtomicBool::new(false) })
    }

    pub(super) fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), MediumError> {
        self.cache.read(&self.medium, offset, to)
    }

    pub(super) fn write(&self, offset: u64, from: &[u8], how: Durability) -> Result<(), MediumError> {
        // Relaxed: writes that race with the switch may go either way.
        if how == Durability::Cached && self.caching.load(Ordering::Relaxed) {
            self.cache.write(&self.medium, offset, from)
        } else {
            self.cache.write_through(&self.medium, offset, from)
        }
    }

    /// Switches the cache. What it holds when it is switched off becomes durable.
    pub(super) fn set_caching(&self, caching: bool) -> Result<(), MediumError> {
        self.caching.store(caching, Ordering::Relaxed);
        if caching { Ok(()) } else { self.flush() }
    }

    /// Makes a range read as zeroes, and gives its room back.
    pub(super) fn zero(&self, offset: u64, len: u64) -> Result<(), MediumError> {
        self.cache.zero(&self.medium, offset, len)
    }

    /// Makes everything that was written durable.
    pub(super) fn flush(&self) -> Result<(), MediumError> {
        self.cache.flush(&self.medium)
    }

    /// Loses what is cached. With a seed, each block survives by the toss of a coin: a cache may write back whatever
    /// it likes before the power fails.
    pub(super) fn lose(&self, survivors: Option<u64>) {
        self.cache.lose(&self.medium, survivors);
    }

    /// Bytes that a loss of power would lose.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.cache.dirty_bytes()
    }
}

impl Medium {
    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), MediumError> {
        match self {
            Self::Memory(memory) => memory.read(offset, to),
            Self::File(file) => return file.read(offset, to),
        }
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), MediumError> {
        match self {
            Self::Memory(memory) => memory.write(offset, from),
            Self::File(file) => return file.write(offset, from),
        }
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), MediumError> {
        match self {
            Self::Memory(memory) => memory.zero(offset, len),
            Self::File(file) => return file.zero(offset, len),
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), MediumError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(file) => file.sync(),
        }
    }
}
