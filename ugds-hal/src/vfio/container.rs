//! The IOMMU's tables for one device: what it reaches, and at which addresses.
//!
//! UNSAFETY: has the kernel map memory that callers keep.

#![allow(unsafe_code)]

use super::error::VfioError;
use super::group::Group;
use super::iommufd::Iommufd;
use super::iova::Iovas;
use crate::{Direction, HalError, Process};
use nix::errno::Errno;
use std::fs::File;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The tables, by whichever of the kernel's interfaces there is.
#[derive(Debug)]
pub(super) struct Container {
    interface: Interface,
    iovas: Mutex<Iovas>,
    process: Process,
}

#[derive(Debug)]
enum Interface {
    Group(Group),
    Iommufd(Iommufd),
}

impl Container {
    /// Opens the tables of the device with this PCI address, which is in IOMMU group `group`: by the device's own
    /// node where the kernel has one, else by its group.
    pub(super) fn open(address: &str, group: u32) -> Result<Self, VfioError> {
        let interface = match Iommufd::open(address)? {
            Some(iommufd) => Interface::Iommufd(iommufd),
            None => Interface::Group(Group::open(group)?),
        };
        let ranges = match &interface {
            Interface::Group(group) => group.ranges(),
            Interface::Iommufd(iommufd) => iommufd.ranges(),
        }?;
        let iovas = Mutex::new(Iovas::new(ranges, u64::MAX));
        Ok(Self { interface, iovas, process: Process::this() })
    }

    /// Which interface is in use, for people.
    pub(super) fn name(&self) -> &'static str {
        match self.interface {
            Interface::Group(_) => "its group",
            Interface::Iommufd(_) => "iommufd",
        }
    }

    /// Opens the device.
    pub(super) fn device(&self, address: &str) -> Result<File, VfioError> {
        match &self.interface {
            Interface::Group(group) => group.device(address),
            Interface::Iommufd(iommufd) => iommufd.device(),
        }
    }

    /// Maps memory for the device and returns where. Both ends are multiples of the host's page.
    ///
    /// # Safety
    ///
    /// The memory stays allocated until [`unmap`](Self::unmap), and is reached by copying only.
    pub(super) unsafe fn map(
        &self,
        ptr: NonNull<u8>,
        len_bytes: u64,
        direction: Direction,
    ) -> Result<u64, HalError> {
        let host = ptr.addr().get() as u64;
        let refuse = |reason: String| HalError::Map {
            address: ptr.addr().get(),
            len_bytes: usize::try_from(len_bytes).unwrap_or(usize::MAX),
            reason,
        };
        let iova = self
            .iovas()
            .take(len_bytes, host, CONGRUENCE)
            .ok_or_else(|| refuse("no free run of I/O virtual addresses is long enough".into()))?;
        let mapped = match &self.interface {
            // SAFETY: the memory is the caller's promise.
            Interface::Group(group) => unsafe { group.map(iova, host, len_bytes, direction) },
            // SAFETY: as above.
            Interface::Iommufd(iommufd) => unsafe { iommufd.map(iova, host, len_bytes, direction) },
        };
        match mapped {
            Ok(()) => Ok(iova),
            Err(errno) => {
                self.iovas().give_back(iova);
                Err(refuse(explain(errno)))
            }
        }
    }

    /// Whether this is the process that opened the container. A child shares it with its parent, whose mappings it
    /// must leave alone.
    pub(super) fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    /// Takes memory from the device. Afterwards an access to it is refused by the IOMMU.
    pub(super) fn unmap(&self, iova: u64, len_bytes: u64) -> Result<(), VfioError> {
        match &self.interface {
            Interface::Group(group) => group.unmap(iova, len_bytes),
            Interface::Iommufd(iommufd) => iommufd.unmap(iova, len_bytes),
        }
        .map_err(VfioError::call("unmapping memory from the device"))?;
        self.iovas().give_back(iova);
        Ok(())
    }

    fn iovas(&self) -> MutexGuard<'_, Iovas> {
        self.iovas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do about a mapping that the kernel refused.
fn explain(errno: Errno) -> String {
    match errno {
        Errno::ENOMEM => {
            let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK);
            let now = limit.map_or_else(|_| "unknown".into(), |(soft, _)| format!("{} KiB", soft >> 10));
            format!(
                "this process may not pin more memory: its limit is {now}; raise it with 'ulimit -l', a memlock line \
                 in /etc/security/limits.conf, or LimitMEMLOCK= of its systemd unit"
            )
        }
        Errno::ENOSPC => {
            "the container has as many mappings as it may (65,535): map fewer and larger regions".into()
        }
        Errno::EFAULT => {
            "the memory can't be pinned (is it mapped, and writable where the device writes?)".into()
        }
        other => other.desc().into(),
    }
}

/// Bus and host addresses are equal modulo this: a huge page, so that the IOMMU can use its own large pages, and more
/// than any controller's page of practical interest.
const CONGRUENCE: u64 = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memlock_error_says_what_to_set() {
        let text = explain(Errno::ENOMEM);
        assert!(text.contains("ulimit -l") && text.contains("KiB") | text.contains("unknown"), "{text}");
    }
}
