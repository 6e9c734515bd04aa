//! A queue pair with one owner.

use crate::attachments::{Attachments, Busy, Foreign};
use crate::error::SubmitError;
use crate::outcome::{Completed, Counters, InFlight};
use crate::slots::{Generations, NO_MEMORY, Slots};
use crate::wedge::Wedge;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use nvme_proto::{Cid, Qid};
use ugds_hal::{Command, Era, Port, Violation};
use ugds_mem::{Io, ListPage, ListPool, ListedIo, Mapped};

/// A submission queue and its completion queue, used through `&mut`: no lock, no atomic read-modify-write, no
/// allocation once each region has been used.
///
/// A command goes the way reserve ([`permit`](Self::permit)), stage ([`Permit::stage`]), [`ring`](Self::ring), and
/// comes back from [`reap`](Self::reap). At most 32 commands stay staged; the next one rings.
pub struct QueuePair<P> {
    port: P,
    attachments: Attachments,
    /// How many more commands may be staged until the device is told.
    room: u16,
    rings: u64,
    completed: u64,
    failed: u64,
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

impl<P: Port> QueuePair<P> {
    /// Wraps a port that was opened in `era`.
    #[must_use]
    pub fn new(port: P, qid: Qid, era: Era, generations: Generations) -> Self {
        Self {
            attachments: Attachments::new(
                era.domain(),
                Slots::new(port.entries().saturating_sub(1), generations),
            ),
            room: MAX_STAGED,
            rings: 0,
            completed: 0,
            failed: 0,
            port,
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
        if self.attachments.slots.has_free() { Ok(Permit { queue: self }) } else { Err(self.refusal()) }
    }

    /// Stages `io` under the caller's name `cookie`. The device learns of it when the queue is rung.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]; nothing was staged.
    #[inline(always)]
    pub fn submit(&mut self, io: &Io<'_>, cookie: u64) -> Result<Ticket, SubmitError> {
        let memory = match io.mapped() {
            None => NO_MEMORY,
            Some(mapped) => {
                if !self.attachments.holds(mapped) {
                    self.hold(mapped)?;
                }
                mapped.index()
            }
        };
        self.stage(io.command(), memory, io.len_bytes(), cookie).ok_or_else(|| self.refusal())
    }

    /// The same without a reason, for loops that are to be tight: whoever wants to know it asks [`submit`](Self::submit).
    #[inline(always)]
    #[must_use = "the ticket says which completion is this command's"]
    pub fn try_submit(&mut self, io: &Io<'_>, cookie: u64) -> Option<Ticket> {
        let memory = match io.mapped() {
            None => NO_MEMORY,
            Some(mapped) => {
                if !self.attachments.holds(mapped) && self.hold(mapped).is_err() {
                    return None;
                }
                mapped.index()
            }
        };
        self.stage(io.command(), memory, io.len_bytes(), cookie)
    }

    /// The same for a command with a list of its own, whose page stays until the command has completed.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]; nothing was staged, and the page went back to its pool.
    #[inline]
    pub fn submit_listed(&mut self, io: ListedIo<'_>, cookie: u64) -> Result<Ticket, SubmitError> {
        let mapped = io.mapped();
        if !self.attachments.holds(mapped) {
            self.hold(mapped)?;
        }
        let staged = self.stage(&io.command(), mapped.index(), io.len_bytes(), cookie);
        let ticket = staged.ok_or_else(|| self.refusal())?;
        self.attachments.keep(ticket.0, io.into_page());
        Ok(ticket)
    }

    /// Takes a page for a list. When the pool has none left, those of this queue's commands that have completed are
    /// given back first; other queues' are not, so each queue should have a pool of its own.
    #[inline]
    #[must_use]
    pub fn list_page(&mut self, pool: &ListPool) -> Option<ListPage> {
        pool.take().or_else(|| {
            self.attachments.sweep_lists();
            pool.take()
        })
    }

    /// Before the first command that moves its memory. Of the command nothing is passed on: what is passed by reference
    /// could not stay in registers on the way of all others.
    #[cold]
    #[inline(never)]
    fn hold(&mut self, mapped: &Arc<Mapped>) -> Result<(), SubmitError> {
        self.attachments.hold(mapped).map_err(|Foreign| self.foreign(mapped))
    }

    #[inline(always)]
    fn stage(&mut self, command: &Command<'_>, memory: u32, len_bytes: u32, cookie: u64) -> Option<Ticket> {
        let cid = self.attachments.slots.take(cookie, memory, len_bytes)?;
        self.port.stage(cid, command);
        self.room -= 1;
        if self.room == 0 {
            self.ring_in_between();
        }
        Some(Ticket(cid))
    }

    /// Out of the way of the other 31 commands.
    #[cold]
    fn ring_in_between(&mut self) {
        self.ring();
        self.room = MAX_STAGED;
    }

    /// Lets commands of one mapping be staged in a row: that it is this queue's to move is looked up once. `None` when it
    /// is not.
    #[inline(always)]
    pub fn row<'q>(&'q mut self, mapped: &'q Arc<Mapped>) -> Option<Row<'q, P>> {
        let held = self.attachments.holds(mapped) || self.hold(mapped).is_ok();
        // INVARIANT: held, and it stays so while the queue is borrowed.
        held.then_some(Row { queue: self, mapped })
    }

    /// Changes the caller's name of a command that is staged or outstanding. Another's is left alone.
    pub fn rename(&mut self, cid: Cid, cookie: u64) {
        self.attachments.slots.rename(cid, cookie);
    }

    /// Tells the device about everything staged.
    #[inline(always)]
    pub fn ring(&mut self) {
        if self.port.publish() {
            self.room = MAX_STAGED;
            self.rings += 1;
        }
    }

    /// Hands the completions that are there to `each`, at most a quarter of the ring or 128, and returns how many they
    /// were. 0 means that there were none.
    ///
    /// `each` runs before the device gets its entries back, so it should be short.
    ///
    /// # Errors
    ///
    /// [`Wedge`] when the device broke the protocol, now or before. Completions that were handed out before that was
    /// noticed stand: each carried the identifier of a command that was outstanding.
    #[inline]
    pub fn reap(&mut self, mut each: impl FnMut(Completed<'_>)) -> Result<usize, Wedge> {
        if let Some(wedge) = self.wedge {
            return Err(wedge);
        }
        let failed = &mut self.failed;
        let mut slots = self.attachments.slots.retiring();
        let (count, passed) = self.port.pass(|reaped| {
            let Some(slot) = slots.retire(reaped.tag()) else { return Err(Broken::Cid(reaped.cid())) };
            if !reaped.status().is_success() {
                *failed += 1;
            }
            each(Completed { cookie: slot.cookie, len_bytes: slot.len_bytes, reaped });
            Ok(())
        });
        slots.finish();
        self.completed += count as u64;
        match passed {
            Ok(()) => Ok(count),
            Err(broken) => Err(self.broken(broken)),
        }
    }

    /// Hands out the next completion if it is there, and returns whether it was: the short way for a caller with one
    /// command at a time.
    ///
    /// # Errors
    ///
    /// As [`reap`](Self::reap).
    #[inline(always)]
    pub fn reap_one(&mut self, each: impl FnOnce(Completed<'_>)) -> Result<bool, Wedge> {
        if let Some(wedge) = self.wedge {
            return Err(wedge);
        }
        let (failed, completed) = (&mut self.failed, &mut self.completed);
        let slots = &mut self.attachments.slots;
        let found = self.port.one(|reaped| {
            let Some(slot) = slots.retire(reaped.tag()) else { return Err(Broken::Cid(reaped.cid())) };
            *completed += 1;
            if !reaped.status().is_success() {
                *failed += 1;
            }
            each(Completed { cookie: slot.cookie, len_bytes: slot.len_bytes, reaped });
            Ok(())
        });
        found.map_err(|broken| self.broken(broken))
    }

    #[cold]
    fn broken(&mut self, broken: Broken) -> Wedge {
        self.wedge(match broken {
            Broken::Cid(cid) => Wedge::UnknownCid { qid: self.qid, cid },
            Broken::Protocol(violation) => violation.into(),
        })
    }

    /// Stops the queue for good, and returns the reason for which it stopped first.
    #[cold]
    pub fn wedge(&mut self, reason: Wedge) -> Wedge {
        self.attachments.slots.close();
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
        self.attachments.slots.count()
    }

    /// Commands staged or outstanding. They are counted, so this is for reports and for closing.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.attachments.slots.outstanding().count() as u32
    }

    /// The commands that the device has not completed, for a report.
    pub fn in_flight(&self) -> impl Iterator<Item = InFlight> {
        self.attachments.slots.outstanding().map(|(cid, slot)| InFlight {
            cid,
            cookie: slot.cookie,
            len_bytes: slot.len_bytes,
            memory: (slot.memory != NO_MEMORY).then_some(slot.memory),
        })
    }

    /// What went through so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            submitted: self.completed + u64::from(self.outstanding()),
            completed: self.completed,
            failed: self.failed,
            rings: self.rings,
        }
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
        if self.attachments.slots.uses(mapped.index()) {
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
        self.attachments.slots.forget();
        Ok(self.port)
    }

    /// Gives back the port of a queue with nothing outstanding.
    ///
    /// # Errors
    ///
    /// The queue unchanged while commands are outstanding.
    pub fn into_port(self) -> Result<P, Box<Self>> {
        if self.outstanding() != 0 { Err(Box::new(self)) } else { Ok(self.port) }
    }

    #[cold]
    fn refusal(&self) -> SubmitError {
        match self.wedge {
            Some(wedge) => SubmitError::Wedged(wedge),
            None => SubmitError::Full { slots: self.attachments.slots.count() },
        }
    }

    #[cold]
    fn foreign(&self, mapped: &Mapped) -> SubmitError {
        SubmitError::ForeignMemory { memory: mapped.domain(), queue: self.era.domain() }
    }
}

impl<P: Port> fmt::Debug for QueuePair<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("qid", &self.qid)
            .field("slots", &self.attachments.slots.count())
            .field("outstanding", &self.outstanding())
            .field("wedge", &self.wedge)
            .finish_non_exhaustive()
    }
}

