//! The emulated controller's part of a URI: `[FILE][?OPTIONS]`.

use std::path::PathBuf;

use super::options::{Options, bad_value, too_large};
use super::{Bytes, UriError, escape};

/// What an `emu:` URI says.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `size` | `1G` in memory; of a file, its content | bytes of each namespace, a multiple of `lba` |
/// | `lba` | `4096` | bytes of a block, a power of two from 512 to 64K |
/// | `queues` | `8` | I/O queue pairs, 1 to 1024 |
/// | `mqes` | `1023` | `CAP.MQES`: entries of a queue, 0's based |
/// | `dstrd` | `0` | `CAP.DSTRD`: doorbells are `4 << dstrd` bytes apart, 0 to 8 |
/// | `mpsmin` | `0` | `CAP.MPSMIN`: the smallest page is `4K << mpsmin`, 0 to 8 |
/// | `mdts` | `5` | a command moves at most `2^mdts` smallest pages, 0 to 16; 0 is no limit |
/// | `sgl` | `0` | 1: scatter-gather lists are supported |
/// | `dbbuf` | `0` | 1: shadow doorbells are supported |
/// | `vwc` | `0` | 1: there is a volatile write cache |
/// | `namespaces` | `1` | how many namespaces there are, 1 to 1024 |
/// | `ns` | the first | the namespace that is meant ([`Uri::nsid`](super::Uri::nsid)) |
/// | `ooo` | none | the seed of an order in which commands are completed |
/// | `latency_us` | `0` | microseconds from the fetch of a command to its data |
/// | `bandwidth_mib` | `0` | MiB/s that all commands share; 0 is no limit |
///
/// A file that is missing or empty becomes an image of zeros if `size` is given, and is an error otherwise, so that a
/// misspelled name makes no file. With a file that has content, `size` may be left out; if it is given, it must
/// agree with the content.
///
/// The image holds the namespaces one after the other and nothing else: neither how many they are nor the size of
/// their blocks is recorded. Open an image with the `namespaces` and the `lba` that it was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmuUri {
    /// The image. `None` keeps the blocks in memory.
    pub file: Option<PathBuf>,
    /// Bytes of each namespace. `None` leaves it to the image's length, or in memory to the default.
    pub size_bytes: Option<u64>,
    /// Bytes of a block.
    pub lba_bytes: u32,
    /// I/O queue pairs.
    pub queues: u16,
    /// `CAP.MQES`.
    pub mqes_z: u16,
    /// `CAP.DSTRD`.
    pub dstrd: u8,
    /// `CAP.MPSMIN`.
    pub mpsmin: u8,
    /// `MDTS`.
    pub mdts: u8,
    /// Whether scatter-gather lists are supported.
    pub sgl: bool,
    /// Whether shadow doorbells are supported.
    pub dbbuf: bool,
    /// Whether there is a volatile write cache.
    pub vwc: bool,
    /// How many namespaces there are.
    pub namespaces: u32,
    /// The seed of the order of completion, when it is not that of submission.
    pub out_of_order: Option<u64>,
    /// Microseconds from the fetch of a command to its data.
    pub latency_us: u32,
    /// MiB/s that all commands share; 0 is no limit.
    pub bandwidth_mib_s: u32,
}

impl Default for EmuUri {
    fn default() -> Self {
        Self {
            file: None,
            size_bytes: None,
            lba_bytes: 4096,
            queues: 8,
            mqes_z: 1023,
            dstrd: 0,
            mpsmin: 0,
            mdts: 5,
            sgl: false,
            dbbuf: false,
            vwc: false,
            namespaces: 1,
            out_of_order: None,
            latency_us: 0,
            bandwidth_mib_s: 0,
        }
    }
}

impl EmuUri {
    /// The size of each namespace in memory when no option says one.
    pub const DEFAULT_SIZE_BYTES: u64 = 1 << 30;

    /// I/O queue pairs.
    #[must_use]
    pub fn queues(&self) -> u16 {
        self.queues
    }

