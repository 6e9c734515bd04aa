//! One blocking request: one command, or many in flight; one answer.

use super::channel::Claim;
use super::core::Core;
use super::flight;
use super::near;
use super::record::Event;
use super::wait::wait_long;
use crate::Error;
use crate::error::{IoFailure, Operation};
use nvme_proto::{Lba, Status};
use std::sync::Arc;
use ugds_hal::{Backend, Direction as Access};
use ugds_mem::{Io, Mapped, MemError};
use ugds_queue::controller::Namespace;
use ugds_sched::{Class, Limits, Piece, Want};

/// Which way the data goes, from the caller's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
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
    #[inline]
    pub(super) fn run<B: Backend>(&self, core: &Core<B>) -> Result<(), Error> {
        core.begin()?;
        match self.limits.single(self.lba, self.len_bytes) {
            Some(len_bytes) if len_bytes <= core.scheduler().tuning().small_bytes => {
                self.run_one(core, len_bytes)
            }
            _ => flight::run(self, core),
        }
    }

    /// A small request is one command, with nothing to be kept beside it.
    #[inline(always)]
    fn run_one<B: Backend>(&self, core: &Core<B>, len_bytes: u32) -> Result<(), Error> {
        let piece = Piece { offset_bytes: 0, len_bytes, lba: self.lba };
        let scheduler = core.scheduler();
        let Some(placement) = scheduler.place_small(&self.want(), near::near(core.channels().len())) else {
            return flight::run(self, core);
        };
        let queue = placement.queue();
        near::remember(queue);
        let Some(claim) = self.submit(core, queue, &piece) else {
            scheduler.done(placement);
            // It waits for room, or finds out what is wrong.
            return flight::run(self, core);
        };
        let ended = match core.channel(queue).look_for(claim) {
            Some(status) => status,
            None => match wait_long(core, queue, claim, &mut None, &self.want()) {
                Ok(status) => status,
                Err(error) => {
                    scheduler.done(placement);
                    return Err(error);
                }
            },
        };
        scheduler.done(placement);
        if ended.is_success() { Ok(()) } else { Err(self.failed_alone(core, queue, piece, ended)) }
    }

    // A call: what it needs in registers is not what its caller does.
    #[inline(never)]
    fn submit<B: Backend>(&self, core: &Core<B>, queue: usize, piece: &Piece) -> Option<Claim> {
        core.channel(queue).submit(|| self.command(piece))
    }

    #[cold]
    fn failed_alone<B: Backend>(&self, core: &Core<B>, queue: usize, piece: Piece, status: Status) -> Error {
        core.note(Event::CommandFailed { qid: core.qid(queue), status });
        self.failed(piece, status)
    }

    /// The request as the scheduler sees it.
    #[inline]
    pub(super) fn want(&self) -> Want {
        match self.direction {
            Direction::Read => Want::read(self.len_bytes),
            Direction::Write => Want::write(self.len_bytes),
        }
        .class(Class::Sync)
    }

    /// The command of a piece.
    #[inline(always)]
    pub(super) fn command(&self, piece: &Piece) -> Result<Io<'a>, MemError> {
        let access = match self.direction {
            Direction::Read => Access::DeviceWrites,
            Direction::Write => Access::DeviceReads,
        };
        let transfer = self.mapped.transfer(self.offset + piece.offset_bytes, piece.len_bytes, access)?;
        let (nsid, format) = (self.namespace.nsid(), self.namespace.format());
        match self.direction {
            Direction::Read => Io::read(nsid, format, piece.lba, transfer),
            Direction::Write => Io::write(nsid, format, piece.lba, transfer),
        }
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
