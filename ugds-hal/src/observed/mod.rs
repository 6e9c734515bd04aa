//! A backend whose ports are watched: middleware around any other backend.
//!
//! An [`Observer`] gives each port of an [`Observed`] backend a [`Watch`], which hears of each command when it is
//! staged, when the doorbell tells the device about it, and when its completion is seen. [`traced`](crate::traced) and
//! [`metered`](crate::metered) are observers; a pair of observers is one, and so is an `Option`.
//!
//! What it costs: a look at a small table for each command when it is staged and when it is completed, and the clock is
//! read once for each doorbell and once for each pass that finds something; for a watch that wants the time of
//! staging, once more for the first command behind each doorbell. Nothing is allocated after a port was opened. A
//! backend that is not wrapped pays nothing.
//!
//! The static probes of [`probes`](crate::probes) are here, too.

mod backend;
mod flights;
mod port;

pub use backend::Observed;
pub use port::ObservedPort;

use crate::command::blocks_of;
use crate::{Instant, PortSpec};
use nvme_proto::{Cid, Lba, Nsid, Qid, Sqe, Status};

/// Gives each port of a backend somebody who watches it.
pub trait Observer: Clone + Send + Sync + 'static {
    /// Who watches a port.
    type Watch: Watch;

    /// Watches a port that is being opened.
    fn watch(&self, spec: &PortSpec) -> Self::Watch;

    /// What is said about the path of an observed device, such as `traced`.
    fn remark(&self) -> Option<&'static str>;
}

/// Watches one port. It is on the I/O path: nothing here allocates, locks or blocks.
pub trait Watch: Send + 'static {
    /// Whether the time of staging is worth a look at the clock.
    fn wants_time_of_staging(&self) -> bool;

    /// A command was staged. The clock is read for the first one behind a doorbell; the others have the time of the
    /// port's last look at it.
    fn staged(&mut self, at: Instant, cid: Cid, about: &About);

    /// The device is being told about a command that was staged.
    fn published(&mut self, at: Instant, cid: Cid, about: &About);

    /// The doorbell was rung for `commands` commands.
    fn rung(&mut self, commands: usize);

    /// The completion of a command was seen that the device had been told about.
    fn completed(&mut self, at: Instant, cid: Cid, status: Status, about: &About, rung_at: Instant);

    /// A completion was seen that belongs to no such command.
    fn stray(&mut self, at: Instant, cid: Cid, status: Status);

    /// A pass ended that found something.
    fn passed(&mut self);
}

/// What a command is about, as far as its entry says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct About {
    /// Its opcode, which means one thing on the admin queue and another elsewhere.
    pub opcode: u8,
    /// Its namespace.
    pub nsid: Nsid,
    /// The first of its blocks.
    pub slba: Lba,
    /// How many blocks. 0 for a command that names none.
    pub blocks: u32,
}

impl About {
    /// What `sqe` on queue `qid` is about.
    #[inline]
    #[must_use]
    pub fn of(qid: Qid, sqe: &Sqe) -> Self {
        let (slba, blocks) = blocks_of(qid, sqe).unwrap_or_default();
        Self { opcode: sqe.opcode, nsid: Nsid(sqe.nsid.get()), slba: Lba(slba), blocks: blocks as u32 }
    }

    pub(crate) fn new(opcode: u8, nsid: Nsid, slba: Lba, blocks: u32) -> Self {
        Self { opcode, nsid, slba, blocks }
    }
}

impl<O: Observer> Observer for Option<O> {
    type Watch = Option<O::Watch>;

    fn watch(&self, spec: &PortSpec) -> Self::Watch {
        self.as_ref().map(|observer| observer.watch(spec))
    }

    fn remark(&self) -> Option<&'static str> {
        self.as_ref().and_then(Observer::remark)
    }
}

impl<W: Watch> Watch for Option<W> {
    fn wants_time_of_staging(&self) -> bool {
        self.as_ref().is_some_and(Watch::wants_time_of_staging)
    }

    #[inline]
    fn staged(&mut self, at: Instant, cid: Cid, about: &About) {
        if let Some(watch) = self {
            watch.staged(at, cid, about);
        }
    }

    #[inline]
    fn published(&mut self, at: Instant, cid: Cid, about: &About) {
        if let Some(watch) = self {
            watch.published(at, cid, about);
        }
    }

    #[inline]
    fn rung(&mut self, commands: usize) {
        if let Some(watch) = self {
            watch.rung(commands);
        }
    }

    #[inline]
    fn completed(&mut self, at: Instant, cid: Cid, status: Status, about: &About, rung_at: Instant) {
        if let Some(watch) = self {
            watch.completed(at, cid, status, about, rung_at);
        }
    }

    fn stray(&mut self, at: Instant, cid: Cid, status: Status) {
        if let Some(watch) = self {
            watch.stray(at, cid, status);
        }
    }

    #[inline]
    fn passed(&mut self) {
        if let Some(watch) = self {
            watch.passed();
        }
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    type Watch = (A::Watch, B::Watch);

    fn watch(&self, spec: &PortSpec) -> Self::Watch {
        (self.0.watch(spec), self.1.watch(spec))
    }

    fn remark(&self) -> Option<&'static str> {
        self.0.remark().or_else(|| self.1.remark())
    }
}

impl<A: Watch, B: Watch> Watch for (A, B) {
    fn wants_time_of_staging(&self) -> bool {
        self.0.wants_time_of_staging() || self.1.wants_time_of_staging()
    }

    #[inline]
    fn staged(&mut self, at: Instant, cid: Cid, about: &About) {
        self.0.staged(at, cid, about);
        self.1.staged(at, cid, about);
    }

    #[inline]
    fn published(&mut self, at: Instant, cid: Cid, about: &About) {
        self.0.published(at, cid, about);
        self.1.published(at, cid, about);
    }

    #[inline]
    fn rung(&mut self, commands: usize) {
        self.0.rung(commands);
        self.1.rung(commands);
    }

    #[inline]
    fn completed(&mut self, at: Instant, cid: Cid, status: Status, about: &About, rung_at: Instant) {
        self.0.completed(at, cid, status, about, rung_at);
        self.1.completed(at, cid, status, about, rung_at);
    }

    fn stray(&mut self, at: Instant, cid: Cid, status: Status) {
        self.0.stray(at, cid, status);
        self.1.stray(at, cid, status);
    }

    #[inline]
    fn passed(&mut self) {
        self.0.passed();
        self.1.passed();
    }
}
