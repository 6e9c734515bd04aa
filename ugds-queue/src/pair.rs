//! A queue pair with one owner.

use crate::attachments::{Attachments, Busy};
use crate::slots::{NO_MEMORY, Slots};
use crate::wedge::Wedge;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use nvme_proto::{Cid, Cqe, Qid, Status};
use ugds_hal::{DomainId, Era, Port};
use ugds_mem::{Io, Mapped};

/// A submission queue and its completion queue, used through `&mut`: no lock, no atomic read-modify-write, no
/// allocation once each region has been used.
///
/// A command goes the way reserve ([`permit`](Self::permit)), stage ([`Permit::stage`]), [`ring`](Self::ring), and
/// comes back from [`reap`](Self::reap). At most 32 commands stay staged; the next one rings.
pub struct QueuePair<P> {
    port: P,
    slots: Slots,
    attachments: Attachments,
    completed: Vec<Completed>,
    staged: u32,
    counters: Counters,
    wedge: Option<Wedge>,
    qid: Qid,
    era: Era,
}

/// A command that was staged. Dropping the ticket changes nothing: the command, its slot and its memory stay until
/// the device completes it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the ticket says which completion is this command's"]
pub struct Ticket(Cid);

impl Ticket {
    /// The identifier under which the device knows the command.
    #[must_use]
    pub fn cid(&self) -> Cid {
        self.0
    }
}

/// A command that the device completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The caller's name for the command.
    pub cookie: u64,
    /// DW0 and DW1 of the completion.
    pub result: u64,
    /// The bytes that the command was to move.
    pub len_bytes: u32,
    /// How it ended.
    pub status: Status,
    /// The identifier it had.
    pub cid: Cid,
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
    /// Commands given to the device.
    pub submitted: u64,
    /// Commands that came back.
    pub completed: u64,
    /// Commands that came back with an error.
    pub failed: u64,
    /// Bytes of commands that came back without one.
    pub bytes: u64,
    /// Times the submission doorbell was rung.
    pub rings: u64,
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Every slot is taken: reap first.
    #[error("all {slots} slots of the queue are in use")]
    Full {
        /// How many there are.
        slots: u16,
    },
    /// The queue stopped for good.
    #[error("the queue takes no more commands: {0}")]
    Wedged(#[source] Wedge),
    /// The command's memory is mapped for another device.
    #[error("the command's memory is mapped for another device ({memory:?}, this queue is of {queue:?})")]
    ForeignMemory {
        /// The memory's domain.
        memory: DomainId,
        /// The queue's domain.
        queue: DomainId,
    },
}

impl<P: Port> QueuePair<P> {
    /// Wraps a port that was opened in `era`. `generations` is off only for controllers that choke on them.
    #[must_use]
    pub fn new(port: P, qid: Qid, era: Era, generations: bool) -> Self {
        let slots = Slots::new(port.entries() - 1, generations);
        let pass = pass_limit(port.entries());
        Self {
            port,
            slots,
            attachments: Attachments::default(),
            completed: Vec::with_capacity(pass),
            staged: 0,
            counters: Counters::default(),
            wedge: None,
            qid,
            era,
        }
    }

