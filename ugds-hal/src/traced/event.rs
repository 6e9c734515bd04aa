//! What happened to a command, and how it lies in a ring.

use crate::Instant;
use crate::observed::About;
use nvme_proto::{Cid, Lba, Nsid, Qid, Status};

/// Something that happened to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When.
    pub at: Instant,
    /// The queue.
    pub qid: Qid,
    /// The identifier of the command. It is used again when the command has completed.
    pub cid: Cid,
    /// What the command is about. For a [`Step::Stray`], whatever is zero.
    pub about: About,
    /// What happened.
    pub step: Step,
}

/// A step in the life of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// It was stored in its ring.
    Staged,
    /// The doorbell tells the device about it.
    Published,
    /// Its completion was seen, with this status.
    Completed(Status),
    /// A completion was seen, with this status, that belongs to no command that the device was told about.
    Stray(Status),
}

/// An event as it lies in a ring.
pub(super) type Words = [u64; 4];

impl Event {
    pub(super) fn new(at: Instant, qid: Qid, cid: Cid, about: About, step: Step) -> Self {
        Self { at, qid, cid, about, step }
    }

    #[inline]
    pub(super) fn to_words(self) -> Words {
        let (kind, status) = match self.step {
            Step::Staged => (STAGED, 0),
            Step::Published => (PUBLISHED, 0),
            Step::Completed(status) => (COMPLETED, status.to_field(false)),
            Step::Stray(status) => (STRAY, status.to_field(false)),
        };
        let what = u64::from(self.cid.0)
            | u64::from(status) << 16
            | u64::from(self.about.opcode) << 32
            | u64::from(kind) << 40;
        let range = u64::from(self.about.nsid.0) | u64::from(self.about.blocks) << 32;
        [self.at.0, what, range, self.about.slba.0]
    }

    /// The queue is the ring's.
    pub(super) fn of_words(qid: Qid, [at, what, range, slba]: Words) -> Self {
        let status = Status::from_field((what >> 16) as u16);
        let step = match (what >> 40) as u8 {
            STAGED => Step::Staged,
            PUBLISHED => Step::Published,
            COMPLETED => Step::Completed(status),
            _ => Step::Stray(status),
        };
        let about = About::new((what >> 32) as u8, Nsid(range as u32), Lba(slba), (range >> 32) as u32);
        Self { at: Instant(at), qid, cid: Cid(what as u16), about, step }
    }
}

const STAGED: u8 = 0;
const PUBLISHED: u8 = 1;
const COMPLETED: u8 = 2;
const STRAY: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_event_comes_out_of_its_words(
            (at, slba) in any::<(u64, u64)>(),
            (cid, qid, opcode, field) in any::<(u16, u16, u8, u16)>(),
            (nsid, blocks) in any::<(u32, u32)>(),
            kind in 0..4,
        ) {
            let status = Status::from_field(field & !1);
            let step =
                [Step::Staged, Step::Published, Step::Completed(status), Step::Stray(status)][kind as usize];
            let about = About::new(opcode, Nsid(nsid), Lba(slba), blocks);
            let event = Event::new(Instant(at), Qid(qid), Cid(cid), about, step);
            prop_assert_eq!(Event::of_words(Qid(qid), event.to_words()), event);
        }
    }
}
