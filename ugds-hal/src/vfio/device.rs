//! The device's own descriptor: regions, interrupts, reset.
//!
//! UNSAFETY: calls VFIO with structures of the right size.

#![allow(unsafe_code)]

use super::container::Container;
use super::error::VfioError;
use super::{ioctl, sysfs};
use std::fs::File;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_MSIX_IRQ_INDEX, vfio_device_info, vfio_irq_info,
    vfio_region_info,
};

/// An open device and the container that it lives in.
#[derive(Debug)]
pub(super) struct VfioDevice {
    // Closed before the container: a device without its tables is none.
    pub(super) file: File,
    pub(super) container: Arc<Container>,
    pub(super) can_reset: bool,
}

/// A region of the device: a BAR or configuration space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) offset: u64,
    pub(super) len_bytes: u64,
    pub(super) flags: u32,
}

impl VfioDevice {
    /// Opens the device with this PCI address, which is bound to vfio-pci.
    pub(super) fn open(address: &str) -> Result<Self, VfioError> {
        let group = sysfs::group_of(address)?;
        sysfs::check_driver(address)?;
        let container = Arc::new(Container::open(address, group)?);
        let file = container.device(address)?;
        let mut info = vfio_device_info { argsz: size_of::<vfio_device_info>() as u32, ..Default::default() };
        // SAFETY: the structure is valid for the call.
        unsafe { ioctl::device_get_info(file.as_raw_fd(), &raw mut info) }
            .map_err(VfioError::call("VFIO_DEVICE_GET_INFO"))?;
        Ok(Self { file, container, can_reset: info.flags & VFIO_DEVICE_FLAGS_RESET != 0 })
    }

    pub(super) fn region(&self, index: u32) -> Result<Region, VfioError> {
        let mut info =
            vfio_region_info { argsz: size_of::<vfio_region_info>() as u32, index, ..Default::default() };
        // SAFETY: the structure is valid for the call.
        unsafe { ioctl::device_get_region_info(self.file.as_raw_fd(), &raw mut info) }
            .map_err(VfioError::call("VFIO_DEVICE_GET_REGION_INFO"))?;
        Ok(Region { offset: info.offset, len_bytes: info.size, flags: info.flags })
    }

    /// The number of MSI-X vectors that can signal descriptors.
    pub(super) fn vectors(&self) -> Result<u16, VfioError> {
        let mut info = vfio_irq_info {
            argsz: size_of::<vfio_irq_info>() as u32,
            index: VFIO_PCI_MSIX_IRQ_INDEX,
            ..Default::default()
        };
        // SAFETY: the structure is valid for the call.
        unsafe { ioctl::device_get_irq_info(self.file.as_raw_fd(), &raw mut info) }
            .map_err(VfioError::call("VFIO_DEVICE_GET_IRQ_INFO"))?;
        let usable = info.flags & VFIO_IRQ_INFO_EVENTFD != 0;
        Ok(if usable { u16::try_from(info.count).unwrap_or(u16::MAX) } else { 0 })
    }

    /// Resets the function. All its registers are as after power-on, and it is quiet.
    pub(super) fn reset(&self) -> Result<(), VfioError> {
        // SAFETY: the call takes no argument.
        unsafe { ioctl::device_reset(self.file.as_raw_fd()) }
            .map_err(VfioError::call("VFIO_DEVICE_RESET"))?;
        Ok(())
    }
}
