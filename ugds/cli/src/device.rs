//! Opening devices and looking at the parts of a namespace.

use anyhow::{Context, anyhow};
use ugds::nvme::Nsid;
use ugds::uri::{Bytes, Target, Uri};
use ugds::{Device, Namespace, Options};

use crate::failure::usage;

/// Opens the device that `uri` names.
pub(crate) fn open(uri: &Uri) -> anyhow::Result<Device> {
    Device::open(&uri.to_string()).with_context(|| format!("cannot open {uri}"))
}

/// Opens the device that `uri` names, driven as `options` say, on all the queues that an emulated one is made with.
pub(crate) fn open_with(uri: &Uri, mut options: Options) -> anyhow::Result<Device> {
    if let Target::Emu(emu) = uri.target() {
        options.queues = emu.queues;
    }
    Device::open_with(&uri.to_string(), options).with_context(|| format!("cannot open {uri}"))
}

/// The namespace `nsid` of `device`, or its first one.
///
/// # Errors
/// When there is none, with those that there are and the reasons why others are refused.
pub(crate) fn namespace(device: &Device, nsid: Option<Nsid>) -> anyhow::Result<Namespace> {
    let namespaces = device.namespaces();
    let found = match nsid {
        Some(nsid) => namespaces.iter().find(|namespace| namespace.nsid() == nsid),
        None => namespaces.first(),
    };
    if let Some(namespace) = found {
        return Ok(namespace.clone());
    }
    let usable = namespaces.iter().map(|namespace| namespace.nsid().to_string());
    let refused = device.refused().iter().map(|refused| format!("not {}: {}", refused.nsid, refused.reason));
    let all: Vec<String> = usable.chain(refused).collect();
    let wanted = nsid.map_or_else(|| "at all".to_owned(), |nsid| nsid.to_string());
    let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    Err(anyhow!("there is no usable namespace {wanted}; usable are: {all}"))
}

/// Bytes of a namespace that start at a block's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// Where they start.
    pub(crate) offset_bytes: u64,
    /// How many there are, at least 1.
    pub(crate) len_bytes: u64,
}

impl Area {
    /// The area of a namespace of `namespace_bytes` in blocks of `lba_bytes`; without a length, up to its end.
    ///
    /// # Errors
    /// When it starts within a block, is empty, or ends beyond the namespace.
    pub(crate) fn within(
        namespace_bytes: u64,
        lba_bytes: u32,
        offset_bytes: u64,
        len_bytes: Option<u64>,
    ) -> anyhow::Result<Self> {
        if !offset_bytes.is_multiple_of(lba_bytes.into()) {
            return Err(usage(format!(
                "offset {} is no multiple of the block; a multiple of {} is accepted",
                size_text(offset_bytes),
                size_text(lba_bytes.into())
            )));
        }
        let room_bytes = namespace_bytes.saturating_sub(offset_bytes);
        if room_bytes == 0 {
            return Err(usage(format!(
                "offset {} is at or beyond the end of the namespace; less than {} is accepted",
                size_text(offset_bytes),
                size_text(namespace_bytes)
            )));
        }
        let len_bytes = len_bytes.unwrap_or(room_bytes);
        if len_bytes > room_bytes {
            return Err(usage(format!(
                "{} at offset {} end beyond the namespace of {}; at most {} are accepted there",
                size_text(len_bytes),
                size_text(offset_bytes),
                size_text(namespace_bytes),
                size_text(room_bytes)
            )));
        }
        Ok(Self { offset_bytes, len_bytes })
    }

    /// Whether the two have a byte in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.offset_bytes < other.offset_bytes.saturating_add(other.len_bytes)
            && other.offset_bytes < self.offset_bytes.saturating_add(self.len_bytes)
    }
}

/// A size for people: exact, and with a suffix when that is shorter.
pub(crate) fn size_text(bytes: u64) -> String {
    let short = Bytes(bytes).to_string();
    match short.strip_suffix(|c: char| c.is_ascii_alphabetic()) {
        Some(digits) => format!("{digits} {}iB", &short[digits.len()..]),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(offset_bytes: u64, len_bytes: Option<u64>) -> Result<Area, String> {
        Area::within(16384, 4096, offset_bytes, len_bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn areas_lie_within_the_namespace() {
        assert_eq!(area(0, None), Ok(Area { offset_bytes: 0, len_bytes: 16384 }));
        assert_eq!(area(12288, Some(4095)), Ok(Area { offset_bytes: 12288, len_bytes: 4095 }));
        assert!(area(100, None).unwrap_err().contains("offset 100 bytes"));
        assert!(area(100, None).unwrap_err().contains("a multiple of 4 KiB"));
        assert!(area(16384, None).unwrap_err().contains("less than 16 KiB"));
        assert!(area(8192, Some(8193)).unwrap_err().contains("at most 8 KiB"));
    }

    #[test]
    fn touching_is_not_overlapping() {
        let first = Area { offset_bytes: 0, len_bytes: 4096 };
        assert!(!first.overlaps(Area { offset_bytes: 4096, len_bytes: 1 }));
        assert!(first.overlaps(Area { offset_bytes: 4095, len_bytes: 1 }));
        assert!(first.overlaps(first));
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(size_text(1 << 20), "1 MiB");
        assert_eq!(size_text(1000), "1000 bytes");
    }
}
