//! One blocking request: one command, or many in flight; one answer.

use super::channel::Begun;
use super::core::Core;
use super::flight;
use super::near;
use super::record::Event;
use super::wait::wait_long;
use crate::Error;
use crate::error::{IoFailure, Operation};
use nvme_proto::{Lba, Nsid, Status};
use std::sync::Arc;
use ugds_hal::{Backend, Direction as Access};
use ugds_mem::{Format, Io, Mapped, MemError};
use ugds_queue::controller::Namespace;
use ugds_sched::{Class, Limits, Piece, Want};

/// Which way the data goes, from the caller's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A direction that is known where the code is made: what reads and writes have in common is little, and choosing in the
/// middle would keep all of it in memory.
pub(super) trait Way {
    const DIRECTION: Direction;
}

pub(super) struct Reads;

pub(super) struct Writes;

impl Way for Reads {
    const DIRECTION: Direction = Direction::Read;
}

impl Way for Writes {
    const DIRECTION: Direction = Direction::Write;
}

/// The command that moves `len_bytes` from `offset` of `mapped` on.
#[inline(always)]
pub(super) fn command<W: Way>(
    nsid: Nsid,
    format: Format,
    lba: Lba,
    mapped: &Arc<Mapped>,
    offset: u64,
    len_bytes: u32,
) -> Result<Io<'_>, MemError> {
    match W::DIRECTION {
        Direction::Read => {
            Io::read(nsid, format, lba, mapped.transfer(offset, len_bytes, Access::DeviceWrites)?)
        }
        Direction::Write => {
            Io::write(nsid, format, lba, mapped.transfer(offset, len_bytes, Access::DeviceReads)?)
        }
    }
}

/// The same, the shortest way, which is that of most memory; see [`Io::read_run`].
#[inline(always)]
pub(super) fn run_command<W: Way>(
    nsid: Nsid,
    format: Format,
    lba: Lba,
    mapped: &Arc<Mapped>,
    offset: u64,
    len_bytes: u32,
) -> Option<Io<'_>> {
    match W::DIRECTION {
        Direction::Read => Io::read_run(nsid, format, lba, mapped, offset, len_bytes),
        Direction::Write => Io::write_run(nsid, format, lba, mapped, offset, len_bytes),
    }
}

/// A validated request: the bytes of `mapped` from `offset` on, and as many blocks from `lba` on.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) limits: &'a Limits,
    pub(crate) mapped: &'a Arc<Mapped>,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) lba: Lba,
    pub(crate) direction: Direction,
}

impl<'a> Request<'a> {
    /// Carries the request out and returns when none of its commands is outstanding any more.
    ///
    /// This is the way of most: a small request is one command, and its caller's queue is idle. Whatever is not so is found out
    /// anew on the long way, so that nothing has to be kept for it.
    #[inline(always)]
    pub(super) fn run<B: Backend, W: Way>(&self, core: &Core<B>) -> Result<(), Error> {
        let near = near::last();
        if core.may_begin()
            && self.limits.single(self.lba, self.len_bytes).is_some()
            && core.scheduler().is_for(&self.want_of::<W>(), near)
            && let Some(channel) = core.channels().get(near)
        {
            match channel.submit::<W>(self) {
                Begun::Well => Ok(()),
                begun => self.go_on(core, near, begun),
            }
        } else {
            self.run_long(core)
        }
    }

    #[cold]
    #[inline(never)]
    fn run_long<B: Backend>(&self, core: &Core<B>) -> Result<(), Error> {
        core.begin()?;
        if self.limits.single(self.lba, self.len_bytes).is_none() {
            return flight::run(self, core);
        }
        let near = near::near(core.channels().len());
        let Some(placement) = core.scheduler().place_small(&self.want(), near) else {
            return flight::run(self, core);
        };
        let queue = placement.queue();
        near::remember(queue);
        let channel = core.channel(queue);
        let begun = match self.direction {
            Direction::Read => channel.submit::<Reads>(self),
            Direction::Write => channel.submit::<Writes>(self),
        };
        core.scheduler().done_small(placement);
        self.go_on(core, queue, begun)
    }

    /// What most requests don't come to: it takes longer, it failed, or there was no room for it.
    #[cold]
    #[inline(never)]
    fn go_on<B: Backend>(&self, core: &Core<B>, queue: usize, begun: Begun) -> Result<(), Error> {
        let status = match begun {
            Begun::Well => return Ok(()),
            Begun::Failed(status) => status,
            Begun::Flying(claim) => {
                // A hint to others from now on; a queue has no more commands than slots without it.
                let outstanding = core.scheduler().note_small(queue, self.len_bytes as u32);
                let ended = wait_long(core, queue, claim, &mut None, &self.want());
                core.scheduler().done_small(outstanding);
                ended?
            }
            // It waits for room, or finds out what is wrong.
            Begun::Not => return flight::run(self, core),
        };
        if status.is_success() { Ok(()) } else { Err(self.failed_alone(core, queue, status)) }
    }

    #[cold]
    fn failed_alone<B: Backend>(&self, core: &Core<B>, queue: usize, status: Status) -> Error {
        let piece = Piece { offset_bytes: 0, len_bytes: self.len_bytes as u32, lba: self.lba };
        core.note(Event::CommandFailed { qid: core.qid(queue), status });
        self.failed(piece, status)
    }

    /// The request as the scheduler sees it.
    #[inline]
    pub(super) fn want(&self) -> Want {
        match self.direction {
            Direction::Read => self.want_of::<Reads>(),
            Direction::Write => self.want_of::<Writes>(),
        }
    }

    #[inline(always)]
    fn want_of<W: Way>(&self) -> Want {
        let want = match W::DIRECTION {
            Direction::Read => Want::read(self.len_bytes),
            Direction::Write => Want::write(self.len_bytes),
        };
        want.class(Class::Sync)
    }

    /// The command of a piece.
    #[inline(always)]
    pub(super) fn command(&self, piece: &Piece) -> Result<Io<'a>, MemError> {
        match self.direction {
            Direction::Read => self.command_of::<Reads>(piece),
            Direction::Write => self.command_of::<Writes>(piece),
        }
    }

    /// The same where the direction is known.
    #[inline(always)]
    pub(super) fn command_of<W: Way>(&self, piece: &Piece) -> Result<Io<'a>, MemError> {
        self.command_at::<W>(piece.offset_bytes, piece.len_bytes, piece.lba)
    }

    /// The command of `len_bytes` from `offset_bytes` of the request on.
    #[inline(always)]
    pub(super) fn command_at<W: Way>(
        &self,
        offset_bytes: u64,
        len_bytes: u32,
        lba: Lba,
    ) -> Result<Io<'a>, MemError> {
        let (nsid, format) = (self.namespace.nsid(), self.namespace.format());
        command::<W>(nsid, format, lba, self.mapped, self.offset + offset_bytes, len_bytes)
    }

    #[cold]
    pub(super) fn failed(&self, piece: Piece, status: Status) -> Error {
        Error::Io(IoFailure {
            operation: match self.direction {
                Direction::Read => Operation::Read,
                Direction::Write => Operation::Write,
            },
            nsid: self.namespace.nsid(),
            lba: piece.lba,
            len_bytes: piece.len_bytes,
            done_bytes: piece.offset_bytes,
            status,
        })
    }
}
