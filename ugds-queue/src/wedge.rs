//! Why a queue takes no more commands.

use nvme_proto::{Cid, Qid};
use ugds_hal::Violation;

/// The reason for which a queue stopped for good.
///
/// A wedged queue fails every submission. What was outstanding stays reserved until the device is proved to have
/// stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wedge {
    /// A completion carries an identifier that no outstanding command has: unknown, stale or duplicate.
    #[error("queue {qid}: the device completed command {cid}, which is not outstanding")]
    UnknownCid {
        /// The queue.
        qid: Qid,
        /// What the device said.
        cid: Cid,
    },
    /// The device broke the protocol of the rings.
    #[error(transparent)]
    Protocol(#[from] Violation),
    /// A command was not answered in time.
    #[error("queue {qid}: a command was not answered within {waited_ms} ms")]
    Timeout {
        /// The queue.
        qid: Qid,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The controller reports a fatal error (`CSTS.CFS`).
    #[error("the controller reports a fatal error (CSTS.CFS)")]
    ControllerFatal,
    /// The controller does not answer any more.
    #[error("the controller is gone: its registers read as all ones")]
    Gone,
}
