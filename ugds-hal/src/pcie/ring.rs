//! The submission and completion ring of one queue pair.

use super::completion::CompletionRing;
use super::doorbell::Bell;
use super::submission::SubmissionRing;
use super::{Doorbell, ShadowPages};
use crate::{Command, Dma, Port, Reaped, Violation};
use alloc::sync::Arc;
use nvme_proto::register::DoorbellKind;
use nvme_proto::{Cid, Cqe, Qid, Sqe};

/// A queue pair whose rings lie in memory: the port of every local controller.
///
/// Dropping it leaks the rings, since the device may still write to them; `close` of whoever opened it frees them.
#[derive(Debug)]
pub struct PciePort<D> {
    submission: SubmissionRing<D>,
    completion: CompletionRing<D>,
    qid: Qid,
    entries: u16,
}

/// The rings of a port that is being opened.
pub(super) struct Rings {
    pub(super) submission: Dma,
    pub(super) completion: Dma,
}

impl<D: Doorbell> PciePort<D> {
    /// Joins rings of `entries` entries with their doorbells. `None` when the memory is too small or misaligned,
    /// or `entries` is no power of two of at most 32,768.
    pub(super) fn new(
        rings: Rings,
        entries: u16,
        qid: Qid,
        bells: [D; 2],
        shadow: Option<Arc<ShadowPages>>,
    ) -> Option<Self> {
        let [submission, completion] = bells;
        let submission = Bell::new(submission, shadow.clone(), qid, DoorbellKind::SubmissionTail);
        let completion = Bell::new(completion, shadow, qid, DoorbellKind::CompletionHead);
        Some(Self {
            submission: SubmissionRing::new(rings.submission, entries, submission)?,
            completion: CompletionRing::new(rings.completion, entries, completion)?,
            qid,
            entries,
        })
    }

    /// The identifier of both queues.
    #[must_use]
    pub fn qid(&self) -> Qid {
        self.qid
    }

    /// Frees the rings.
    ///
    /// The caller knows that the device has let go of them: it confirmed the deletion, or was proved to have
    /// stopped. It is a mistake, though not memory-unsafe for this process, to call it earlier: an access by the
    /// device would then miss its mapping.
    pub(super) fn free(self) {
        self.submission.free();
        self.completion.free();
    }

    /// Checks what the device reported, and gives it the entries back that were taken.
    #[inline(always)]
    fn give_back(&mut self, reported: u16) -> Result<(), Violation> {
        let position = self.completion.position();
        match self.submission.accept_head(reported, position) {
            Ok(()) => {
                self.completion.give_back(position);
                Ok(())
            }
            Err([head, tail]) => Err(Violation::SubmissionHead { qid: self.qid, sqhd: reported, head, tail }),
        }
    }
}

impl<D: Doorbell> Port for PciePort<D> {
    #[inline]
    fn entries(&self) -> u16 {
        self.entries
    }

    #[inline(always)]
    fn stage(&mut self, cid: Cid, command: &Command<'_>) {
        self.submission.stage(command.words(cid));
    }

    #[inline(always)]
    fn publish(&mut self) -> bool {
        self.submission.publish()
    }

    #[inline]
    fn next(&mut self) -> Option<Cqe> {
        self.completion.next()
    }

    #[inline]
    fn retire(&mut self) -> Result<(), Violation> {
        match self.completion.take_reported() {
            Some(reported) => self.give_back(reported),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn one<E: From<Violation>>(&mut self, each: impl FnOnce(Reaped<'_>) -> Result<(), E>) -> Result<bool, E> {
        match self.completion.one(each) {
            Ok(Some(reported)) => {
                self.give_back(reported)?;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn pass<E: From<Violation>>(
        &mut self,
        each: impl FnMut(Reaped<'_>) -> Result<(), E>,
    ) -> (usize, Result<(), E>) {
        match self.completion.pass(each) {
            (0, Ok(_)) => (0, Ok(())),
            (count, Ok(reported)) => (count, self.give_back(reported).map_err(E::from)),
            (count, Err(error)) => (count, Err(error)),
        }
    }
}

/// Whether `memory` has room for a ring of `entries` entries of `entry_bytes`, begins where any entry may begin, and a
/// ring can have that many.
pub(super) fn fits(memory: &Dma, entries: u16, entry_bytes: usize) -> bool {
    entries.is_power_of_two()
        && memory.shared().len_bytes() >= usize::from(entries) * entry_bytes
        && memory.shared().as_ptr().addr().get().is_multiple_of(align_of::<Sqe>())
}
