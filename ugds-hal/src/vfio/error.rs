//! What can go wrong with VFIO, and what to do about it.

use nix::libc;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// An error of opening or driving a device behind VFIO.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfioError {
    /// There is no such device.
    #[error("there is no PCI device {address} ({path} does not exist)", path = .path.display())]
    NoDevice {
        /// The PCI address.
        address: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The device is in no IOMMU group.
    #[error(
        "PCI device {address} is in no IOMMU group: enable the IOMMU in the firmware and on the kernel's command line \
         (intel_iommu=on or amd_iommu=on)"
    )]
    NoGroup {
        /// The PCI address.
        address: String,
    },
    /// The device has another driver.
    #[error(
        "PCI device {address} is driven by {driver}, not by vfio-pci: bind it with \
         'echo vfio-pci > /sys/bus/pci/devices/{address}/driver_override', then unbind it from {driver} and \
         'echo {address} > /sys/bus/pci/drivers_probe'"
    )]
    Driver {
        /// The PCI address.
        address: String,
        /// The driver it has, or `no driver`.
        driver: String,
    },
    /// A device node can't be opened.
    #[error("can't open {path}: {source}{hint}", path = .path.display())]
    Open {
        /// The node.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
        /// What to do, with a separator before it, or nothing.
        hint: String,
    },
    /// Other devices of the group have drivers that are not VFIO's.
    #[error(
        "IOMMU group {group} is not viable: every device in it must be bound to vfio-pci or to no driver; see \
         /sys/kernel/iommu_groups/{group}/devices"
    )]
    NotViable {
        /// The group.
        group: u32,
    },
    /// The kernel's VFIO lacks something.
    #[error("the kernel's VFIO does not have {what}")]
    Unsupported {
        /// What is missing.
        what: String,
    },
    /// A VFIO call failed.
    #[error("{call} failed: {source}")]
    Call {
        /// The call.
        call: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The device is no NVMe controller.
    #[error("PCI device {address} has class {class:#08x}; an NVMe controller has 0x010802")]
    NotNvme {
        /// The PCI address.
        address: String,
        /// Its class code.
        class: u32,
    },
    /// The registers are not where they should be.
    #[error("BAR0 of {address} has {bytes} bytes; an NVMe controller has at least 0x1008")]
    SmallBar {
        /// The PCI address.
        address: String,
        /// Its size.
        bytes: u64,
    },
}

impl VfioError {
    pub(super) fn call(call: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::Call { call, source: errno.into() }
    }
}

/// Opens a device node.
pub(super) fn open(path: &Path) -> Result<File, VfioError> {
    OpenOptions::new().read(true).write(true).open(path).map_err(|source| VfioError::Open {
        hint: match source.kind() {
            io::ErrorKind::NotFound => "; is the module loaded (modprobe vfio-pci)?".into(),
            io::ErrorKind::PermissionDenied => {
                format!("; let your user own it: chown $USER {}", path.display())
            }
            _ if source.raw_os_error() == Some(libc::EBUSY) => "; another process uses it".into(),
            _ => String::new(),
        },
        path: path.into(),
        source,
    })
}

impl From<VfioError> for crate::HalError {
    fn from(error: VfioError) -> Self {
        Self::System { what: "VFIO".into(), reason: error.to_string() }
    }
}
