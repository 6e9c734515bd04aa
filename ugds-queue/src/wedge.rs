//! Why a queue takes no more commands.

use nvme_proto::register::{Csts, Property};
use nvme_proto::{Cid, Qid};
use ugds_hal::{Backend, Violation};

/// The reason for which a queue stopped for good.
///
/// A wedged queue fails every submission. What was outstanding stays reserved until the device is proved to have
/// stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wedge {
    /// A completion carries an identifier that no outstanding command has: unknown, stale or duplicate.
    #[error("queue {qid}: the device completed command {cid}, which is not outstanding")]
    UnknownCid {
        /// The queue.
        qid: Qid,
        /// What the device said.
        cid: Cid,
    },
    /// The device broke the protocol of the rings.
    #[error(transparent)]
    Protocol(#[from] Violation),
    /// A command was not answered in time.
    #[error("queue {qid}: a command was not answered within {waited_ms} ms")]
    Timeout {
        /// The queue.
        qid: Qid,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The controller reports a fatal error (`CSTS.CFS`).
    #[error("the controller reports a fatal error (CSTS.CFS)")]
    ControllerFatal,
    /// Its owner stopped the device without waiting for what was outstanding.
    #[error("the device was stopped by force")]
    Forced,
    /// Somebody else reset the whole NVM subsystem (`CSTS.NSSRO`).
    #[error("the NVM subsystem was reset (CSTS.NSSRO)")]
    SubsystemReset,
    /// The controller does not answer any more.
    #[error("the controller is gone: its registers read as all ones")]
    Gone,
}

impl Wedge {
    /// Asks the controller whether it is alive: nobody who waits for one that is not would ever be answered.
    ///
    /// It reads a register, which takes about a microsecond on hardware, so it has no place on the I/O path.
    ///
    /// # Errors
    ///
    /// [`Wedge::Gone`], [`Wedge::ControllerFatal`] or [`Wedge::SubsystemReset`].
    pub fn check<B: Backend + ?Sized>(backend: &B) -> Result<(), Self> {
        let value = backend.property_read(Property::CSTS).map_err(|_| Self::Gone)?;
        match Csts::from_bits(value as u32) {
            csts if csts.is_gone() => Err(Self::Gone),
            csts if csts.cfs() => Err(Self::ControllerFatal),
            csts if csts.nssro() => Err(Self::SubsystemReset),
            _ => Ok(()),
        }
    }
}
