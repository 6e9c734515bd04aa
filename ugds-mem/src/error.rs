//! What can be wrong with memory.

use nvme_proto::{BusAddr, PageSize};
use ugds_hal::{Direction, DomainId, HalError, OutOfRange};

/// An error about memory or its use in a transfer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemError {
    /// The backend could not map or allocate.
    #[error(transparent)]
    Hal(#[from] HalError),
    /// A range does not lie within the region.
    #[error("{len_bytes} bytes at offset {offset} do not lie within a region of {region_bytes} bytes")]
    Range {
        /// Where it starts.
        offset: u64,
        /// How long it is.
        len_bytes: u64,
        /// The region's length.
        region_bytes: u64,
    },
    /// An offset or a length is not a multiple of four bytes, which is the smallest a PRP or an SGL can say.
    #[error("{what} {value} is not a multiple of 4 bytes")]
    Dword {
        /// Which value.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A region is empty or larger than a process can address.
    #[error("a region of {len_bytes} bytes is not possible; 1 to {} bytes are", isize::MAX)]
    RegionLength {
        /// The length asked for.
        len_bytes: usize,
    },
    /// A transfer is empty or larger than one command moves.
    #[error("a transfer of {len_bytes} bytes is not possible; 4 to {max_bytes} bytes are")]
    Length {
        /// The length asked for.
        len_bytes: u64,
        /// The most that is possible.
        max_bytes: u64,
    },
    /// A transfer does not have the one length that the command moves.
    #[error("a transfer of {len_bytes} bytes is not possible here; {required_bytes} bytes are")]
    ExactLength {
        /// The transfer's length.
        len_bytes: u32,
        /// The length that the command moves.
        required_bytes: u32,
    },
    /// A transfer is not a whole number of blocks.
    #[error("a transfer of {len_bytes} bytes is not a whole number of blocks of {block_bytes} bytes")]
    Blocks {
        /// The transfer's length.
        len_bytes: u32,
        /// The bytes of a block.
        block_bytes: u32,
    },
    /// The region is not mapped for this direction.
    #[error("the region is mapped for {mapped:?} and can't be used for {used:?}")]
    Direction {
        /// How it is mapped.
        mapped: Direction,
        /// How it was to be used.
        used: Direction,
    },
    /// The bus addresses do not fit the controller's pages.
    #[error(
        "memory at offset {offset} has bus address {addr}, which breaks the controller's pages of {page}: runs must \
         begin and end at a page boundary, and addresses be equal modulo the page"
    )]
    Pages {
        /// Where in the region.
        offset: u64,
        /// The address there.
        addr: BusAddr,
        /// The controller's page.
        page: PageSize,
    },
    /// The device can't put out such an address.
    #[error("bus address {addr} is beyond the device's address mask {mask:#x}")]
    AddressMask {
        /// The address.
        addr: BusAddr,
        /// What the device can put out.
        mask: u64,
    },
    /// The memory starts at an address that no device can be told.
    #[error("address {address:#x} is not a multiple of 4 bytes")]
    Misaligned {
        /// The host address.
        address: usize,
    },
    /// The operating system has no memory.
    #[error("no memory for a region of {len_bytes} bytes: {reason}")]
    Allocate {
        /// What was asked for.
        len_bytes: usize,
        /// The operating system's reason.
        reason: &'static str,
    },
    /// A transfer needs a list, and its memory was mapped without.
    #[error(
        "a transfer of {len_bytes} bytes touches {pages} pages and needs a list, but the memory was mapped without; at \
         most two pages do without, or a page of a list pool"
    )]
    NoList {
        /// The transfer's length.
        len_bytes: u32,
        /// The controller's pages that it touches.
        pages: u32,
    },
    /// Memory was mapped for another device.
    #[error("the memory is mapped for another device ({mapping:?}, this one is {domain:?})")]
    ForeignMapping {
        /// The mapping's domain.
        mapping: DomainId,
        /// The domain that was to describe it.
        domain: DomainId,
    },
    /// A list page is another device's.
    #[error("the list page is mapped for another device ({list:?}, the memory for {memory:?})")]
    ForeignList {
        /// The list's domain.
        list: DomainId,
        /// The memory's domain.
        memory: DomainId,
    },
    /// A pool can't have that many pages.
    #[error("a pool of {pages} list pages is not possible; 1 to 65535 are")]
    PoolSize {
        /// What was asked for.
        pages: usize,
    },
    /// The controller is not enabled, so it has no page yet.
    #[error("the controller is not enabled, and its page is not settled before")]
    Disabled,
    /// A driver of a GPU, or its library, says so.
    #[cfg(feature = "std")]
    #[error(transparent)]
    Gpu(alloc::boxed::Box<crate::gpu::GpuError>),
    /// No device reaches the memory itself.
    #[cfg(feature = "std")]
    #[error("the memory is not reached directly: {0}")]
    Staged(alloc::boxed::Box<crate::gpu::WhyStaged>),
    /// The memory is the host's.
    #[cfg(feature = "std")]
    #[error("host memory has no DMA-buf; memory of a GPU has")]
    NoDmabuf,
    /// The process can't have another descriptor.
    #[cfg(feature = "std")]
    #[error("no descriptor for the DMA-buf: {reason}")]
    Descriptor {
        /// The operating system's reason.
        reason: std::string::String,
    },
}

// Boxed, like the reason of `Staged`: they hold more than errors of requests do, whose size every request pays for.
#[cfg(feature = "std")]
impl From<crate::gpu::GpuError> for MemError {
    fn from(error: crate::gpu::GpuError) -> Self {
        Self::Gpu(error.into())
    }
}

impl From<OutOfRange> for MemError {
    fn from(error: OutOfRange) -> Self {
        Self::Range {
            offset: error.offset as u64,
            len_bytes: error.len_bytes as u64,
            region_bytes: error.size_bytes as u64,
        }
    }
}
