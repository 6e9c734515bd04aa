//! DMA-bufs: GPU memory as a file descriptor, which other devices' drivers take.
//!
//! UNSAFETY: takes over descriptors that a vendor's library opened.

#![allow(unsafe_code)]

use crate::Region;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::{SysconfVar, Whence, lseek, sysconf};
use std::format;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::string::String;

/// A piece of memory in a DMA-buf.
///
/// As long as the descriptor, or a copy of it, is open, the kernel keeps the memory.
#[derive(Debug)]
pub struct Dmabuf {
    fd: OwnedFd,
    offset: u64,
    len_bytes: u64,
}

impl Dmabuf {
    /// Takes over the descriptor that a library says it opened, and checks that it is one and large enough.
    pub(crate) fn adopt(raw: i32, offset: u64, len_bytes: u64) -> Result<Self, String> {
        if raw < 0 {
            return Err(format!("descriptor {raw}, where 0 or more is accepted"));
        }
        // SAFETY: only asked about, and not closed; if it is not open, that is what is found out.
        let borrowed = unsafe { BorrowedFd::borrow_raw(raw) };
        fcntl(borrowed, FcntlArg::F_GETFD).map_err(|errno| format!("descriptor {raw}: {}", errno.desc()))?;
        // SAFETY: it is open, and the library that answered with it has given it away.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Self::of(fd, offset, len_bytes)
    }

    /// Describes `len_bytes` at `offset` of a DMA-buf, if it is that large.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn of(fd: OwnedFd, offset: u64, len_bytes: u64) -> Result<Self, String> {
        let size = size_bytes(fd.as_fd())?;
        match offset.checked_add(len_bytes) {
            Some(end) if end <= size => Ok(Self { fd, offset, len_bytes }),
            _ => Err(format!("it has {size} bytes, fewer than {len_bytes} at offset {offset}")),
        }
    }

    /// The descriptor.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where the memory begins in the DMA-buf, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The size of the whole DMA-buf in bytes, which may be more.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    pub fn size_bytes(&self) -> Result<u64, String> {
        size_bytes(self.fd.as_fd())
    }
}

/// A DMA-buf knows its size by seeking to its end, which moves nothing in it.
fn size_bytes(fd: BorrowedFd<'_>) -> Result<u64, String> {
    let end =
        lseek(fd, 0, Whence::SeekEnd).map_err(|errno| format!("its size is unknown: {}", errno.desc()))?;
    u64::try_from(end).map_err(|_| format!("its size is {end}"))
}

/// The pages of the host around a run of bytes: first address and length. Exports are made of whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hull {
    pub(crate) start: u64,
    pub(crate) len_bytes: u64,
}

impl Hull {
    /// `None` when the run is at the end of all addresses.
    pub(crate) fn around(address: u64, len_bytes: u64, page: u64) -> Option<Self> {
        let start = address & !(page - 1);
        let end = address.checked_add(len_bytes)?.checked_next_multiple_of(page)?;
        Some(Self { start, len_bytes: end - start })
    }

    /// The same, of the host's own pages.
    pub(crate) fn of_host_pages(address: u64, len_bytes: u64) -> Option<Self> {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|page| u64::try_from(page).ok());
        Self::around(address, len_bytes, page.filter(|page| page.is_power_of_two()).unwrap_or(4096))
    }
}

/// A region's memory as a DMA-buf in somebody else's hands.
///
/// It keeps the region, which counts as in use until this value is dropped. The descriptor is a copy of the region's
/// own: [`into_fd`](Self::into_fd) gives it away for good, and then the kernel alone keeps the memory for it.
#[derive(Debug)]
pub struct Export {
    fd: OwnedFd,
    offset: u64,
    len_bytes: u64,
    _held: Held,
}

impl Export {
    pub(crate) fn new(dmabuf: &Dmabuf, region: &Region) -> Result<Self, std::io::Error> {
        let fd = dmabuf.fd.try_clone()?;
        Ok(Self { fd, offset: dmabuf.offset, len_bytes: dmabuf.len_bytes, _held: Held::new(region) })
    }

    /// The descriptor.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where the region begins in the DMA-buf, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The region's length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Gives the descriptor away and ends the export: the region may be released from now on. The kernel keeps the GPU's
    /// memory until the last copy of the descriptor is closed, even when its owner frees it.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

/// A region that is in use by others than devices.
#[derive(Debug)]
pub(crate) struct Held(Region);

impl Held {
    pub(crate) fn new(region: &Region) -> Self {
        region.hold();
        Self(region.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hull_is_made_of_whole_pages() {
        let hull = |address, len| Hull::around(address, len, 4096).map(|hull| (hull.start, hull.len_bytes));
        assert_eq!(hull(8192, 4096), Some((8192, 4096)));
        assert_eq!(hull(8193, 1), Some((8192, 4096)));
        assert_eq!(hull(8191, 2), Some((4096, 8192)));
        assert_eq!(hull(u64::MAX - 1, 1), None);
        assert_eq!(hull(u64::MAX, 2), None);
    }

    #[test]
    fn what_is_no_descriptor_is_refused() {
        assert!(Dmabuf::adopt(-1, 0, 1).unwrap_err().contains("descriptor -1"));
        assert!(Dmabuf::adopt(1_000_000, 0, 1).is_err());
    }
}
