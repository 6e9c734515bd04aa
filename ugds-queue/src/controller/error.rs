//! What can go wrong with a controller.

use core::time::Duration;
use nvme_proto::PageSize;
use ugds_hal::{AdminError, HalError};
use ugds_mem::MemError;

/// An error of a controller's bring-up, administration or shutdown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The backend failed.
    #[error(transparent)]
    Hal(HalError),
    /// An admin command failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Memory for the controller's own use could not be had.
    #[error(transparent)]
    Memory(MemError),
    /// Somebody in this process drives the device already, or did and could not prove that it stopped.
    #[error("the device is in use: this process has it open, or could not prove that it stopped")]
    Claimed,
    /// The controller is gone.
    #[error("the controller is gone: its registers read as all ones")]
    Gone,
    /// The controller has no NVM command set.
    #[error("the controller does not support the NVM command set (CAP.CSS is {css:#04x}, bit 0 must be set)")]
    NoNvmCommandSet {
        /// `CAP.CSS`.
        css: u8,
    },
    /// The page sizes that the controller reports contradict each other.
    #[error("the controller reports page sizes from {min} to {max}, which is no range")]
    PageSizes {
        /// `CAP.MPSMIN`.
        min: PageSize,
        /// `CAP.MPSMAX`.
        max: PageSize,
    },
    /// The controller uses entry sizes that no driver here knows.
    #[error("the controller requires {queue} entries of 2^{required} bytes; 2^{supported} is supported")]
    EntrySize {
        /// Which queue.
        queue: &'static str,
        /// The least it takes, as a binary logarithm.
        required: u8,
        /// What there is.
        supported: u8,
    },
    /// The controller reported a fatal error while it was being enabled.
    #[error("the controller reports a fatal error (CSTS.CFS) while being enabled")]
    FatalOnEnable,
    /// The controller did not become ready.
    #[error("the controller did not become ready within {} ms", waited.as_millis())]
    NotReady {
        /// How long was waited.
        waited: Duration,
    },
    /// The controller did not finish its shutdown.
    #[error("the controller did not finish its shutdown within {} ms", waited.as_millis())]
    NotShutDown {
        /// How long was waited.
        waited: Duration,
    },
    /// More queues were asked for than there are.
    #[error("all {granted} I/O queues of the controller are open")]
    NoQueueLeft {
        /// How many there are.
        granted: u16,
    },
}

impl From<MemError> for ControllerError {
    fn from(error: MemError) -> Self {
        match error {
            MemError::Hal(error) => error.into(),
            other => Self::Memory(other),
        }
    }
}

impl From<HalError> for ControllerError {
    fn from(error: HalError) -> Self {
        match error {
            HalError::Gone { .. } => Self::Gone,
            other => Self::Hal(other),
        }
    }
}
