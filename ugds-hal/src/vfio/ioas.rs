//! The structures of `/dev/iommu`'s calls (`include/uapi/linux/iommufd.h`).

use static_assertions::const_assert_eq;

/// `struct iommu_ioas_alloc`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct IoasAlloc {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) out_ioas_id: u32,
}

/// `struct iommu_iova_range`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct IovaRange {
    pub(super) start: u64,
    pub(super) last: u64,
}

/// `struct iommu_ioas_iova_ranges`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct IoasIovaRanges {
    pub(super) size: u32,
    pub(super) ioas_id: u32,
    pub(super) num_iovas: u32,
    pub(super) reserved: u32,
    pub(super) allowed_iovas: u64,
    pub(super) out_iova_alignment: u64,
}

/// `struct iommu_ioas_map`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct IoasMap {
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) ioas_id: u32,
    pub(super) reserved: u32,
    pub(super) user_va: u64,
    pub(super) length: u64,
    pub(super) iova: u64,
}

/// `struct iommu_ioas_unmap`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct IoasUnmap {
    pub(super) size: u32,
    pub(super) ioas_id: u32,
    pub(super) iova: u64,
    pub(super) length: u64,
}

const_assert_eq!(size_of::<IoasAlloc>(), 12);
const_assert_eq!(size_of::<IoasIovaRanges>(), 32);
const_assert_eq!(size_of::<IoasMap>(), 40);
const_assert_eq!(size_of::<IoasUnmap>(), 24);
