//! What the kernel tells about a PCI device in its file system.

use super::error::VfioError;
use std::path::{Path, PathBuf};

/// The folder of the device with this PCI address.
pub(super) fn device(address: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(address)
}

/// The number of the device's IOMMU group.
pub(super) fn group_of(address: &str) -> Result<u32, VfioError> {
    let path = device(address);
    if !path.exists() {
        return Err(VfioError::NoDevice { address: address.into(), path });
    }
    name_of_link(&path.join("iommu_group"))
        .and_then(|group| group.parse().ok())
        .ok_or_else(|| VfioError::NoGroup { address: address.into() })
}

/// Refuses a device that another driver has.
pub(super) fn check_driver(address: &str) -> Result<(), VfioError> {
    match name_of_link(&device(address).join("driver")) {
        Some(driver) if driver == "vfio-pci" => Ok(()),
        other => Err(VfioError::Driver {
            address: address.into(),
            driver: other.unwrap_or_else(|| "no driver".into()),
        }),
    }
}

fn name_of_link(path: &Path) -> Option<String> {
    let target = std::fs::read_link(path).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}
