//! What a controller model is to be like.

mod namespace;
mod oddities;
mod validate;

pub use namespace::NamespaceConfig;
pub use oddities::Oddities;
pub use validate::ConfigError;

use core::time::Duration;
use std::path::PathBuf;

/// The description of one controller model.
///
/// # Examples
///
/// ```
/// use ugds_hal::emu::{EmuConfig, Mode};
///
/// let config = EmuConfig { mode: Mode::Stepped, ..EmuConfig::default() }.with_namespaces(2, 64 << 20, 4096);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct EmuConfig {
    /// Where the blocks are kept.
    pub backing: Backing,
    /// The namespaces, with identifiers in ascending order; gaps are allowed.
    pub namespaces: Vec<NamespaceConfig>,
    /// I/O queue pairs that the controller has, 1 to 1024. Asked for more, it grants these.
    pub queues: u16,
    /// `CAP.MQES`, 0's based. The specification asks for at least 1; some devices say 0.
    pub mqes_z: u16,
    /// `CAP.DSTRD`: doorbells are `4 << dstrd` bytes apart, 0 to 8.
    pub dstrd: u8,
    /// `CAP.MPSMIN`: the smallest controller page is `2^(12 + n)` bytes.
    pub mpsmin: u8,
    /// `CAP.MPSMAX`, at most 8 (1 MiB).
    pub mpsmax: u8,
    /// `MDTS`: a command moves at most `2^n` pages of `MPSMIN`; 0 means no limit.
    pub mdts: u8,
    /// `CAP.CQR`: queues must be physically contiguous.
    pub cqr: bool,
    /// Whether I/O commands may use SGLs.
    pub sgl: bool,
    /// Whether there are shadow doorbells (`OACS` bit 8).
    pub dbbuf: bool,
    /// Whether there is a volatile write cache. What is not flushed is lost by [`Emu::crash`](super::Emu::crash).
    pub vwc: bool,
    /// How much the write cache holds before it writes the oldest back.
    pub cache_bytes: u64,
    /// `CAP.TO` in units of 500 ms. 0 is legal and says nothing.
    pub timeout: u8,
    /// Interrupt vectors, 0 to 2048. 0 means that the host can only poll.
    pub vectors: u16,
    /// Whether interrupts are MSI-X. If not, `INTMS` and `INTMC` mask the first 32 vectors.
    pub msix: bool,
    /// With a seed, commands are executed and completed out of order.
    pub out_of_order: Option<u64>,
    /// The time from the fetch of a command to its first byte.
    pub latency: Duration,
    /// The width of the pipe that all data goes through, in MiB/s; 0 means that it takes no time.
    pub bandwidth_mib_s: u64,
    /// How long a sanitize operation takes. Commands fail until it is done.
    pub sanitize_time: Duration,
    /// How memory of the host appears on the bus.
    pub iova: Iova,
    /// What makes the model move.
    pub mode: Mode,
    /// Misbehaviour.
    pub oddities: Oddities,
}

impl Default for EmuConfig {
    /// One namespace of 1 GiB in 512-byte blocks in memory, 8 queue pairs of up to 1024 entries, commands of up to
    /// 128 KiB, no write cache, and no delays.
    fn default() -> Self {
        Self {
            backing: Backing::Memory,
            namespaces: vec![NamespaceConfig::new(1, 1 << 30, 512)],
            queues: 8,
            mqes_z: 1023,
            dstrd: 0,
            mpsmin: 0,
            mpsmax: 4,
            mdts: 5,
            cqr: false,
            sgl: false,
            dbbuf: false,
            vwc: false,
            cache_bytes: 64 << 20,
            timeout: 20,
            vectors: 9,
            msix: true,
            out_of_order: None,
            latency: Duration::ZERO,
            bandwidth_mib_s: 0,
            sanitize_time: Duration::from_millis(10),
            iova: Iova::Contiguous,
            mode: Mode::Threads { workers: 1 },
            oddities: Oddities::default(),
        }
    }
}

impl EmuConfig {
    /// The same with `count` equal namespaces, numbered from 1.
    #[must_use]
    pub fn with_namespaces(mut self, count: u32, size_bytes: u64, lba_bytes: u32) -> Self {
        self.namespaces = (1..=count).map(|id| NamespaceConfig::new(id, size_bytes, lba_bytes)).collect();
        self
    }

    /// The same over the file at `path`.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.backing = Backing::File(path.into());
        self
    }

    /// The same, moved by hand under virtual time.
    #[must_use]
    pub fn stepped(mut self) -> Self {
        self.mode = Mode::Stepped;
        self
    }

    /// The sum of the namespaces' sizes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.namespaces.iter().map(|namespace| namespace.size_bytes).fold(0, u64::saturating_add)
    }
}

/// Where the blocks of all namespaces are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// In memory that is allocated when it is first written.
    #[default]
    Memory,
    /// In a file, one namespace after the other. A file that is missing or empty is made, sparse; one with content
    /// must be large enough. It is locked (`flock`): one controller uses a file at a time. Where one namespace ends
    /// and the next begins is not recorded in it.
    File(PathBuf),
}

/// How memory of the host appears on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Iova {
    /// Each mapping is one run of bus addresses.
    #[default]
    Contiguous,
    /// Each piece of foreign memory, as large as the smallest controller page, gets an address of its own, with
    /// nothing between the pieces. Memory that the backend allocates itself stays contiguous.
    Scattered {
        /// What the order of the pieces is drawn from.
        seed: u64,
    },
}

/// What makes the model move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Threads, asleep when there is nothing to do.
    Threads {
        /// How many, 1 to 64.
        workers: u16,
    },
    /// Calls of [`Emu::step`](super::Emu::step) and of the clock's waiting functions. Time is virtual.
    Stepped,
}
