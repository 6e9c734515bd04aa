//! Why a queue does not take a command.

use crate::wedge::Wedge;
use ugds_hal::DomainId;

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Every slot is taken: reap first.
    #[error("all {slots} slots of the queue are in use")]
    Full {
        /// How many there are.
        slots: u16,
    },
    /// The queue stopped for good.
    #[error("the queue takes no more commands: {0}")]
    Wedged(#[source] Wedge),
    /// The command's memory is mapped for another device.
    #[error("the command's memory is mapped for another device ({memory:?}, this queue is of {queue:?})")]
    ForeignMemory {
        /// The memory's domain.
        memory: DomainId,
        /// The queue's domain.
        queue: DomainId,
    },
}
