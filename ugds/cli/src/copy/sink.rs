//! Where a copy writes.

use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Context;
use indicatif::ProgressBar;
use ugds::nvme::Lba;
use ugds::{Device, Namespace, Region};

use super::source::Reader;
use super::{CHUNK_BYTES, for_each_chunk};
use crate::device::Area;
use crate::digest::{Digest, Hasher};
use crate::replacement::Replacement;

/// Takes bytes from the first to the last.
pub(super) enum Sink {
    /// A file that takes the place of the destination at the end.
    File(Replacement),
    /// Part of a namespace.
    Device(Writer),
}

impl Sink {
    /// The file at `path`, which is replaced if it exists. A link is followed.
    pub(super) fn file(path: &Path) -> anyhow::Result<Self> {
        Replacement::of(path).map(Self::File)
    }

    /// The bytes of `area`.
    pub(super) fn device(device: &Device, namespace: Namespace, area: Area) -> anyhow::Result<Self> {
        Writer::new(device, namespace, area).map(Self::Device)
    }

    /// Writes `chunk` at `at`.
    pub(super) fn write(&mut self, at: u64, chunk: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::File(new) => new
                .file()
                .write_all_at(chunk, at)
                .with_context(|| format!("write {} at {at}", new.path().display())),
            Self::Device(writer) => writer.write(at, chunk),
        }
    }

    /// Makes what was written durable.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        match self {
            Self::File(new) => new.file().sync_all().with_context(|| new.path().display().to_string()),
            Self::Device(writer) => writer.namespace.flush().context("flush"),
        }
    }

    /// Reads the first `len_bytes` back.
    pub(super) fn digest(&mut self, len_bytes: u64, bar: &ProgressBar) -> anyhow::Result<Digest> {
        let mut hasher = Hasher::default();
        let reader = match self {
            Self::Device(writer) => Some(writer.reader()?),
            Self::File(_) => None,
        };
        for_each_chunk(len_bytes, bar, |at, chunk| {
            match (&*self, &reader) {
                (_, Some(reader)) => reader.read(at, chunk)?,
                (Self::File(new), _) => {
                    let read = new.file().read_exact_at(chunk, at);
                    read.with_context(|| format!("read {} at {at}", new.path().display()))?;
                }
                (Self::Device(_), None) => unreachable!("a device has a reader"),
            }
            hasher.update(chunk);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// Puts a file in its place.
    pub(super) fn commit(self) -> anyhow::Result<()> {
        match self {
            Self::File(new) => new.commit(),
            Self::Device(_) => Ok(()),
        }
    }
}

/// Writes an area of a namespace through one region.
pub(super) struct Writer {
    device: Device,
    namespace: Namespace,
    region: Region,
    area: Area,
}

impl Writer {
    fn new(device: &Device, namespace: Namespace, area: Area) -> anyhow::Result<Self> {
        let len_bytes = area.len_bytes.min(CHUNK_BYTES).next_multiple_of(namespace.lba_bytes().into());
        let region = device.alloc(len_bytes as usize).context("cannot register memory")?;
        Ok(Self { device: device.clone(), namespace, region, area })
    }

    /// Writes `chunk` at `at` of the area. `at` is a block's start.
    fn write(&self, at: u64, chunk: &[u8]) -> anyhow::Result<()> {
        let lba_bytes = self.namespace.lba_bytes() as usize;
        let lba = Lba((self.area.offset_bytes + at) / lba_bytes as u64);
        let whole_bytes = chunk.len().next_multiple_of(lba_bytes);
        if whole_bytes != chunk.len() {
            self.keep_neighbours(whole_bytes - lba_bytes, whole_bytes, lba)?;
        }
        self.region.copy_in(0, chunk)?;
        self.namespace.write(&self.region, 0..whole_bytes, lba).with_context(|| {
            format!("write {whole_bytes} bytes at block {lba} of namespace {}", self.namespace.nsid())
        })
    }

    /// Reads the last block of a chunk, so that writing it whole changes nothing behind the chunk's end.
    fn keep_neighbours(&self, start: usize, end: usize, lba: Lba) -> anyhow::Result<()> {
        let last = Lba(lba.0 + start as u64 / u64::from(self.namespace.lba_bytes()));
        self.namespace
            .read(&self.region, start..end, last)
            .with_context(|| format!("read block {last} of namespace {}", self.namespace.nsid()))
    }

    /// A reader of the same area, with memory of its own.
    fn reader(&self) -> anyhow::Result<Reader> {
        Reader::new(&self.device, self.namespace.clone(), self.area)
    }
}
