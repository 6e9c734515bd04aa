//! What a backend can answer instead of what was asked.

use crate::Quarantine;
use crate::backend::AdminError;
use crate::pcie::RingSizeError;
use alloc::string::String;

/// A port that could not be opened.
#[derive(Debug)]
pub struct OpenError<P> {
    /// Why not.
    pub error: HalError,
    /// What the device may have been given all the same.
    pub left: Option<Quarantine<P>>,
}

impl<P, E: Into<HalError>> From<E> for OpenError<P> {
    fn from(error: E) -> Self {
        Self { error: error.into(), left: None }
    }
}

/// An error of a backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HalError {
    /// The device is gone: a register read came back as all ones.
    #[error("the device does not answer (register {offset:#x} reads as all ones)")]
    Gone {
        /// The register's offset in BAR0.
        offset: u32,
    },
    /// There is no such register, or it can't be accessed that way.
    #[error("register {offset:#x} can't be accessed: {reason}")]
    Register {
        /// The register's offset in BAR0.
        offset: u32,
        /// Why not.
        reason: &'static str,
    },
    /// Memory could not be had.
    #[error("no memory for {len_bytes} bytes aligned to {align_bytes}: {reason}")]
    Memory {
        /// What was asked for.
        len_bytes: usize,
        /// The alignment asked for.
        align_bytes: usize,
        /// The operating system's or the backend's reason.
        reason: String,
    },
    /// Memory could not be mapped for the device.
    #[error("can't map {len_bytes} bytes at {address:#x} for the device: {reason}")]
    Map {
        /// The host address.
        address: usize,
        /// The length.
        len_bytes: usize,
        /// Why not, and what would be accepted.
        reason: String,
    },
    /// A queue's size is not possible.
    #[error(transparent)]
    RingSize(#[from] RingSizeError),
    /// The admin command that opens or closes a port failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The device did not come to rest in time.
    #[error("the device did not stop within {waited_ms} ms; its memory stays reserved")]
    NotStopped {
        /// How long was waited.
        waited_ms: u64,
    },
    /// This backend can't do that.
    #[error("{what} is not supported by the {backend} backend")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// The backend's name.
        backend: &'static str,
    },
    /// The operating system refused.
    #[error("{what}: {reason}")]
    System {
        /// What was tried.
        what: String,
        /// The operating system's reason.
        reason: String,
    },
}
