//! Proof that a device no longer touches memory, and what waits for it.

use crate::DomainId;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use nvme_proto::register::{Cc, Property};

/// A way to stop a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// `CC.EN = 0`, then `CSTS.RDY = 0` read as something other than all ones, within the given time.
    Disable(Duration),
    /// A function-level reset, after which configuration space answers.
    FunctionReset,
    /// Bus mastering switched off and read back as off, with no transactions pending, within the given time. The
    /// device keeps running, but reaches no memory.
    BusMasterOff(Duration),
}

/// How often a device was enabled. Clones count together.
///
/// A stop ends what was given to the device before, and says nothing about what comes later. The count tells the two
/// apart.
#[derive(Clone, Debug, Default)]
pub struct Enables(Arc<AtomicU64>);

impl Enables {
    /// Counts a write to `CC` that leaves the device enabled. A backend calls this before the write reaches it.
    pub fn note(&self, property: Property, value: u64) {
        if property == Property::CC && Cc::from_bits(value as u32).en() {
            // Relaxed: whoever reads the count for a queue or a proof orders itself by owning the controller.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn era(&self, domain: DomainId) -> Era {
        Era { domain, enables: self.0.load(Ordering::Relaxed) }
    }
}

/// A stretch of one device's life: from one enabling to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era {
    domain: DomainId,
    enables: u64,
}

impl Era {
    /// The device.
    #[inline]
    #[must_use]
    pub const fn domain(&self) -> DomainId {
        self.domain
    }

    /// The era that begins with the next enabling: that of an admin queue, which is opened just before.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { domain: self.domain, enables: self.enables + 1 }
    }
}

/// The proof that one device stopped. It is the only key to what is quarantined for that device.
#[derive(Debug)]
pub struct Stopped {
    era: Era,
}

impl Stopped {
    /// Claims that the device stopped at the end of `era`.
    ///
    /// # Safety
    ///
    /// The device makes no access to memory on behalf of anything that it was given in this era or before, by one
    /// of: `CSTS.RDY` read as 0 (and the register not as all ones) after `CC.EN` was cleared; a completed
    /// function-level or bus reset after which configuration space answers; bus mastering read back as off with no
    /// transactions pending.
    #[allow(unsafe_code)]
    #[must_use]
    pub const unsafe fn claim(era: Era) -> Self {
        Self { era }
    }

    /// Whether the proof is for what was given to the device in `era`: the same device, and no later era.
    #[must_use]
    pub fn covers(&self, era: Era) -> bool {
        self.era.domain == era.domain && self.era.enables >= era.enables
    }
}

/// The right to drive a device. There is one; it goes back when the device is proved to have stopped.
#[derive(Debug)]
pub struct Claim {
    taken: Arc<AtomicBool>,
    enables: Enables,
    domain: DomainId,
}

/// Whether a device is being driven. Clones are the same flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Driven(Arc<AtomicBool>);

impl Driven {
    pub(crate) fn claim(&self, domain: DomainId, enables: &Enables) -> Option<Claim> {
        // AcqRel: the next driver sees all that the last one did.
        let free = self.0.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        free.then(|| Claim { taken: Arc::clone(&self.0), enables: enables.clone(), domain })
    }
}

impl Claim {
    /// Gives the right back before the device was given anything.
    pub fn unused(self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Gives the right back. A proof of another device's stop, or of one before the device was enabled last, changes
    /// nothing.
    pub fn release(self, proof: &Stopped) {
        if proof.covers(self.enables.era(self.domain)) {
            self.taken.store(false, Ordering::Release);
        }
    }
}

/// Something that a device may still write to. It is neither usable nor freed until a stop is proved.
///
/// Dropping a quarantine leaks what is inside: lost memory is better than memory that changes under its next owner.
#[derive(Debug)]
pub struct Quarantine<T> {
    held: ManuallyDrop<Box<T>>,
    era: Era,
}

impl<T> Quarantine<T> {
    /// Locks `held`, which the device was given in `era` or before, away until the device stopped.
    pub fn new(held: T, era: Era) -> Self {
        Self { held: ManuallyDrop::new(Box::new(held)), era }
    }

    /// Gives back what was held.
    ///
    /// # Errors
    ///
    /// The quarantine itself, when `proof` does not cover it.
    pub fn release(self, proof: &Stopped) -> Result<T, Self> {
        if proof.covers(self.era) { Ok(*ManuallyDrop::into_inner(self.held)) } else { Err(self) }
    }

    /// Puts what is held into something else, still locked away.
    #[cfg(feature = "std")]
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Quarantine<U> {
        Quarantine::new(f(*ManuallyDrop::into_inner(self.held)), self.era)
    }
}
