//! The I/O path: one submission queue and its completion queue, or one connection.

use crate::Command;
use crate::pcie::ShadowPages;
use alloc::sync::Arc;
use nvme_proto::{Cid, Cqe, PageSize, Qid};

/// How a queue's completions are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// Somebody looks; the device raises no interrupt (`IEN = 0`).
    #[default]
    Poll,
    /// The device raises this vector.
    Interrupt(u16),
}

/// What an I/O path is to be like.
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// The identifier of both queues.
    pub qid: Qid,
    /// Entries of each ring: a power of two, at least 2.
    pub entries: u16,
    /// The controller's page, `CC.MPS`: rings begin at one.
    pub page: PageSize,
    /// How completions are noticed.
    pub completion: Completion,
    /// The shadow doorbells, when the controller was given some.
    pub shadow: Option<Arc<ShadowPages>>,
}

/// One I/O path. Nothing here allocates, locks or blocks.
///
/// # Implementation safety
///
/// [`next`](Self::next) returns each completion once, and reads its words only after its phase tag.
pub trait Port: Send {
    /// Entries of the submission ring, a power of two. At most one less may be outstanding.
    fn entries(&self) -> u16;

    /// Stores `command` under the identifier `cid` where the device will look, without telling it.
    ///
    /// The caller keeps fewer than [`entries`](Self::entries) commands outstanding, and the memory of this one
    /// mapped until its completion was returned or the device is proved to have stopped.
    fn stage(&mut self, cid: Cid, command: &Command<'_>);

    /// Tells the device about everything staged.
    fn publish(&mut self);

    /// Takes the next completion, if there is one.
    fn next(&mut self) -> Option<Cqe>;

    /// Ends a pass of [`next`](Self::next): checks `SQHD` and gives the completion entries back to the device.
    ///
    /// # Errors
    ///
    /// [`Violation`] when the device broke the protocol. Nothing it says can be trusted then.
    fn retire(&mut self) -> Result<(), Violation>;
}

/// A way in which a device broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// `SQHD` lies outside of what was submitted.
    #[error("queue {qid}: the device reports submission head {sqhd}, outside of {head}..={tail}")]
    SubmissionHead {
        /// The queue.
        qid: Qid,
        /// What the device reported.
        sqhd: u16,
        /// The last head that was accepted.
        head: u16,
        /// The last tail that was given to the device.
        tail: u16,
    },
}
