//! What a driver did that the specification does not allow, beyond what a status says.

use core::fmt;
use nvme_proto::register::DoorbellKind;
use nvme_proto::{Cid, Qid};

/// A breach of the protocol by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// A doorbell was rung that belongs to no queue.
    DoorbellWithoutQueue {
        /// The queue identifier.
        qid: Qid,
        /// Which doorbell.
        kind: DoorbellKind,
    },
    /// A doorbell was rung while the controller was not ready.
    DoorbellNotReady {
        /// The queue identifier.
        qid: Qid,
    },
    /// A doorbell got a value that is out of range, that it had already, or that runs past the other end.
    DoorbellValue {
        /// The queue identifier.
        qid: Qid,
        /// Which doorbell.
        kind: DoorbellKind,
        /// The value.
        value: u32,
    },
    /// A doorbell register and its shadow disagree.
    ShadowDiffers {
        /// The queue identifier.
        qid: Qid,
        /// What the register got.
        register: u32,
        /// What the shadow holds.
        shadow: u32,
    },
    /// `CC.EN` was cleared before `CSTS.RDY` was 1.
    DisabledBeforeReady,
    /// `CC.EN` was set while `CSTS.RDY` was still 1.
    EnabledBeforeIdle,
    /// `CC` fields, `AQA`, `ASQ` or `ACQ` were changed while the controller was enabled.
    ChangedWhileEnabled {
        /// The register.
        offset: u32,
    },
    /// A read-only or reserved register was written.
    ReadOnlyRegister {
        /// The register.
        offset: u32,
    },
    /// A command was submitted under an identifier that is outstanding on the queue.
    CommandIdInUse {
        /// The queue.
        qid: Qid,
        /// The identifier.
        cid: Cid,
    },
    /// A command carried the identifier FFFFh, which means "none" in the error log.
    CommandIdReserved {
        /// The queue.
        qid: Qid,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoorbellWithoutQueue { qid, kind } => {
                write!(f, "{kind:?} doorbell of queue {qid}, which is none")
            }
            Self::DoorbellNotReady { qid } => write!(f, "doorbell of queue {qid} while not ready"),
            Self::DoorbellValue { qid, kind, value } => {
                write!(f, "{kind:?} doorbell of queue {qid} got the invalid value {value}")
            }
            Self::ShadowDiffers { qid, register, shadow } => {
                write!(f, "queue {qid}: doorbell {register} but shadow {shadow}")
            }
            Self::DisabledBeforeReady => f.write_str("EN was cleared before RDY was 1"),
            Self::EnabledBeforeIdle => f.write_str("EN was set before RDY was 0"),
            Self::ChangedWhileEnabled { offset } => {
                write!(f, "register {offset:#x} was changed while enabled")
            }
            Self::ReadOnlyRegister { offset } => write!(f, "read-only register {offset:#x} was written"),
            Self::CommandIdReserved { qid } => write!(f, "queue {qid}: a command is called ffffh"),
            Self::CommandIdInUse { qid, cid } => write!(f, "queue {qid}: {cid} is outstanding already"),
        }
    }
}
