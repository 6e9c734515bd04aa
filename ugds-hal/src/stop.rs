//! Proof that a device no longer touches memory, and what waits for it.

use crate::DomainId;
use alloc::boxed::Box;
use core::mem::ManuallyDrop;
use core::time::Duration;

/// A way to stop a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// `CC.EN = 0`, then `CSTS.RDY = 0` read as something other than all ones, within the given time.
    Disable(Duration),
}

/// The proof that one device stopped. It is the only key to what is quarantined for that device.
#[derive(Debug)]
pub struct Stopped {
    domain: DomainId,
}

impl Stopped {
    /// Claims that the device of `domain` stopped.
    ///
    /// # Safety
    ///
    /// The device makes no access to memory from now until it is enabled again, by one of: `CSTS.RDY` read as 0
    /// (and the register not as all ones) after `CC.EN` was cleared; a completed function-level or bus reset after
    /// which configuration space answers; bus mastering read back as off with no transactions pending.
    #[allow(unsafe_code)]
    #[must_use]
    pub const unsafe fn claim(domain: DomainId) -> Self {
        Self { domain }
    }

    /// The device that stopped.
    #[must_use]
    pub const fn domain(&self) -> DomainId {
        self.domain
    }
}

/// Something that a device may still write to. It is neither usable nor freed until a stop is proved.
///
/// Dropping a quarantine leaks what is inside: lost memory is better than memory that changes under its next owner.
#[derive(Debug)]
pub struct Quarantine<T> {
    held: ManuallyDrop<Box<T>>,
    domain: DomainId,
}

impl<T> Quarantine<T> {
    /// Locks `held` away until the device of `domain` stopped.
    pub fn new(held: T, domain: DomainId) -> Self {
        Self { held: ManuallyDrop::new(Box::new(held)), domain }
    }

    /// Gives back what was held.
    ///
    /// # Errors
    ///
    /// The quarantine itself, when `proof` is another device's.
    pub fn release(self, proof: &Stopped) -> Result<T, Self> {
        if proof.domain == self.domain { Ok(*ManuallyDrop::into_inner(self.held)) } else { Err(self) }
    }
}
