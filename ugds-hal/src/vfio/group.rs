//! A container with one group in it: the interface to the IOMMU that every kernel has.
//!
//! UNSAFETY: calls VFIO, and has it map memory that callers keep.

#![allow(unsafe_code)]

use super::error::VfioError;
use super::ioctl;
use crate::Direction;
use nix::errno::Errno;
use std::ffi::CString;
use std::fs::File;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use vfio_bindings::bindings::vfio::{
    VFIO_API_VERSION, VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE, VFIO_GROUP_FLAGS_VIABLE,
    VFIO_IOMMU_INFO_CAPS, VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, VFIO_TYPE1v2_IOMMU, vfio_group_status,
    vfio_info_cap_header, vfio_iommu_type1_dma_map, vfio_iommu_type1_dma_unmap, vfio_iommu_type1_info,
    vfio_iova_range,
};
use zerocopy::FromBytes;

/// An open container and the open group in it.
#[derive(Debug)]
pub(super) struct Group {
    container: File,
    group: File,
}

impl Group {
    /// Opens the group with this number and gives it an IOMMU.
    pub(super) fn open(group: u32) -> Result<Self, VfioError> {
        let container = super::error::open(Path::new("/dev/vfio/vfio"))?;
        check_version(&container)?;
        let node = super::error::open(&PathBuf::from(format!("/dev/vfio/{group}")))?;
        check_viable(&node, group)?;
        let fd = container.as_raw_fd();
        // SAFETY: the kernel reads one descriptor number.
        unsafe { ioctl::group_set_container(node.as_raw_fd(), &raw const fd) }
            .map_err(VfioError::call("VFIO_GROUP_SET_CONTAINER"))?;
        // SAFETY: the argument is a number.
        unsafe { ioctl::set_iommu(fd, TYPE1V2) }.map_err(VfioError::call("VFIO_SET_IOMMU"))?;
        Ok(Self { container, group: node })
    }

