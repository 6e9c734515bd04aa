//! The model's way to host memory: a map from bus addresses, as an IOMMU has one, and the judge of every access.
//!
//! Bus addresses are handed out upwards and never again, with gaps between mappings and far from any host address, so
//! that an address that was kept too long, or that was never one, misses.

mod memory;
mod region;
mod violation;

pub(super) use memory::{allocate, map_dmabuf, map_host};
pub use violation::{DmaViolation, Purpose, Reason};

use crate::{Direction, DomainId, SharedMemory};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use nvme_proto::BusAddr;
use region::Region;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock};

/// The map of one controller.
#[derive(Debug)]
pub(super) struct DmaMap {
    domain: DomainId,
    /// By first address. An access holds it for reading while it copies, so an unmapping waits for the access.
    regions: RwLock<BTreeMap<u64, Region>>,
    next: Mutex<u64>,
    /// Bus and host addresses agree modulo this, which is a multiple of every page that `CC.MPS` can say.
    congruence: u64,
    /// The size of a piece and the state of the draw, when foreign memory is scattered.
    scatter: Option<(u64, AtomicU64)>,
    violations: Mutex<Vec<DmaViolation>>,
    refused: AtomicU64,
}

/// One access of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) addr: BusAddr,
    pub(super) len: usize,
    pub(super) direction: Direction,
    pub(super) purpose: Purpose,
}

/// An access that did not take place. It is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

impl DmaMap {
    pub(super) fn new(mpsmin: u8, mpsmax: u8, scatter_seed: Option<u64>) -> Self {
        static CONTROLLERS: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only a number. Addresses of two controllers do not overlap, so that a mix-up misses.
        let space = u64::from(CONTROLLERS.fetch_add(1, Ordering::Relaxed) % 1024);
        Self {
            domain: DomainId::fresh(),
            regions: RwLock::default(),
            next: Mutex::new(FIRST_ADDRESS + (space << SPACE_SHIFT)),
            congruence: 4096 << mpsmax,
            scatter: scatter_seed.map(|seed| (4096 << mpsmin, AtomicU64::new(seed))),
            violations: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    pub(super) fn domain(&self) -> DomainId {
        self.domain
    }

    pub(super) fn live(&self) -> usize {
        self.regions.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn violations(&self) -> Vec<DmaViolation> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Accesses that were refused, also those that there was no room to record.
    pub(super) fn refused(&self) -> u64 {
        // Relaxed: a statistic.
        self.refused.load(Ordering::Relaxed)
    }

    /// Copies from host memory.
    pub(super) fn read(&self, addr: BusAddr, to: &mut [u8], purpose: Purpose) -> Result<(), Refused> {
        let access = Access { addr, len: to.len(), direction: Direction::DeviceReads, purpose };
        self.with(access, |memory, offset| memory.copy_out(offset, to).is_ok())
    }

    /// Copies into host memory.
    pub(super) fn write(&self, addr: BusAddr, from: &[u8], purpose: Purpose) -> Result<(), Refused> {
        let access = Access { addr, len: from.len(), direction: Direction::DeviceWrites, purpose };
        self.with(access, |memory, offset| memory.copy_in(offset, from).is_ok())
    }

    /// Loads a 32-bit word, with acquire order.
    pub(super) fn load(&self, addr: BusAddr, purpose: Purpose) -> Result<u32, Refused> {
        let access = Access { addr, len: 4, direction: Direction::DeviceReads, purpose };
        let mut value = 0;
        self.with(access, |memory, offset| {
            // Acquire: what the host stored before the word is seen after it.
            memory.word(offset).map(|word| value = u32::from_le(word.load(Ordering::Acquire))).is_some()
        })?;
        Ok(value)
    }

    /// Stores a 32-bit word.
    pub(super) fn store(&self, addr: BusAddr, value: u32, purpose: Purpose) -> Result<(), Refused> {
        let access = Access { addr, len: 4, direction: Direction::DeviceWrites, purpose };
        self.with(access, |memory, offset| {
            // Relaxed: the user fences.
            memory.word(offset).map(|word| word.store(value.to_le(), Ordering::Relaxed)).is_some()
        })
    }

    /// Stores a completion queue entry, the word with the phase tag last.
    pub(super) fn post(&self, addr: BusAddr, words: [u32; 4]) -> Result<(), Refused> {
        let access =
            Access { addr, len: 16, direction: Direction::DeviceWrites, purpose: Purpose::CompletionEntry };
        self.with(access, |memory, offset| {
            (0..4).all(|i| {
                let Some(word) = memory.word(offset + 4 * i) else { return false };
                // Release: whoever sees the phase tag sees the other words, and the data.
                let order = if i == 3 { Ordering::Release } else { Ordering::Relaxed };
                word.store(words[i].to_le(), order);
                true
            })
        })
    }

    fn with(&self, access: Access, f: impl FnOnce(&SharedMemory, usize) -> bool) -> Result<(), Refused> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let found = regions.range(..=access.addr.0).next_back();
        let place =
            found.and_then(|(base, region)| Some((region, region.locate(access.addr.0 - base, access.len)?)));
        let reason = match place {
            None => Reason::Unmapped,
            Some((region, _)) if !region.direction.allows(access.direction) => Reason::Direction,
            Some((region, offset)) if f(&region.memory, offset) => return Ok(()),
            Some(_) => Reason::Unaligned,
        };
        drop(regions);
        self.refuse(access, reason)
    }

    #[cold]
    fn refuse(&self, access: Access, reason: Reason) -> Result<(), Refused> {
        // Relaxed: a statistic.
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        if violations.len() < MAX_VIOLATIONS {
            violations.push(DmaViolation {
                addr: access.addr,
                len_bytes: access.len as u64,
                direction: access.direction,
                purpose: access.purpose,
                reason,
            });
        }
        Err(Refused)
    }

    /// Takes bus addresses for a window of `len` bytes that agree with `host` modulo the congruence and `align`.
    fn take_addresses(&self, host: u64, len: u64, align: u64) -> Option<u64> {
        let modulus = self.congruence.max(align);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let rounded = next.checked_next_multiple_of(modulus)?;
        let base = rounded.checked_add(host & (modulus - 1))?;
        *next = base.checked_add(len)?.checked_add(GAP_BYTES)?;
        Some(base)
    }

    fn insert(&self, base: u64, region: Region) {
        self.regions.write().unwrap_or_else(PoisonError::into_inner).insert(base, region);
    }

    /// Takes a mapping away, after every access in flight.
    fn remove(&self, base: u64) {
        self.regions.write().unwrap_or_else(PoisonError::into_inner).remove(&base);
    }
}

/// Above 4 GiB, so that a truncated address misses, and with bits that no host pointer of user space has.
const FIRST_ADDRESS: u64 = 1 << 52;
/// The room of one controller's addresses.
const SPACE_SHIFT: u32 = 42;
/// Between mappings, so that running past one misses.
const GAP_BYTES: u64 = 64 << 10;
/// What is recorded; a driver gone wild should not take the memory too.
const MAX_VIOLATIONS: usize = 1024;

#[cfg(test)]
mod tests;