    /// Reserves a slot for one command.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Full`] or [`SubmitError::Wedged`].
    #[inline]
    pub fn permit(&mut self) -> Result<Permit<'_, P>, SubmitError> {
        if self.slots.peek().is_none() {
            return Err(self.refusal());
        }
        Ok(Permit { queue: self })
    }

    /// Reserves a slot and stages `io` under the caller's name `cookie`.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]; nothing was staged.
    #[inline]
    pub fn submit(&mut self, io: &Io<'_>, cookie: u64) -> Result<Ticket, SubmitError> {
        self.permit()?.stage(io, cookie)
    }

    /// Tells the device about everything staged.
    #[inline]
    pub fn ring(&mut self) {
        if self.staged != 0 {
            self.counters.rings += 1;
            self.counters.submitted += u64::from(self.staged);
            self.staged = 0;
            self.port.publish();
        }
    }

    /// Takes the completions that are there, at most a quarter of the ring or 128, and returns them. An empty slice
    /// means that there were none.
    ///
    /// # Errors
    ///
    /// [`Wedge`] when the device broke the protocol, now or before. Completions of a pass that ends so are not handed
    /// out, and do not count as outstanding either: the device said that it is done with their memory.
    #[inline]
    pub fn reap(&mut self) -> Result<&[Completed], Wedge> {
        self.completed.clear();
        if let Some(wedge) = self.wedge {
            return Err(wedge);
        }
        while self.completed.len() < self.completed.capacity() {
            let Some(cqe) = self.port.next() else { break };
            self.retire(&cqe)?;
        }
        match self.port.retire() {
            Ok(()) => Ok(&self.completed),
            Err(violation) => Err(self.wedge(violation.into())),
        }
    }

    #[inline]
    fn retire(&mut self, cqe: &Cqe) -> Result<(), Wedge> {
        let Some(slot) = self.slots.retire(cqe.cid()) else {
            return Err(self.wedge(Wedge::UnknownCid { qid: self.qid, cid: cqe.cid() }));
        };
        let status = cqe.status();
        self.attachments.outstanding -= 1;
        self.counters.completed += 1;
        if status.is_success() {
            self.counters.bytes += u64::from(slot.len_bytes);
        } else {
            self.counters.failed += 1;
        }
        self.completed.push(Completed {
            cookie: slot.cookie,
            result: u64::from(cqe.dw0.get()) | u64::from(cqe.dw1.get()) << 32,
            len_bytes: slot.len_bytes,
            status,
            cid: cqe.cid(),
        });
        Ok(())
    }

    /// Stops the queue for good, and returns the reason for which it stopped first.
    #[cold]
    pub fn wedge(&mut self, reason: Wedge) -> Wedge {
        self.slots.close();
        *self.wedge.get_or_insert(reason)
    }

    /// Why the queue stopped, if it did.
    #[must_use]
    pub fn wedged(&self) -> Option<Wedge> {
        self.wedge
    }

    /// The queue's identifier.
    #[must_use]
    pub fn qid(&self) -> Qid {
        self.qid
    }

    /// Commands that may be outstanding at once.
    #[must_use]
    pub fn slots(&self) -> u16 {
        self.slots.count()
    }

    /// Commands staged or outstanding.
    #[inline]
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.attachments.outstanding
    }

    /// The commands that the device has not completed, for a report.
    pub fn in_flight(&self) -> impl Iterator<Item = InFlight> {
        self.slots.outstanding().map(|(cid, slot)| InFlight {
            cid,
            cookie: slot.cookie,
            len_bytes: slot.len_bytes,
            memory: (slot.memory != NO_MEMORY).then_some(slot.memory),
        })
    }

    /// What went through so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Lets go of a mapping, so that it can be undone. `None` when this queue never used it.
    ///
    /// # Errors
    ///
    /// [`Busy`] while a command that moves it is outstanding.
    pub fn detach(&mut self, mapped: &Mapped) -> Result<Option<Arc<Mapped>>, Busy> {
        if mapped.domain() != self.era.domain() {
            return Ok(None);
        }
        if self.slots.uses(mapped.index()) {
            return Err(Busy);
        }
        Ok(self.attachments.release(mapped.index()))
    }

    /// Forgets everything outstanding: nothing of it will be completed any more.
    ///
    /// # Errors
    ///
    /// The queue unchanged when the proof does not cover it.
    pub fn abandon(mut self, proof: &ugds_hal::Stopped) -> Result<P, Box<Self>> {
        if !proof.covers(self.era) {
            return Err(Box::new(self));
        }
        self.attachments.outstanding = 0;
        Ok(self.port)
    }

    /// Gives back the port of a queue with nothing outstanding.
    ///
    /// # Errors
    ///
    /// The queue unchanged while commands are outstanding.
    pub fn into_port(self) -> Result<P, Box<Self>> {
        if self.attachments.outstanding != 0 { Err(Box::new(self)) } else { Ok(self.port) }
    }

    #[cold]
    fn refusal(&self) -> SubmitError {
        match self.wedge {
            Some(wedge) => SubmitError::Wedged(wedge),
            None => SubmitError::Full { slots: self.slots.count() },
        }
    }

    #[cold]
    fn foreign(&self, mapped: &Mapped) -> SubmitError {
        SubmitError::ForeignMemory { memory: mapped.domain(), queue: self.era.domain() }
    }
}

impl<P> fmt::Debug for QueuePair<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("qid", &self.qid)
            .field("slots", &self.slots.count())
            .field("outstanding", &self.attachments.outstanding)
            .field("wedge", &self.wedge)
            .finish_non_exhaustive()
    }
}

/// A reserved slot. Dropped without being used, it is free again.
#[derive(Debug)]
pub struct Permit<'q, P> {
    queue: &'q mut QueuePair<P>,
}

impl<P: Port> Permit<'_, P> {
    /// Stages `io` under the caller's name `cookie`. The device learns of it when the queue is rung.
    ///
    /// # Errors
    ///
    /// [`SubmitError::ForeignMemory`]; nothing was staged.
    #[inline]
    pub fn stage(self, io: &Io<'_>, cookie: u64) -> Result<Ticket, SubmitError> {
        let queue = self.queue;
        let memory = match io.mapped() {
            None => NO_MEMORY,
            Some(mapped) if mapped.domain() != queue.era.domain() => return Err(queue.foreign(mapped)),
            Some(mapped) => {
                queue.attachments.hold(mapped);
                mapped.index()
            }
        };
        let Some(cid) = queue.slots.take(cookie, memory, io.len_bytes()) else {
            return Err(queue.refusal());
        };
        queue.port.stage(cid, io.command());
        queue.attachments.outstanding += 1;
        queue.staged += 1;
        if queue.staged >= MAX_STAGED {
            queue.ring();
        }
        Ok(Ticket(cid))
    }
}

/// The most completions of one pass, so that the device gets entries back while we look.
fn pass_limit(entries: u16) -> usize {
    usize::from(entries / 4).clamp(1, 128)
}

/// The device should not starve while commands are being built.
const MAX_STAGED: u32 = 32;
