//! What goes wrong, and when: plain data.

use super::error::FaultPlanError;
use core::time::Duration;
use nvme_proto::{Lba, Qid, Status};

/// What is to go wrong. The default is nothing.
///
/// Its text form is a list of faults with semicolons between them, each a name and values, such as
/// `drop-cqe:qid=1,nth=3; media:on=read,lba=100+8; slow-ready:by=2s`:
///
/// | fault | values of its own | what may select it |
/// |---|---|---|
/// | `fail` | `status=SCT/SC` in hexadecimal, with `+dnr` for Do Not Retry | `qid`, `opcode`, `lba`, `nth`, `after` |
/// | `media` | `on=read` or `on=write` | `qid`, `lba`, `nth`, `after` |
/// | `drop-cqe`, `duplicate-cqe`, `corrupt-phase` | | as `fail` |
/// | `delay-cqe`, `late-data` | `by=TIME` | as `fail` |
/// | `corrupt-cid`, `corrupt-sqhd` | `xor=BITS` | as `fail` |
/// | `corrupt-status` | `status=SCT/SC` | as `fail` |
/// | `hang`, `cfs`, `gone` | | as `fail` |
/// | `slow-ready` | `by=TIME` | `nth`, `after` |
/// | `stuck-disable` | | `nth`, `after` |
///
/// Numbers are decimal, or hexadecimal after `0x`; times have a unit: `ns`, `us`, `ms`, `s`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The faults. Where several would change one completion, the first does.
    pub faults: Vec<Fault>,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub what: What,
    /// When.
    pub when: Trigger,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// `fail`: the command fails with this status, and the device never sees it.
    Fail(Status),
    /// `media`: as `fail`, of reads with Unrecovered Read Error or of writes with Write Fault.
    Media(Access),
    /// `drop-cqe`: the completion is lost.
    Drop,
    /// `delay-cqe`: the completion is seen later by this time.
    Delay(Duration),
    /// `duplicate-cqe`: the completion is seen twice.
    Duplicate,
    /// `corrupt-cid`: the completion's identifier is inverted in these bits.
    CorruptCid(u16),
    /// `corrupt-status`: the completion has this status, whatever the device did.
    CorruptStatus(Status),
    /// `corrupt-sqhd`: the completion's `SQHD` is inverted in these bits. Needs a model.
    CorruptSqhd(u16),
    /// `corrupt-phase`: the completion has the wrong phase tag. Needs a model.
    CorruptPhase,
    /// `late-data`: the data moves later than the completion by this time. Needs a model.
    LateData(Duration),
    /// `hang`: from then on no completion is seen, of the queue that the trigger names or of any, until a reset.
    Hang,
    /// `cfs`: from then on the controller reports a fatal error and does nothing, until a reset.
    Fatal,
    /// `gone`: from then on registers read as all ones, for good.
    Gone,
    /// `slow-ready`: `CSTS.RDY` becomes 1 only so long after the controller was enabled.
    SlowReady(Duration),
    /// `stuck-disable`: the controller takes no notice of being disabled, and `CSTS.RDY` stays 1.
    StuckDisable,
}

/// Which way a failing command moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// From the medium.
    Read,
    /// To the medium.
    Write,
}

/// When a fault happens: when all that is set here holds. The default holds always.
///
/// The faults that last ([`What::Hang`], [`What::Fatal`], [`What::Gone`]) begin when a command meets the trigger; or,
/// with no `opcode`, `blocks` or `nth`, by time alone, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// `qid`: the queue, 0 for the admin queue.
    pub qid: Option<Qid>,
    /// `opcode`: the command's.
    pub opcode: Option<u8>,
    /// `lba`: the command is an I/O command on any of these blocks.
    pub blocks: Option<Blocks>,
    /// `nth`: which of the commands that meet the rest; of `slow-ready` and `stuck-disable` which enabling or
    /// disabling. Without it, each.
    pub nth: Option<Nth>,
    /// `after`: the time since the backend was wrapped.
    pub after: Duration,
}

/// A place in a row, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// That one alone, written `3`.
    Only(u64),
    /// That one and all that follow, written `3+`.
    From(u64),
}

/// A run of blocks, written `FIRST+COUNT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first.
    pub first: Lba,
    /// How many.
    pub count: u64,
}

impl FaultPlan {
    /// A plan of one fault.
    #[must_use]
    pub fn of(what: What, when: Trigger) -> Self {
        Self { faults: vec![Fault { what, when }] }
    }

    /// The same with one more fault.
    #[must_use]
    pub fn and(mut self, what: What, when: Trigger) -> Self {
        self.faults.push(Fault { what, when });
        self
    }

    /// Checks that each fault can happen.
    ///
    /// # Errors
    ///
    /// [`FaultPlanError`] for a selection that a fault of that kind does not take, or a value that means nothing.
    pub fn validate(&self) -> Result<(), FaultPlanError> {
        self.faults.iter().try_for_each(Fault::validate)
    }
}

impl Trigger {
    /// The same for one queue.
    #[must_use]
    pub fn on(self, qid: u16) -> Self {
        Self { qid: Some(Qid(qid)), ..self }
    }

    /// The same for one opcode.
    #[must_use]
    pub fn opcode(self, opcode: u8) -> Self {
        Self { opcode: Some(opcode), ..self }
    }

    /// The same for the `n`-th alone.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        Self { nth: Some(Nth::Only(n)), ..self }
    }

    /// Whether it holds by time alone, without a command.
    pub(super) fn is_time(&self) -> bool {
        self.opcode.is_none() && self.blocks.is_none() && self.nth.is_none()
    }
}

impl Nth {
    pub(super) fn holds(self, count: u64) -> bool {
        match self {
            Self::Only(n) => count == n,
            Self::From(n) => count >= n,
        }
    }

    pub(super) fn number(self) -> u64 {
        match self {
            Self::Only(n) | Self::From(n) => n,
        }
    }
}

impl Blocks {
    pub(super) fn overlaps(self, first: u64, count: u64) -> bool {
        self.first.0 < first.saturating_add(count) && first < self.first.0.saturating_add(self.count)
    }
}
