//! A namespace that can be used, and one that can't.

use alloc::boxed::Box;
use nvme_proto::{Nsid, identify};
use ugds_mem::{Format, FormatError};

/// A namespace, as the controller described it. Its format is what makes data commands safe to build;
/// [`Controller::scan`](super::Controller::scan) makes it from the controller's own answer.
#[derive(Clone, Debug)]
pub struct Namespace {
    nsid: Nsid,
    format: Format,
    max_transfer_bytes: u32,
    identify: Box<identify::Namespace>,
}

impl Namespace {
    pub(super) fn new(
        nsid: Nsid,
        identify: Box<identify::Namespace>,
        max_transfer_bytes: u32,
    ) -> Result<Self, RefusedReason> {
        if identify.nsze.get() == 0 {
            return Err(RefusedReason::Inactive);
        }
        let format = Format::of(&identify)?;
        let block_bytes = 1u64 << format.block_shift();
        if block_bytes > max_transfer_bytes.into() {
            return Err(RefusedReason::BlockAboveTransfer { block_bytes, max_transfer_bytes });
        }
        Ok(Self { nsid, format, max_transfer_bytes, identify })
    }

    /// Its identifier.
    #[inline]
    #[must_use]
    pub fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// Its format.
    #[inline]
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The most bytes of one command to it: at least one block.
    #[must_use]
    pub fn max_transfer_bytes(&self) -> u32 {
        self.max_transfer_bytes
    }

    /// The multiple of blocks that a command should not cross (NOIOB), 0 for none.
    #[must_use]
    pub fn boundary_blocks(&self) -> u32 {
        self.identify.noiob.get().into()
    }

    /// Its size in blocks (NSZE).
    #[inline]
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.identify.nsze.get()
    }

    /// Its Identify data.
    #[must_use]
    pub fn identify(&self) -> &identify::Namespace {
        &self.identify
    }
}

/// An active namespace that can't be used.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Its identifier.
    pub nsid: Nsid,
    /// Why not.
    pub reason: RefusedReason,
}

/// Why a namespace can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedReason {
    /// It is in the list of active namespaces, but has no blocks.
    #[error("it has no blocks (NSZE is 0)")]
    Inactive,
    /// Its format can't be used.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// One command does not move even one block.
    #[error("its blocks have {block_bytes} bytes, and one command moves {max_transfer_bytes} at most")]
    BlockAboveTransfer {
        /// The bytes of a block.
        block_bytes: u64,
        /// The most bytes of a command.
        max_transfer_bytes: u32,
    },
    /// The controller would not describe it.
    #[error("the controller does not describe it: {0}")]
    Identify(ugds_hal::AdminError),
}
