//! The record of a wrong access.

use crate::Direction;
use core::fmt;
use nvme_proto::BusAddr;

/// An access that the model was told to make and that the map refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaViolation {
    /// Where.
    pub addr: BusAddr,
    /// How much.
    pub len_bytes: u64,
    /// Which way.
    pub direction: Direction,
    /// What for.
    pub purpose: Purpose,
    /// What was wrong.
    pub reason: Reason,
}

impl fmt::Display for DmaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, len_bytes, direction, purpose, reason } = self;
        write!(f, "{purpose:?} access of {len_bytes} bytes at {addr} ({direction:?}): {reason:?}")
    }
}

/// What an access is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Fetching a submission queue entry.
    SubmissionEntry,
    /// Posting a completion queue entry.
    CompletionEntry,
    /// Reading a list of PRPs or a segment of an SGL.
    List,
    /// Moving the data of a command.
    Data,
    /// Moving the metadata of a command.
    Metadata,
    /// Reading a shadow doorbell, or writing an event index.
    Shadow,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is mapped there, or not enough.
    Unmapped,
    /// The mapping is for the other direction.
    Direction,
    /// A word is not aligned.
    Unaligned,
}