    pub(super) fn parse(name: &str, options: &Options<'_>) -> Result<Self, UriError> {
        let file = Some(escape::decode(name)?).filter(|path| !path.as_os_str().is_empty());
        let default = Self::default();
        let uri = Self {
            file,
            size_bytes: options.bytes("size")?,
            lba_bytes: block(options, default.lba_bytes)?,
            queues: options.number("queues", default.queues, 1, 1024)?,
            mqes_z: options.number("mqes", default.mqes_z, 0, u16::MAX)?,
            dstrd: options.number("dstrd", default.dstrd, 0, 8)?,
            mpsmin: options.number("mpsmin", default.mpsmin, 0, 8)?,
            mdts: options.number("mdts", default.mdts, 0, 16)?,
            sgl: options.flag("sgl")?,
            dbbuf: options.flag("dbbuf")?,
            vwc: options.flag("vwc")?,
            namespaces: options.number("namespaces", default.namespaces, 1, 1024)?,
            out_of_order: seed(options)?,
            latency_us: options.number("latency_us", 0, 0, 60_000_000)?,
            bandwidth_mib_s: options.number("bandwidth_mib", 0, 0, 1 << 20)?,
        };
        uri.check_size(options)?;
        Ok(uri)
    }

    fn check_size(&self, options: &Options<'_>) -> Result<(), UriError> {
        let Some(size_bytes) = self.size_bytes else { return Ok(()) };
        let value = options.value("size").unwrap_or_default();
        if size_bytes == 0 || !size_bytes.is_multiple_of(self.lba_bytes.into()) {
            let accepted =
                format!("a multiple of the block, which has {} bytes (lba), above 0", self.lba_bytes);
            return Err(bad_value("size", value, accepted));
        }
        let max = MAX_TOTAL_BYTES / u64::from(self.namespaces);
        if size_bytes > max {
            let accepted = format!("at most {} with namespaces={}", Bytes(max), self.namespaces);
            return Err(too_large("size", value, accepted));
        }
        Ok(())
    }

    /// The options that differ from the default, in the order of the table.
    pub(super) fn options(&self) -> Vec<(&'static str, String)> {
        let default = Self::default();
        let mut options = Vec::new();
        let mut add = |name, differs: bool, value: String| {
            if differs {
                options.push((name, value));
            }
        };
        let size_bytes = self.size_bytes.unwrap_or_default();
        add("size", self.size_bytes.is_some(), Bytes(size_bytes).to_string());
        add("lba", self.lba_bytes != default.lba_bytes, self.lba_bytes.to_string());
        add("queues", self.queues != default.queues, self.queues.to_string());
        add("mqes", self.mqes_z != default.mqes_z, self.mqes_z.to_string());
        add("dstrd", self.dstrd != default.dstrd, self.dstrd.to_string());
        add("mpsmin", self.mpsmin != default.mpsmin, self.mpsmin.to_string());
        add("mdts", self.mdts != default.mdts, self.mdts.to_string());
        add("sgl", self.sgl, "1".to_owned());
        add("dbbuf", self.dbbuf, "1".to_owned());
        add("vwc", self.vwc, "1".to_owned());
        add("namespaces", self.namespaces != default.namespaces, self.namespaces.to_string());
        add("ooo", self.out_of_order.is_some(), self.out_of_order.unwrap_or_default().to_string());
        add("latency_us", self.latency_us != 0, self.latency_us.to_string());
        add("bandwidth_mib", self.bandwidth_mib_s != 0, self.bandwidth_mib_s.to_string());
        options
    }
}

fn block(options: &Options<'_>, default: u32) -> Result<u32, UriError> {
    let Some(bytes) = options.bytes("lba")? else { return Ok(default) };
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (512..=65536).contains(&bytes) => Ok(bytes),
        _ => {
            let value = options.value("lba").unwrap_or_default();
            Err(bad_value("lba", value, "a power of two from 512 to 65536"))
        }
    }
}

fn seed(options: &Options<'_>) -> Result<Option<u64>, UriError> {
    let seed = options.number("ooo", 0, 0, u64::MAX)?;
    Ok(options.has("ooo").then_some(seed))
}

/// The options of the table.
pub(super) const OPTIONS: &[&str] = &[
    "size",
    "lba",
    "queues",
    "mqes",
    "dstrd",
    "mpsmin",
    "mdts",
    "sgl",
    "dbbuf",
    "vwc",
    "namespaces",
    "ns",
    "ooo",
    "latency_us",
    "bandwidth_mib",
];

/// Offsets into the image stay far from overflow.
const MAX_TOTAL_BYTES: u64 = 1 << 60;
