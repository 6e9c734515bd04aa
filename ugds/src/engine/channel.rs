//! A queue pair that many threads share.

use super::cell::Cell;
use nvme_proto::{Cid, Qid, Status};
use std::fmt::Write;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use ugds_hal::Port;
use ugds_mem::{Io, Mapped};
use ugds_queue::{Busy, Counters, QueuePair, SubmitError, Wedge};

/// One queue pair behind a lock, and a cell for each command that somebody waits for.
///
/// The lock is held to stage and ring, or for one pass of reaping, never while waiting. Whoever waits reaps for
/// everybody.
pub(crate) struct Channel<P> {
    state: Mutex<State<P>>,
    cells: Box<[Cell]>,
    /// The cell released last, which is still in the cache.
    recent: AtomicU16,
}

struct State<P> {
    /// Nothing after the channel was closed.
    pair: Option<QueuePair<P>>,
    /// Cells that no command uses. Released ones are not among them until they are reclaimed.
    free: Vec<u16>,
}

/// A command that was submitted, until its outcome is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    cell: u16,
    cid: Cid,
}

impl Claim {
    /// The identifier under which the device knows the command.
    pub(crate) fn cid(self) -> Cid {
        self.cid
    }
}

/// Why a channel did not take a command.
#[derive(Debug)]
pub(crate) enum Refused {
    /// No slot or cell is free.
    Full,
    /// The channel was closed.
    Closed,
    /// The queue's own reason.
    Submit(SubmitError),
}

/// What a look at the completion queue brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// That many commands ended.
    Ended(usize),
    /// Somebody else is looking.
    Elsewhere,
    /// The channel was closed; nothing will end any more.
    Closed,
}

impl<P: Port> Channel<P> {
    pub(crate) fn new(pair: QueuePair<P>) -> Self {
        // Twice the slots: when no cell is left, at least half of them wait to be collected or reclaimed.
        let count = pair.slots() * 2;
        let free = (0..count).rev().collect();
        let cells = (0..count).map(|_| Cell::default()).collect();
        Self { state: Mutex::new(State { pair: Some(pair), free }), cells, recent: AtomicU16::new(0) }
    }

    /// Locks the queue for a burst of commands.
    pub(crate) fn burst(&self) -> Burst<'_, P> {
        Burst { state: self.lock(), channel: self }
    }

    /// The outcome of a command, once. The claim means nothing afterwards.
    #[inline]
    pub(crate) fn take(&self, claim: Claim) -> Option<Status> {
        let cell = &self.cells[usize::from(claim.cell)];
        let status = cell.outcome()?;
        cell.release();
        // Relaxed: a hint; `reclaim` decides.
        self.recent.store(claim.cell, Ordering::Relaxed);
        Some(status)
    }

    /// Makes one pass over the completion queue, unless somebody else is at it.
    #[inline]
    pub(crate) fn look(&self) -> Result<Look, Wedge> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => return Ok(Look::Elsewhere),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let Some(pair) = &mut state.pair else { return Ok(Look::Closed) };
        let completed = pair.reap()?;
        for done in completed {
            self.cells[done.cookie as usize].complete(done.status);
        }
        Ok(Look::Ended(completed.len()))
    }

    /// Stops the queue for good.
    #[cold]
    pub(crate) fn wedge(&self, reason: Wedge) {
        if let Some(pair) = &mut self.lock().pair {
            pair.wedge(reason);
        }
    }

    /// Lets go of a mapping.
    pub(crate) fn detach(&self, mapped: &Mapped) -> Result<(), Busy> {
        match &mut self.lock().pair {
            Some(pair) => pair.detach(mapped).map(drop),
            None => Ok(()),
        }
    }

    /// What went through so far, and how many commands are outstanding.
    pub(crate) fn counters(&self) -> Option<(Qid, Counters, u32)> {
        let state = self.lock();
        state.pair.as_ref().map(|pair| (pair.qid(), pair.counters(), pair.outstanding()))
    }

    /// Adds what is in flight to a report. A queue that somebody holds at the moment says only that.
    pub(super) fn describe(&self, qid: Qid, text: &mut String) {
        // Writing to a string does not fail.
        let Ok(state) = self.state.try_lock() else {
            let _ = writeln!(text, "queue {qid}: in use at the moment");
            return;
        };
        let Some(pair) = &state.pair else {
            let _ = writeln!(text, "queue {qid}: closed");
            return;
        };
        let (counters, outstanding) = (pair.counters(), pair.outstanding());
        let _ = writeln!(
            text,
            "queue {qid}: {outstanding} outstanding, {} submitted, {} completed, {} failed",
            counters.submitted, counters.completed, counters.failed
        );
        for command in pair.in_flight() {
            let memory =
                command.memory.map_or_else(|| "no memory".into(), |index| format!("mapping {index}"));
            let _ = writeln!(text, "  command {}: {} bytes, {memory}", command.cid, command.len_bytes);
        }
    }

    /// Locks the channel in order to close it.
    pub(crate) fn closing(&self) -> Closing<'_, P> {
        Closing { state: self.lock() }
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        // Nothing under the lock leaves the queue half-changed when it panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A channel that nobody else uses at the moment.
pub(crate) struct Closing<'c, P> {
    state: MutexGuard<'c, State<P>>,
}

impl<P: Port> Closing<'_, P> {
    /// Commands outstanding.
    pub(crate) fn outstanding(&self) -> u32 {
        self.state.pair.as_ref().map_or(0, QueuePair::outstanding)
    }

    /// Whether the queue stopped for good.
    pub(crate) fn is_wedged(&self) -> bool {
        self.state.pair.as_ref().is_some_and(|pair| pair.wedged().is_some())
    }

    /// Takes the queue pair out; the channel is closed then.
    pub(crate) fn close(mut self) -> Option<QueuePair<P>> {
        self.state.pair.take()
    }
}

/// The right to stage commands. Dropping it tells the device about them, with one doorbell.
pub(crate) struct Burst<'c, P: Port> {
    state: MutexGuard<'c, State<P>>,
    channel: &'c Channel<P>,
}

impl<P: Port> Burst<'_, P> {
    /// Stages one command.
    #[inline]
    pub(crate) fn stage(&mut self, io: &Io<'_>) -> Result<Claim, Refused> {
        let State { pair, free } = &mut *self.state;
        let permit = pair.as_mut().ok_or(Refused::Closed)?.permit()?;
        let cells = &self.channel.cells;
        let recent = self.channel.recent.load(Ordering::Relaxed);
        let cell = if cells[usize::from(recent)].reclaim() {
            recent
        } else {
            free.pop().or_else(|| sweep(cells, free)).ok_or(Refused::Full)?
        };
        match permit.stage(io, u64::from(cell)) {
            Ok(ticket) => {
                cells[usize::from(cell)].begin();
                Ok(Claim { cell, cid: ticket.cid() })
            }
            Err(error) => {
                free.push(cell);
                Err(error.into())
            }
        }
    }
}

impl<P: Port> Drop for Burst<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if let Some(pair) = &mut self.state.pair {
            pair.ring();
        }
    }
}

/// Puts the released cells back on the free list, and takes one.
#[cold]
fn sweep(cells: &[Cell], free: &mut Vec<u16>) -> Option<u16> {
    let released = cells.iter().zip(0..).filter(|(cell, _)| cell.reclaim());
    free.extend(released.map(|(_, index)| index));
    free.pop()
}

impl From<SubmitError> for Refused {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Full { .. } => Self::Full,
            other => Self::Submit(other),
        }
    }
}
