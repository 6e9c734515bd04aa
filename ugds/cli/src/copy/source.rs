//! Where a copy reads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ugds::nvme::Lba;
use ugds::{Device, Namespace, Region};

use super::CHUNK_BYTES;
use crate::device::Area;
use crate::file::regular_file;

/// Bytes that are read from the first to the last.
pub(super) enum Source {
    /// A file.
    File { file: File, path: PathBuf },
    /// Part of a namespace.
    Device(Reader),
}

impl Source {
    /// The file at `path`, and its length.
    pub(super) fn file(path: &Path) -> anyhow::Result<(Self, u64)> {
        let (file, len_bytes) = regular_file(path)?;
        Ok((Self::File { file, path: path.to_owned() }, len_bytes))
    }

    /// The bytes of `area`.
    pub(super) fn device(device: &Device, namespace: Namespace, area: Area) -> anyhow::Result<Self> {
        Reader::new(device, namespace, area).map(Self::Device)
    }

    /// Fills `chunk` with the bytes at `at`.
    pub(super) fn read(&mut self, at: u64, chunk: &mut [u8]) -> anyhow::Result<()> {
        match self {
            Self::File { file, path } => {
                file.read_exact_at(chunk, at).with_context(|| format!("read {} at {at}", path.display()))
            }
            Self::Device(reader) => reader.read(at, chunk),
        }
    }

    /// Checks that `len_bytes` were all there is.
    pub(super) fn finish(&self, len_bytes: u64) -> anyhow::Result<()> {
        let Self::File { file, path } = self else { return Ok(()) };
        let now_bytes = file.metadata().with_context(|| path.display().to_string())?.len();
        if now_bytes != len_bytes {
            bail!("{} changed from {len_bytes} to {now_bytes} bytes while it was copied", path.display());
        }
        Ok(())
    }
}

/// Reads an area of a namespace through one region.
pub(super) struct Reader {
    namespace: Namespace,
    region: Region,
    area: Area,
}

impl Reader {
    pub(super) fn new(device: &Device, namespace: Namespace, area: Area) -> anyhow::Result<Self> {
        let len_bytes = area.len_bytes.min(CHUNK_BYTES).next_multiple_of(namespace.lba_bytes().into());
        let region = device.alloc(len_bytes as usize).context("cannot register memory")?;
        Ok(Self { namespace, region, area })
    }

    /// Fills `chunk` with the bytes at `at` of the area. `at` is a block's start.
    pub(super) fn read(&self, at: u64, chunk: &mut [u8]) -> anyhow::Result<()> {
        let lba_bytes = u64::from(self.namespace.lba_bytes());
        let lba = Lba((self.area.offset_bytes + at) / lba_bytes);
        let whole_bytes = chunk.len().next_multiple_of(lba_bytes as usize);
        self.namespace.read(&self.region, 0..whole_bytes, lba).with_context(|| {
            format!("read {whole_bytes} bytes at block {lba} of namespace {}", self.namespace.nsid())
        })?;
        Ok(self.region.copy_out(0, chunk)?)
    }
}
