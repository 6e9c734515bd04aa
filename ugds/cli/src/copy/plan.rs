//! What a copy will do, decided and checked before the first byte is written.

use std::path::Path;

use anyhow::Context;
use ugds::uri::{EmuUri, Location, Target, Uri};
use ugds::{Device, Namespace};

use super::endpoint::Endpoint;
use super::sink::Sink;
use super::source::Source;
use crate::consent::{self, Erase};
use crate::device::{self, Area, size_text};
use crate::failure::usage;
use crate::file::same_file;

/// A copy that is ready to start.
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) sink: Sink,
    /// The devices that are open for it; one if both ends are on the same.
    pub(super) devices: Vec<Device>,
    pub(super) len_bytes: u64,
}

impl Plan {
    pub(super) fn make(source: &Endpoint, destination: &Endpoint, erase: Erase) -> anyhow::Result<Self> {
        match (source, destination) {
            (Endpoint::File(_), Endpoint::File(_)) => Err(usage(format!(
                "{source} and {destination} are both files; at least one URI (emu:, vfio:, ugds:) is accepted"
            ))),
            (Endpoint::File(path), Endpoint::Device(to)) => Self::file_to_device(path, to, erase),
            (Endpoint::Device(from), Endpoint::File(path)) => Self::device_to_file(from, path),
            (Endpoint::Device(from), Endpoint::Device(to)) => Self::device_to_device(from, to, erase),
        }
    }

    fn file_to_device(path: &Path, to: &Location, erase: Erase) -> anyhow::Result<Self> {
        not_its_own_image(path, &to.uri)?;
        let (source, len_bytes) = Source::file(path)?;
        equal_lengths(len_bytes, to.len_bytes)?;
        consent::to_destroy("copy", &to.uri, erase)?;
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

    fn device_to_device(from: &Location, to: &Location, erase: Erase) -> anyhow::Result<Self> {
        consent::to_destroy("copy", &to.uri, erase)?;
        let (from_device, from_namespace) = open(&from.uri)?;
        let from_area = area(&from_namespace, from, from.len_bytes.or(to.len_bytes))?;
        equal_lengths(from_area.len_bytes, to.len_bytes)?;
        let shared = is_one_device(&from.uri, &to.uri)?;
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
            "the source has {} and the destination {}; equal lengths, or none at the destination, are accepted",
            size_text(source_bytes),
            size_text(bytes)
        ))),
        _ => Ok(()),
    }
}

/// Whether both name one device, so that it is opened once. An image may have many names; what decides is the file.
fn is_one_device(from: &Uri, to: &Uri) -> anyhow::Result<bool> {
    if from.target() == to.target() {
        return Ok(true);
    }
    let (Target::Emu(from_emu), Target::Emu(to_emu)) = (from.target(), to.target()) else { return Ok(false) };
    let (Some(from_image), Some(to_image)) = (&from_emu.file, &to_emu.file) else { return Ok(false) };
    if !same_file(from_image, to_image) {
        return Ok(false);
    }
    if sized(from_emu, from_image)? == sized(to_emu, from_image)? {
        return Ok(true);
    }
    Err(usage(format!(
        "{from} and {to} are the same image with different options; equal options, apart from ns, are accepted"
    )))
}

/// The controller over the file `image`, with the size that its content gives it.
fn sized(emu: &EmuUri, image: &Path) -> anyhow::Result<EmuUri> {
    let size_bytes = emu.to_config()?.namespaces.first().map(|namespace| namespace.size_bytes);
    Ok(EmuUri { file: Some(image.to_owned()), size_bytes, ..emu.clone() })
}

fn not_its_own_image(path: &Path, uri: &Uri) -> anyhow::Result<()> {
    let Target::Emu(emu) = uri.target() else { return Ok(()) };
    if emu.file.as_deref().is_some_and(|image| same_file(image, path)) {
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
        let error = Plan::make(&file("a"), &file("b"), Erase::Withheld).err().unwrap().to_string();
        assert!(error.contains("both files") && error.contains("emu:"), "{error}");
    }
}
