//! The device's own node and an address space of `/dev/iommu`: the interface of newer kernels.
//!
//! UNSAFETY: calls the kernel, and has it map memory that callers keep.

#![allow(unsafe_code)]

use super::error::{self, VfioError};
use super::ioas::{IoasAlloc, IoasIovaRanges, IoasMap, IoasUnmap, IovaRange};
use super::ioctl;
use super::sysfs;
use crate::Direction;
use nix::errno::Errno;
use std::fs::File;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use vfio_bindings::bindings::vfio::{vfio_device_attach_iommufd_pt, vfio_device_bind_iommufd};

/// A device that is bound to an address space.
#[derive(Debug)]
pub(super) struct Iommufd {
    iommu: File,
    device: File,
    ioas: u32,
}

impl Iommufd {
    /// Opens the device's node and gives it an address space. `None` where the kernel has no such nodes.
    pub(super) fn open(address: &str) -> Result<Option<Self>, VfioError> {
        let (Some(node), iommu) = (node_of(address), Path::new("/dev/iommu")) else { return Ok(None) };
        if !node.exists() || !iommu.exists() {
            return Ok(None);
        }
        let (iommu, device) = (error::open(iommu)?, error::open(&node)?);
        let mut bind = vfio_device_bind_iommufd {
            argsz: size_of::<vfio_device_bind_iommufd>() as u32,
            iommufd: iommu.as_raw_fd(),
            ..Default::default()
        };
        // SAFETY: the structure is valid for the call.
        unsafe { ioctl::device_bind_iommufd(device.as_raw_fd(), &raw mut bind) }
            .map_err(VfioError::call("VFIO_DEVICE_BIND_IOMMUFD"))?;
        let mut alloc = IoasAlloc { size: size_of::<IoasAlloc>() as u32, ..Default::default() };
        // SAFETY: as above.
        unsafe { ioctl::ioas_alloc(iommu.as_raw_fd(), &raw mut alloc) }
            .map_err(VfioError::call("IOMMU_IOAS_ALLOC"))?;
        let mut attach = vfio_device_attach_iommufd_pt {
            argsz: size_of::<vfio_device_attach_iommufd_pt>() as u32,
            pt_id: alloc.out_ioas_id,
            ..Default::default()
        };
        // SAFETY: as above.
        unsafe { ioctl::device_attach_iommufd_pt(device.as_raw_fd(), &raw mut attach) }
            .map_err(VfioError::call("VFIO_DEVICE_ATTACH_IOMMUFD_PT"))?;
        Ok(Some(Self { iommu, device, ioas: alloc.out_ioas_id }))
    }

    /// The addresses that the IOMMU translates.
    pub(super) fn ranges(&self) -> Result<Vec<(u64, u64)>, VfioError> {
        let mut ranges = [IovaRange::default(); MAX_RANGES];
        let mut request = IoasIovaRanges {
            size: size_of::<IoasIovaRanges>() as u32,
            ioas_id: self.ioas,
            num_iovas: MAX_RANGES as u32,
            allowed_iovas: ranges.as_mut_ptr().expose_provenance() as u64,
            ..Default::default()
        };
        // SAFETY: the structure is valid for the call, and names as many ranges as follow.
        unsafe { ioctl::ioas_iova_ranges(self.iommu.as_raw_fd(), &raw mut request) }
            .map_err(VfioError::call("IOMMU_IOAS_IOVA_RANGES"))?;
        let count = (request.num_iovas as usize).min(MAX_RANGES);
        Ok(ranges[..count].iter().map(|range| (range.start, range.last)).collect())
    }

    /// The device's descriptor.
    pub(super) fn device(&self) -> Result<File, VfioError> {
        self.device.try_clone().map_err(|source| VfioError::Call { call: "dup", source })
    }

    /// Maps memory for the device.
    ///
    /// # Safety
    ///
    /// The memory stays allocated until [`unmap`](Self::unmap), and is reached by copying only.
    pub(super) unsafe fn map(
        &self,
        iova: u64,
        host: u64,
        len_bytes: u64,
        direction: Direction,
    ) -> Result<(), Errno> {
        let access = match direction {
            Direction::DeviceReads => READABLE,
            Direction::DeviceWrites => WRITEABLE,
            Direction::Both => READABLE | WRITEABLE,
        };
        let mut request = IoasMap {
            size: size_of::<IoasMap>() as u32,
            flags: FIXED_IOVA | access,
            ioas_id: self.ioas,
            user_va: host,
            length: len_bytes,
            iova,
            ..Default::default()
        };
        // SAFETY: the structure is valid for the call; the memory is the caller's promise.
        unsafe { ioctl::ioas_map(self.iommu.as_raw_fd(), &raw mut request) }.map(drop)
    }

    /// Takes memory from the device.
    pub(super) fn unmap(&self, iova: u64, len_bytes: u64) -> Result<(), Errno> {
        let size = size_of::<IoasUnmap>() as u32;
        let mut request = IoasUnmap { size, ioas_id: self.ioas, iova, length: len_bytes };
        // SAFETY: the structure is valid for the call.
        unsafe { ioctl::ioas_unmap(self.iommu.as_raw_fd(), &raw mut request) }?;
        if request.length == len_bytes { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

/// The device's own node, `/dev/vfio/devices/vfioN`, where the kernel has made one.
fn node_of(address: &str) -> Option<PathBuf> {
    let entry = std::fs::read_dir(sysfs::device(address).join("vfio-dev")).ok()?.next()?.ok()?;
    Some(Path::new("/dev/vfio/devices").join(entry.file_name()))
}

const MAX_RANGES: usize = 32;
const FIXED_IOVA: u32 = 1 << 0;
const WRITEABLE: u32 = 1 << 1;
const READABLE: u32 = 1 << 2;