/// A reserved slot. Dropped without being used, it is free again.
#[derive(Debug)]
pub struct Permit<'q, P: Port> {
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
        self.queue.submit(io, cookie)
    }
}

/// Commands of one mapping, staged in a row.
///
/// # Invariants
///
/// The queue holds the mapping.
#[derive(Debug)]
pub struct Row<'q, P: Port> {
    queue: &'q mut QueuePair<P>,
    mapped: &'q Arc<Mapped>,
}

impl<P: Port> Row<'_, P> {
    /// As [`QueuePair::try_submit`], for commands that move this very mapping. `None` for others, too.
    #[inline(always)]
    #[must_use = "the ticket says which completion is this command's"]
    pub fn try_submit(&mut self, io: &Io<'_>, cookie: u64) -> Option<Ticket> {
        let memory = match io.mapped() {
            Some(mapped) if core::ptr::eq(mapped, self.mapped) => mapped.index(),
            _ => return None,
        };
        self.queue.stage(io.command(), memory, io.len_bytes(), cookie)
    }
}

/// What ends a pass. It is small, so that it costs the passes that end well nothing.
#[derive(Clone, Copy)]
enum Broken {
    Cid(Cid),
    Protocol(Violation),
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Self {
        Self::Protocol(violation)
    }
}

/// The device should not starve while commands are being built.
const MAX_STAGED: u16 = 32;
