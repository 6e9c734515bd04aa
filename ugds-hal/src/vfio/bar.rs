//! BAR0, mapped.
//!
//! UNSAFETY: maps the controller's registers and accesses them.

#![allow(unsafe_code)]

use super::device::VfioDevice;
use super::error::VfioError;
use super::{mmio, sigbus};
use crate::HalError;
use crate::pcie::Doorbell;
use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nvme_proto::Qid;
use nvme_proto::register::{DoorbellKind, Property, Width, doorbell_offset};
use std::sync::Arc;
use vfio_bindings::bindings::vfio::{VFIO_PCI_BAR0_REGION_INDEX, VFIO_REGION_INFO_FLAG_MMAP};

/// The controller's registers.
///
/// # Invariants
///
/// `base` points to `len_bytes` bytes that are mapped, aligned to a page, until this value is dropped.
#[derive(Debug)]
pub(super) struct Bar {
    base: NonNull<c_void>,
    len_bytes: usize,
    guard: Option<sigbus::Guard>,
}

// SAFETY: registers belong to no thread; every access is one volatile load or store.
unsafe impl Send for Bar {}
// SAFETY: as above.
unsafe impl Sync for Bar {}

impl Bar {
    /// Maps BAR0. With `guarded`, an access after the device was removed reads as all ones.
    pub(super) fn map(device: &VfioDevice, address: &str, guarded: bool) -> Result<Self, VfioError> {
        let region = device.region(VFIO_PCI_BAR0_REGION_INDEX)?;
        let small = || VfioError::SmallBar { address: address.into(), bytes: region.len_bytes };
        if region.flags & VFIO_REGION_INFO_FLAG_MMAP == 0 {
            return Err(VfioError::Unsupported { what: format!("a mappable BAR0 for {address}") });
        }
        let len = usize::try_from(region.len_bytes).ok().filter(|len| *len >= SMALLEST).ok_or_else(small)?;
        let length = NonZeroUsize::new(len).ok_or_else(small)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let offset = region.offset.try_into().map_err(|_| small())?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &device.file, offset) }
            .map_err(VfioError::call("mapping BAR0"))?;
        // SAFETY: the mapping just made holds registers, which this type reaches by volatile accesses; it drops the guard
        // before it unmaps them.
        let guard = guarded.then(|| unsafe { sigbus::Guard::new(base.addr().get(), len) }).flatten();
        // INVARIANT: just mapped, and unmapped by drop alone.
        Ok(Self { base, len_bytes: len, guard })
    }

    /// Reads a register; 64-bit ones as two halves, the low one first.
    pub(super) fn read(&self, property: Property) -> Result<u64, HalError> {
        let at = property.offset();
        let low = u64::from(self.load(at)?);
        Ok(match property.width() {
            Width::Bits32 => low,
            Width::Bits64 => low | u64::from(self.load(at + 4)?) << 32,
        })
    }

    /// Writes a register; 64-bit ones as two halves, the low one first.
    pub(super) fn write(&self, property: Property, value: u64) -> Result<(), HalError> {
        let at = property.offset();
        self.store(at, value as u32)?;
        match property.width() {
            Width::Bits32 => Ok(()),
            Width::Bits64 => self.store(at + 4, (value >> 32) as u32),
        }
    }

    fn load(&self, at: u32) -> Result<u32, HalError> {
        let register = self.register(at)?;
        // SAFETY: `register` checked that it lies in the mapping and is aligned.
        Ok(unsafe { mmio::load(register) })
    }

    fn store(&self, at: u32, value: u32) -> Result<(), HalError> {
        let register = self.register(at)?;
        // SAFETY: as for `load`.
        unsafe { mmio::store(register, value) };
        Ok(())
    }

    fn register(&self, at: u32) -> Result<NonNull<u32>, HalError> {
        let refuse = |reason| HalError::Register { offset: at, reason };
        if !at.is_multiple_of(4) {
            return Err(refuse("it is not aligned to four bytes"));
        }
        if at as usize + 4 > self.len_bytes {
            return Err(refuse("it lies beyond BAR0"));
        }
        // SAFETY: inside the mapping, as just tested.
        Ok(unsafe { self.base.cast::<u32>().byte_add(at as usize) })
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        // Before the addresses can become somebody else's.
        drop(self.guard.take());
        // SAFETY: exactly what was mapped (type invariant). Doorbells hold the BAR, so nobody uses it any more.
        let unmapped = unsafe { munmap(self.base, self.len_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping failed");
    }
}

/// A doorbell register.
///
/// # Invariants
///
/// `register` lies in the mapping of `_bar` and is aligned to four bytes.
#[derive(Debug)]
pub struct VfioDoorbell {
    register: NonNull<u32>,
    _bar: Arc<Bar>,
}

// SAFETY: a register belongs to no thread, and `Bar` is Send and Sync.
unsafe impl Send for VfioDoorbell {}

impl VfioDoorbell {
    pub(super) fn new(bar: &Arc<Bar>, qid: Qid, kind: DoorbellKind, dstrd: u8) -> Result<Self, HalError> {
        let at = u32::try_from(doorbell_offset(qid, kind, dstrd)).unwrap_or(!3);
        // INVARIANT: `register` checked it.
        Ok(Self { register: bar.register(at)?, _bar: Arc::clone(bar) })
    }
}

impl Doorbell for VfioDoorbell {
    #[inline]
    fn write(&self, value: u32) {
        // SAFETY: the type's invariant.
        unsafe { mmio::store(self.register, value) };
    }
}

/// The registers and the admin queue's doorbells.
const SMALLEST: usize = 0x1008;
