//! The VFIO calls, by number (`include/uapi/linux/vfio.h`). The numbers carry no size: each structure begins with its
//! own.
//!
//! UNSAFETY: each function passes a pointer to the kernel; callers see that it fits the call.

#![allow(unsafe_code)]

use super::ioas::{IoasAlloc, IoasIovaRanges, IoasMap, IoasUnmap};
use nix::{ioctl_none_bad, ioctl_readwrite_bad, ioctl_write_int_bad, ioctl_write_ptr_bad, request_code_none};
use vfio_bindings::bindings::vfio::{
    vfio_device_attach_iommufd_pt, vfio_device_bind_iommufd, vfio_device_info, vfio_group_status,
    vfio_iommu_type1_dma_map, vfio_iommu_type1_dma_unmap, vfio_irq_info, vfio_irq_set, vfio_region_info,
};

const TYPE: u8 = b';';
const BASE: u8 = 100;
/// The first call of `/dev/iommu` (`include/uapi/linux/iommufd.h`).
const IOMMU_BASE: u8 = 0x80;

ioctl_none_bad!(get_api_version, request_code_none!(TYPE, BASE));
ioctl_write_int_bad!(check_extension, request_code_none!(TYPE, BASE + 1));
ioctl_write_int_bad!(set_iommu, request_code_none!(TYPE, BASE + 2));
ioctl_readwrite_bad!(group_get_status, request_code_none!(TYPE, BASE + 3), vfio_group_status);
ioctl_write_ptr_bad!(group_set_container, request_code_none!(TYPE, BASE + 4), i32);
ioctl_write_ptr_bad!(group_get_device_fd, request_code_none!(TYPE, BASE + 6), nix::libc::c_char);
ioctl_readwrite_bad!(device_get_info, request_code_none!(TYPE, BASE + 7), vfio_device_info);
ioctl_readwrite_bad!(device_get_region_info, request_code_none!(TYPE, BASE + 8), vfio_region_info);
ioctl_readwrite_bad!(device_get_irq_info, request_code_none!(TYPE, BASE + 9), vfio_irq_info);
ioctl_write_ptr_bad!(device_set_irqs, request_code_none!(TYPE, BASE + 10), vfio_irq_set);
ioctl_none_bad!(device_reset, request_code_none!(TYPE, BASE + 11));
ioctl_readwrite_bad!(device_bind_iommufd, request_code_none!(TYPE, BASE + 18), vfio_device_bind_iommufd);
ioctl_readwrite_bad!(
    device_attach_iommufd_pt,
    request_code_none!(TYPE, BASE + 19),
    vfio_device_attach_iommufd_pt
);
ioctl_readwrite_bad!(ioas_alloc, request_code_none!(TYPE, IOMMU_BASE + 1), IoasAlloc);
ioctl_readwrite_bad!(ioas_iova_ranges, request_code_none!(TYPE, IOMMU_BASE + 4), IoasIovaRanges);
ioctl_readwrite_bad!(ioas_map, request_code_none!(TYPE, IOMMU_BASE + 5), IoasMap);
ioctl_readwrite_bad!(ioas_unmap, request_code_none!(TYPE, IOMMU_BASE + 6), IoasUnmap);
// The information structures are followed by capabilities, so the caller passes a larger buffer.
ioctl_readwrite_bad!(iommu_get_info, request_code_none!(TYPE, BASE + 12), u8);
ioctl_write_ptr_bad!(iommu_map_dma, request_code_none!(TYPE, BASE + 13), vfio_iommu_type1_dma_map);
ioctl_readwrite_bad!(iommu_unmap_dma, request_code_none!(TYPE, BASE + 14), vfio_iommu_type1_dma_unmap);