    /// Opens the device with this PCI address.
    pub(super) fn device(&self, address: &str) -> Result<File, VfioError> {
        let unknown = || VfioError::Unsupported { what: format!("a device named {address:?}") };
        let name = CString::new(address).map_err(|_| unknown())?;
        // SAFETY: the kernel reads a string that ends with zero.
        let fd = unsafe { ioctl::group_get_device_fd(self.group.as_raw_fd(), name.as_ptr()) }
            .map_err(VfioError::call("VFIO_GROUP_GET_DEVICE_FD"))?;
        // SAFETY: the call returned a new descriptor that nobody else owns.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    /// The addresses that the IOMMU translates; all of 39 bits, which every IOMMU has, when the kernel does not say.
    pub(super) fn ranges(&self) -> Result<Vec<(u64, u64)>, VfioError> {
        usable_ranges(&self.container)
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
        let request = vfio_iommu_type1_dma_map {
            argsz: size_of::<vfio_iommu_type1_dma_map>() as u32,
            flags: flags(direction),
            vaddr: host,
            iova,
            size: len_bytes,
        };
        // SAFETY: the structure is valid for the call; the memory is the caller's promise.
        unsafe { ioctl::iommu_map_dma(self.container.as_raw_fd(), &raw const request) }.map(drop)
    }

    /// Takes memory from the device.
    pub(super) fn unmap(&self, iova: u64, len_bytes: u64) -> Result<(), Errno> {
        let mut request = vfio_iommu_type1_dma_unmap {
            argsz: size_of::<vfio_iommu_type1_dma_unmap>() as u32,
            iova,
            size: len_bytes,
            ..Default::default()
        };
        // SAFETY: the structure is valid for the call.
        unsafe { ioctl::iommu_unmap_dma(self.container.as_raw_fd(), &raw mut request) }?;
        // The kernel says how much it unmapped, and calls nothing a success.
        if request.size == len_bytes { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

fn check_version(container: &File) -> Result<(), VfioError> {
    // SAFETY: the call takes no argument.
    let version = unsafe { ioctl::get_api_version(container.as_raw_fd()) }
        .map_err(VfioError::call("VFIO_GET_API_VERSION"))?;
    if version as u32 != VFIO_API_VERSION {
        return Err(VfioError::Unsupported {
            what: format!("API version {VFIO_API_VERSION}, but {version}"),
        });
    }
    // SAFETY: the argument is a number.
    let has = unsafe { ioctl::check_extension(container.as_raw_fd(), TYPE1V2) }
        .map_err(VfioError::call("VFIO_CHECK_EXTENSION"))?;
    if has == 0 {
        return Err(VfioError::Unsupported { what: "a type 1 IOMMU, version 2 (vfio_iommu_type1)".into() });
    }
    Ok(())
}

fn check_viable(node: &File, group: u32) -> Result<(), VfioError> {
    let mut status = vfio_group_status { argsz: size_of::<vfio_group_status>() as u32, flags: 0 };
    // SAFETY: the structure is valid for the call.
    unsafe { ioctl::group_get_status(node.as_raw_fd(), &raw mut status) }
        .map_err(VfioError::call("VFIO_GROUP_GET_STATUS"))?;
    if status.flags & VFIO_GROUP_FLAGS_VIABLE == 0 {
        return Err(VfioError::NotViable { group });
    }
    Ok(())
}

/// The ranges are in the capability chain behind the IOMMU's information.
fn usable_ranges(container: &File) -> Result<Vec<(u64, u64)>, VfioError> {
    let mut buffer = [0u64; INFO_BYTES / 8];
    let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut buffer[..]);
    bytes[..4].copy_from_slice(&(INFO_BYTES as u32).to_ne_bytes());
    // SAFETY: the buffer is aligned for the structure and as long as its first word says.
    unsafe { ioctl::iommu_get_info(container.as_raw_fd(), bytes.as_mut_ptr()) }
        .map_err(VfioError::call("VFIO_IOMMU_GET_INFO"))?;
    // Without the window of message-signalled interrupts, which an IOMMU does not translate.
    Ok(parse_ranges(bytes).unwrap_or_else(|| vec![(0, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)]))
}

/// What the kernel wrote is read like anything from outside: every offset is checked.
fn parse_ranges(info: &[u8]) -> Option<Vec<(u64, u64)>> {
    let flags = word(info, std::mem::offset_of!(vfio_iommu_type1_info, flags))?;
    let mut at = word(info, std::mem::offset_of!(vfio_iommu_type1_info, cap_offset))? as usize;
    if flags & VFIO_IOMMU_INFO_CAPS == 0 {
        return None;
    }
    // A chain that goes in circles ends here.
    for _ in 0..MAX_CAPABILITIES {
        if at == 0 {
            return None;
        }
        if word(info, at)? & 0xffff == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE {
            let header = size_of::<vfio_info_cap_header>();
            let count = word(info, at + header)? as usize;
            let ranges = info.get(at + header + 8..)?.chunks_exact(size_of::<vfio_iova_range>());
            return Some(ranges.take(count).filter_map(range).collect());
        }
        at = word(info, at + 4)? as usize;
    }
    None
}

fn range(bytes: &[u8]) -> Option<(u64, u64)> {
    let [first, last] = <[u64; 2]>::read_from_bytes(bytes).ok()?;
    Some((first, last))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    u32::read_from_bytes(bytes.get(at..at.checked_add(4)?)?).ok()
}

fn flags(direction: Direction) -> u32 {
    match direction {
        Direction::DeviceReads => VFIO_DMA_MAP_FLAG_READ,
        Direction::DeviceWrites => VFIO_DMA_MAP_FLAG_WRITE,
        Direction::Both => VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
    }
}

const TYPE1V2: i32 = VFIO_TYPE1v2_IOMMU as i32;
const INFO_BYTES: usize = 4096;
const MAX_CAPABILITIES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn info(flags: u32, words: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 128];
        bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
        for (at, value) in words {
            bytes[*at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn ranges_are_found_behind_other_capabilities() {
        // At 24 a capability 2, next at 40; there the ranges.
        let bytes = info(
            2,
            &[
                (16, 24),
                (24, 2),
                (28, 40),
                (40, 1),
                (48, 2),
                (56, 0),
                (64, 0xfedf_ffff),
                (72, 0xfef0_0000),
                (80, u32::MAX),
            ],
        );
        assert_eq!(parse_ranges(&bytes), Some(vec![(0, 0xfedf_ffff), (0xfef0_0000, 0xffff_ffff)]));
    }

    #[test]
    fn nonsense_from_the_kernel_is_no_range() {
        for words in [
            vec![],
            vec![(16, 24), (24, 2), (28, 24)],
            vec![(16, 4000)],
            vec![(16, u32::MAX)],
            vec![(16, 126)],
        ] {
            assert_eq!(parse_ranges(&info(2, &words)), None, "{words:?}");
        }
        assert_eq!(parse_ranges(&info(0, &[(16, 24), (24, 1)])), None, "no capabilities said");
    }
}
