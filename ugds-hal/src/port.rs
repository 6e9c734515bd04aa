//! The I/O path: one submission queue and its completion queue, or one connection.

use crate::Command;
use crate::pcie::ShadowPages;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use nvme_proto::{Cid, Cqe, PageSize, Qid, Status};

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

    /// Tells the device about everything staged. Returns whether there was anything.
    fn publish(&mut self) -> bool;

    /// Takes the next completion, if there is one.
    fn next(&mut self) -> Option<Cqe>;

    /// Ends a pass of [`next`](Self::next): checks `SQHD` and gives the completion entries back to the device.
    ///
    /// # Errors
    ///
    /// [`Violation`] when the device broke the protocol. Nothing it says can be trusted then.
    fn retire(&mut self) -> Result<(), Violation>;

    /// Hands the next completion to `each` if it is there, and retires it. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    #[inline]
    fn one<E: From<Violation>>(&mut self, each: impl FnOnce(Reaped<'_>) -> Result<(), E>) -> Result<bool, E>
    where
        Self: Sized,
    {
        let Some(cqe) = self.next() else { return Ok(false) };
        Reaped::of(&cqe, each)?;
        self.retire()?;
        Ok(true)
    }

    /// Makes a whole pass: hands completions to `each`, at most a quarter of the ring or 128, then
    /// [`retire`](Self::retire)s them, and returns how many `each` took. The end of a ring may end a pass.
    ///
    /// What [`next`](Self::next) took is retired before. The result is the [`Violation`], or the first error of `each`,
    /// after which nothing more is taken or retired.
    #[inline]
    fn pass<E: From<Violation>>(
        &mut self,
        mut each: impl FnMut(Reaped<'_>) -> Result<(), E>,
    ) -> (usize, Result<(), E>)
    where
        Self: Sized,
    {
        let mut count = 0;
        while count < usize::from(pass_limit(self.entries()))
            && let Some(cqe) = self.next()
        {
            if let Err(error) = Reaped::of(&cqe, &mut each) {
                return (count, Err(error));
            }
            count += 1;
        }
        (count, self.retire().map_err(E::from))
    }
}

/// The most completions of one pass, so that whoever else wants the queue gets it.
pub(crate) fn pass_limit(entries: u16) -> u16 {
    (entries / 4).clamp(1, 128)
}

/// A completion during the pass that takes it. It stands in its ring, and only what is asked for is read.
#[derive(Clone, Copy, Debug)]
pub struct Reaped<'ring> {
    /// DW0 and DW1.
    words: &'ring [AtomicU32; 2],
    /// DW3 without the phase tag.
    last: u32,
}

impl<'ring> Reaped<'ring> {
    #[inline]
    pub(crate) fn new(words: &'ring [AtomicU32; 2], last: u32) -> Self {
        Self { words, last }
    }

    /// Hands out a completion that was taken from its ring.
    fn of<E>(cqe: &Cqe, each: impl FnOnce(Reaped<'_>) -> Result<(), E>) -> Result<(), E> {
        let words = [cqe.dw0, cqe.dw1].map(|word| AtomicU32::new(word.get().to_le()));
        let status = u32::from(cqe.status().to_field(false));
        each(Reaped::new(&words, status << 16 | u32::from(cqe.cid.get())))
    }

    /// The command identifier.
    #[inline]
    #[must_use]
    pub fn cid(&self) -> Cid {
        Cid(self.last as u16)
    }

    /// The command identifier with other bits above it, for a lookup that masks it anyway.
    #[inline]
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.last
    }

    /// The status field, without the phase tag.
    #[inline]
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_field((self.last >> 16) as u16)
    }

    /// DW0, and DW1 in the upper half.
    #[inline]
    #[must_use]
    pub fn result(&self) -> u64 {
        // Relaxed: whoever made this value ordered all words of the completion behind its phase tag.
        let [dw0, dw1] = self.words.each_ref().map(|word| u32::from_le(word.load(Ordering::Relaxed)));
        u64::from(dw0) | u64::from(dw1) << 32
    }
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
