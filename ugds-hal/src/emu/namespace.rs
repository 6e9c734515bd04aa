//! The namespaces: their formats, what is wrong with their blocks, and where their data lies.

use super::config::{ConfigError, EmuConfig, NamespaceConfig};
use super::ranges::Ranges;
use super::store::{MemoryMedium, Store};
use nvme_proto::{Lba, Nsid};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// All namespaces of the subsystem, over one medium.
#[derive(Debug)]
pub(super) struct Namespaces {
    by_id: BTreeMap<u32, Arc<Namespace>>,
    store: Store,
}

#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) id: Nsid,
    pub(super) config: NamespaceConfig,
    /// Where its data begins in the medium.
    pub(super) base: u64,
    /// Metadata that lies apart from the data. It is kept in memory only.
    pub(super) metadata: MemoryMedium,
    /// A command holds it for reading while it is executed, so a format waits for commands.
    state: RwLock<NamespaceState>,
}

/// What may change.
#[derive(Clone, Debug)]
pub(super) struct NamespaceState {
    pub(super) attached: bool,
    pub(super) write_protected: bool,
    pub(super) size_bytes: u64,
    pub(super) formats: Box<[Format]>,
    /// The index of the format in use.
    pub(super) format: u8,
    pub(super) extended_lba: bool,
    /// Blocks that Write Uncorrectable made unreadable.
    pub(super) uncorrectable: Ranges,
    pub(super) faults: Vec<MediaFault>,
}

/// A format of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) data_shift: u8,
    pub(super) metadata_bytes: u16,
}

/// Blocks on which commands fail, until the fault is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaFault {
    /// The first block.
    pub first: Lba,
    /// How many.
    pub blocks: u64,
    /// What fails.
    pub on: FaultOn,
}

/// Which commands a [`MediaFault`] hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOn {
    /// Reads end with Unrecovered Read Error.
    Reads,
    /// Writes end with Write Fault.
    Writes,
}

impl Namespaces {
    pub(super) fn open(config: &EmuConfig) -> Result<Self, ConfigError> {
        let store = Store::open(&config.backing, config.size_bytes(), config.cache_bytes)?;
        // Nothing is cached yet, so nothing can fail.
        let _ = store.set_caching(config.vwc);
        let mut base = 0;
        let by_id = config.namespaces.iter().map(|namespace| {
            let here = base;
            base += namespace.size_bytes;
            (namespace.nsid, Arc::new(Namespace::new(namespace.clone(), here)))
        });
        Ok(Self { by_id: by_id.collect(), store })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn get(&self, nsid: Nsid) -> Option<&Arc<Namespace>> {
        self.by_id.get(&nsid.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.by_id.values()
    }

    /// The largest identifier that a namespace could have.
    pub(super) fn max_nsid(&self) -> u32 {
        self.by_id.keys().next_back().copied().unwrap_or(1)
    }
}

impl Namespace {
    fn new(config: NamespaceConfig, base: u64) -> Self {
        let (formats, format) = formats(&config);
        let state = NamespaceState {
            attached: config.attached,
            write_protected: config.write_protected,
            size_bytes: config.size_bytes,
            formats,
            format,
            extended_lba: config.extended_lba,
            uncorrectable: Ranges::default(),
            faults: Vec::new(),
        };
        Self {
            id: Nsid(config.nsid),
            config,
            base,
            metadata: MemoryMedium::default(),
            state: RwLock::new(state),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, NamespaceState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, NamespaceState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NamespaceState {
    pub(super) fn format(&self) -> Format {
        self.formats[usize::from(self.format)]
    }

    /// The size in blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.size_bytes >> self.format().data_shift
    }

    /// Whether `blocks` blocks from `first` on exist.
    pub(super) fn contains(&self, first: u64, blocks: u64) -> bool {
        first.checked_add(blocks).is_some_and(|end| end <= self.blocks())
    }

    pub(super) fn fails(&self, on: FaultOn, first: u64, blocks: u64) -> bool {
        let end = first + blocks;
        (on == FaultOn::Reads && self.uncorrectable.overlaps(first, end))
            || self.faults.iter().any(|fault| {
                fault.on == on && fault.first.0 < end && fault.first.0.saturating_add(fault.blocks) > first
            })
    }

    /// Whether metadata stands between the blocks of the host's buffer.
    pub(super) fn interleaved_bytes(&self) -> u64 {
        if self.extended_lba { self.format().metadata_bytes.into() } else { 0 }
    }
}

impl Format {
    pub(super) fn data_bytes(self) -> u64 {
        1 << self.data_shift
    }
}

/// The formats that a namespace can have, and the index of its own.
fn formats(config: &NamespaceConfig) -> (Box<[Format]>, u8) {
    let own =
        Format { data_shift: config.lba_bytes.trailing_zeros() as u8, metadata_bytes: config.metadata_bytes };
    let mut all: Vec<_> = [(9, 0), (12, 0), (9, 8), (12, 8), (12, 64)]
        .map(|(data_shift, metadata_bytes)| Format { data_shift, metadata_bytes })
        .into();
    if let Some(wanted) = config.format_index {
        let wanted = usize::from(wanted);
        // Before the own format stand 4 KiB ones, with metadata to tell them apart.
        while all.len() <= wanted {
            all.push(Format { data_shift: 12, metadata_bytes: 64 + all.len() as u16 });
        }
        all[wanted] = own;
        return (all.into(), wanted as u8);
    }
    let index = all.iter().position(|format| *format == own).unwrap_or_else(|| {
        all.push(own);
        all.len() - 1
    });
    (all.into(), index as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_format_is_found_added_or_placed() {
        let plain = NamespaceConfig::new(1, 1 << 20, 4096);
        assert_eq!(formats(&plain).1, 1);
        let odd = NamespaceConfig { lba_bytes: 8192, ..plain.clone() };
        let (all, index) = formats(&odd);
        assert_eq!((all.len(), index, all[5].data_bytes()), (6, 5, 8192));
        let far = NamespaceConfig { format_index: Some(35), ..plain };
        let (all, index) = formats(&far);
        assert_eq!((all.len(), index, all[35]), (36, 35, Format { data_shift: 12, metadata_bytes: 0 }));
    }
}
