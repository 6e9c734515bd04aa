//! What a queue says about its commands.

use nvme_proto::{Cid, Status};
use ugds_hal::Reaped;

/// A command that the device completed, as [`QueuePair::reap`](crate::QueuePair::reap) hands it out.
#[derive(Clone, Copy, Debug)]
pub struct Completed<'ring> {
    /// The caller's name for the command.
    pub cookie: u64,
    /// The bytes that the command was to move.
    pub len_bytes: u32,
    pub(crate) reaped: Reaped<'ring>,
}

impl Completed<'_> {
    /// How it ended.
    #[inline]
    #[must_use]
    pub fn status(&self) -> Status {
        self.reaped.status()
    }

    /// Whether it ended well.
    #[inline(always)]
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.reaped.status().is_success()
    }

    /// The identifier it had.
    #[inline]
    #[must_use]
    pub fn cid(&self) -> Cid {
        self.reaped.cid()
    }

    /// DW0 of the completion, and DW1 in the upper half.
    #[inline]
    #[must_use]
    pub fn result(&self) -> u64 {
        self.reaped.result()
    }
}

/// A command that the device has not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The identifier under which the device knows it.
    pub cid: Cid,
    /// The caller's name for it.
    pub cookie: u64,
    /// The bytes that it moves.
    pub len_bytes: u32,
    /// The index of the mapping that it moves.
    pub memory: Option<u32>,
}

/// What went through a queue since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands staged for the device, or given to it.
    pub submitted: u64,
    /// Commands that came back.
    pub completed: u64,
    /// Commands that came back with an error.
    pub failed: u64,
    /// Times the submission doorbell was rung.
    pub rings: u64,
}
