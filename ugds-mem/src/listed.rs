//! Commands whose list is written for them alone.
//!
//! UNSAFETY: vouches for a command again, for the life of the value that holds all it needs.

#![allow(unsafe_code)]

use crate::{Format, Io, ListPage, Mapped, MemError};
use alloc::sync::Arc;
use nvme_proto::{Lba, Nsid, Sqe};
use ugds_hal::{Command, Direction};

/// A command, the memory it moves, and the page with its list.
///
/// The command is lent for as long as this value is there, and the page leaves it only with the value: so whoever gives
/// the command to a device has the page to keep.
#[derive(Debug)]
pub struct ListedIo<'a> {
    sqe: Sqe,
    mapped: &'a Arc<Mapped>,
    len_bytes: u32,
    page: ListPage,
}

/// A piece of a mapping, for a command with a list of its own.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The memory.
    pub mapped: &'a Arc<Mapped>,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len_bytes: u32,
}

impl<'a> ListedIo<'a> {
    /// Reads blocks from `slba` on into `to`; as many as that holds. The page goes back to its pool when this fails.
    ///
    /// # Errors
    ///
    /// Those of [`Mapped::transfer`] and [`Io::read`], and [`MemError::ForeignList`].
    #[inline]
    pub fn read(
        nsid: Nsid,
        format: Format,
        slba: Lba,
        to: Piece<'a>,
        page: ListPage,
    ) -> Result<Self, MemError> {
        let transfer = to.mapped.transfer_by(&page, to.offset, to.len_bytes, Direction::DeviceWrites)?;
        let sqe = Io::read(nsid, format, slba, transfer)?.command().sqe();
        Ok(Self { sqe, mapped: to.mapped, len_bytes: to.len_bytes, page })
    }

    /// Writes blocks from `slba` on; as many as `from` holds. The page goes back to its pool when this fails.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[inline]
    pub fn write(
        nsid: Nsid,
        format: Format,
        slba: Lba,
        from: Piece<'a>,
        page: ListPage,
    ) -> Result<Self, MemError> {
        let transfer = from.mapped.transfer_by(&page, from.offset, from.len_bytes, Direction::DeviceReads)?;
        let sqe = Io::write(nsid, format, slba, transfer)?.command().sqe();
        Ok(Self { sqe, mapped: from.mapped, len_bytes: from.len_bytes, page })
    }

    /// The command itself.
    #[inline]
    #[must_use]
    pub fn command(&self) -> Command<'_> {
        // SAFETY: the entry is that of an `Io` made from the mapping and the page, and both are there for as long as the
        // command is lent.
        unsafe { Command::new_unchecked(self.sqe) }
    }

    /// The memory it moves.
    #[inline]
    #[must_use]
    pub fn mapped(&self) -> &'a Arc<Mapped> {
        self.mapped
    }

    /// The bytes it moves.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    /// The page, to be kept until the command completed or the device is proved to have stopped.
    #[inline]
    #[must_use]
    pub fn into_page(self) -> ListPage {
        self.page
    }
}
