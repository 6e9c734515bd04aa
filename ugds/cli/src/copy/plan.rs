//! What a copy will do, decided and checked before the first byte is written.

use std::path::Path;

use anyhow::Context;
use ugds::uri::{Location, Target, Uri};
use ugds::{Device, Namespace};

use super::endpoint::Endpoint;
use super::sink::Sink;
use super::source::Source;
use crate::device::{self, Area};
use crate::failure::usage;

/// A copy that is ready to start.
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) sink: Sink,
    /// The devices that are open for it; one if both ends are on the same.
    pub(super) devices: Vec<Device>,
    pub(super) len_bytes: u64,
}

impl Plan {
    pub(super) fn make(source: &Endpoint, destination: &Endpoint) -> anyhow::Result<Self> {
        match (source, destination) {
            (Endpoint::File(_), Endpoint::File(_)) => Err(usage(format!(
                "{source} and {destination} are both files; at least one URI (emu:, vfio:, ugds:) is accepted"
            ))),
            (Endpoint::File(path), Endpoint::Device(to)) => Self::file_to_device(path, to),
            (Endpoint::Device(from), Endpoint::File(path)) => Self::device_to_file(from, path),
            (Endpoint::Device(from), Endpoint::Device(to)) => Self::device_to_device(from, to),
        }
    }

    fn file_to_device(path: &Path, to: &Location) -> anyhow::Result<Self> {
        not_its_own_image(path, &to.uri)?;
        let (source, len_bytes) = Source::file(path)?;
        equal_lengths(len_bytes, to.len_bytes)?;
        let (device, namespace) = open(&to.uri)?;
        let area = area(&namespace, to, Some(len_bytes))?;
        let sink = Sink::device(&device, namespace, area)?;
        Ok(Self { source, sink, devices: vec![device], len_bytes })
    }

    fn device_to_file(from: &Location, path: &Path) -> anyhow::Result<Self> {
        not_its_own_image(path, &from.uri)?;
        let sink = Sink::file(path)?;
        let (device, namespace) = open(&from.uri)?;
        let area = area(&namespace, from, from.len_bytes)?;
        let source = Source::device(&device, namespace, area)?;
        Ok(Self { source, sink, devices: vec![device], len_bytes: area.len_bytes })
    }

    fn device_to_device(from: &Location, to: &Location) -> anyhow::Result<Self> {
        let (from_device, from_namespace) = open(&from.uri)?;
        let from_area = area(&from_namespace, from, from.len_bytes.or(to.len_bytes))?;
        equal_lengths(from_area.len_bytes, to.len_bytes)?;
        let shared = from.uri.target() == to.uri.target();
        let to_device = if shared { from_device.clone() } else { device::open(&to.uri)? };
        let to_namespace = device::namespace(&to_device, to.uri.nsid())?;
        let to_area = area(&to_namespace, to, Some(from_area.len_bytes))?;
        if shared && from_namespace.nsid() == to_namespace.nsid() && from_area.overlaps(to_area) {
            return Err(usage(format!("{from} and {to} overlap; places apart from each other are accepted")));
        }
        let source = Source::device(&from_device, from_namespace, from_area)?;
        let sink = Sink::device(&to_device, to_namespace, to_area)?;
        let devices = if shared { vec![from_device] } else { vec![from_device, to_device] };
        Ok(Self { source, sink, devices, len_bytes: from_area.len_bytes })
    }
}

fn open(uri: &Uri) -> anyhow::Result<(Device, Namespace)> {
    let device = device::open(uri)?;
    let namespace = device::namespace(&device, uri.nsid())?;
    Ok((device, namespace))
}

fn area(namespace: &Namespace, place: &Location, len_bytes: Option<u64>) -> anyhow::Result<Area> {
    Area::within(namespace.len_bytes(), namespace.lba_bytes(), place.offset_bytes, len_bytes)
        .with_context(|| place.to_string())
}

/// A copy that is shorter than asked for would be found out late; so would the end of a longer one.
fn equal_lengths(source_bytes: u64, destination_bytes: Option<u64>) -> anyhow::Result<()> {
    match destination_bytes {
        Some(bytes) if bytes != source_bytes => Err(usage(format!(
            "the source has {source_bytes} bytes and the destination {bytes}; equal lengths, or none at the \
             destination, are accepted"
        ))),
        _ => Ok(()),
    }
}

fn not_its_own_image(path: &Path, uri: &Uri) -> anyhow::Result<()> {
    let Target::Emu(emu) = uri.target() else { return Ok(()) };
    let same = |image: &Path| Some(std::fs::canonicalize(image).ok()? == std::fs::canonicalize(path).ok()?);
    if emu.file.as_deref().and_then(same) == Some(true) {
        return Err(usage(format!("{} is the image of {uri}; another file is accepted", path.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_on_both_sides_are_equal() {
        assert!(equal_lengths(5, None).is_ok() && equal_lengths(5, Some(5)).is_ok());
        let error = equal_lengths(5, Some(6)).unwrap_err().to_string();
        assert!(error.contains("5 bytes") && error.contains("destination 6"), "{error}");
    }

    #[test]
    fn two_files_are_refused() {
        let file = |name: &str| Endpoint::File(name.into());
        let error = Plan::make(&file("a"), &file("b")).err().unwrap().to_string();
        assert!(error.contains("both files") && error.contains("emu:"), "{error}");
    }
}
