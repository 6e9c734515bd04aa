//! The proof that a data pointer is right.

use crate::Mapped;
use alloc::sync::Arc;
use nvme_proto::DataPointer;
use ugds_hal::Direction;

/// The most that one command moves. A list of 256 entries of 4 KiB covers it from any offset.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// One command's data: a piece of a live mapping, with the data pointer that tells it to the device.
///
/// It can be made only from a [`Mapped`], so its addresses are those of memory that is mapped, in range, and
/// mapped for the direction.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    mapped: &'a Arc<Mapped>,
    pointer: DataPointer,
    len_bytes: u32,
    used: Direction,
}

impl<'a> Transfer<'a> {
    #[inline]
    pub(crate) fn new(
        mapped: &'a Arc<Mapped>,
        pointer: DataPointer,
        len_bytes: u32,
        used: Direction,
    ) -> Self {
        Self { mapped, pointer, len_bytes, used }
    }

    /// The memory.
    #[inline]
    #[must_use]
    pub fn mapped(&self) -> &'a Arc<Mapped> {
        self.mapped
    }

    /// What the command's DPTR holds.
    #[inline]
    #[must_use]
    pub fn data_pointer(&self) -> DataPointer {
        self.pointer
    }

    /// The length in bytes.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    /// What the device does with the memory.
    #[inline]
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.used
    }
}
