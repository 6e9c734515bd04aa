//! One request of a batch.

use crate::engine::request::Direction;
use crate::error::Error;
use nvme_proto::{Cid, Lba, Status};
use ugds_hal::Instant;
use ugds_sched::Piece;

/// What the owner of a batch asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) cookie: u64,
    pub(crate) kind: Kind,
    /// The index of the memory, as [`Held`](super::held::Held) has it.
    pub(crate) memory: u32,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) lba: Lba,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Read,
    Write,
    Flush,
}

/// What is to be done at which namespace, in one word: a loop over many that are alike compares it once each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(u32);

impl Kind {
    /// At the namespace with the number `ordinal` at its device.
    #[inline(always)]
    pub(crate) fn new(what: What, ordinal: u16) -> Self {
        Self(u32::from(ordinal) << 8 | what as u32)
    }

    #[inline]
    pub(crate) fn what(self) -> What {
        match self.0 as u8 {
            READ => What::Read,
            WRITE => What::Write,
            _ => What::Flush,
        }
    }

    #[inline]
    pub(crate) fn namespace(self) -> u16 {
        (self.0 >> 8) as u16
    }
}

const READ: u8 = What::Read as u8;
const WRITE: u8 = What::Write as u8;

impl From<Direction> for What {
    #[inline]
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Read => Self::Read,
            Direction::Write => Self::Write,
        }
    }
}

/// A request, and where it stands. One cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    pub(super) order: Order,
    /// The next that is free, of one that is free.
    pub(super) next_free: u32,
    /// When its only command was launched.
    pub(super) since: Instant,
    /// Where its only command is.
    pub(super) queue: u16,
    pub(super) cid: Cid,
    pub(super) status: Status,
    pub(super) state: State,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is none.
    Free,
    /// The device was not given all of it.
    Queued,
    /// The device was given all of it.
    Flying,
    /// It ended, with the entry's status.
    Done,
    /// A command of several failed; the rest is in [`Rare`].
    Failed,
    /// It was cancelled before the device was given all of it.
    Cancelled,
    /// The device was given up or closed.
    Lost,
    /// A command of it could not be made; the reason is in [`Rare`].
    Refused,
}

/// What most requests have no use for.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// Commands outstanding, of a request that has several.
    pub(super) flying: u32,
    /// The bytes from the start that commands were launched for.
    pub(super) launched_bytes: u64,
    /// The failure that lies nearest to the start.
    pub(super) failure: Option<(Piece, Status)>,
    /// Why a command could not be made.
    pub(super) refused: Option<Box<Error>>,
}

impl Entry {
    pub(super) fn free(next_free: u32) -> Self {
        let order = Order {
            cookie: 0,
            kind: Kind::new(What::Flush, 0),
            memory: 0,
            offset: 0,
            len_bytes: 0,
            lba: Lba(0),
        };
        Self {
            order,
            next_free,
            since: Instant(0),
            queue: 0,
            cid: Cid::NONE,
            status: Status::from_field(0),
            state: State::Free,
        }
    }
}

impl Rare {
    /// Keeps a failure, if it lies nearer to the start than the one before.
    #[cold]
    pub(super) fn fail(&mut self, piece: Piece, status: Status) {
        if self.failure.is_none_or(|(other, _)| piece.offset_bytes <= other.offset_bytes) {
            self.failure = Some((piece, status));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }
}
