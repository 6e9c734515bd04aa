//! What a caller of the facade can be told.

use crate::uri::UriError;
use nvme_proto::{Lba, Nsid, Status};
use std::fmt;
use ugds_hal::{emu, vfio};
use ugds_mem::MemError;
use ugds_queue::controller::ControllerError;
use ugds_queue::{Busy, SubmitError, Wedge};

/// An error of a device, a namespace or a region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device's name is wrong.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The backend is not part of this build.
    #[error("{scheme}: devices are not built into this version; emu: and vfio: devices are")]
    Backend {
        /// The URI's scheme.
        scheme: &'static str,
    },
    /// The emulated controller could not be made.
    #[error(transparent)]
    Emu(#[from] emu::ConfigError),
    /// The device could not be claimed by VFIO.
    #[error(transparent)]
    Vfio(#[from] vfio::VfioError),
    /// The controller failed to start, to answer an admin command, or to stop.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The controller granted no I/O queue.
    #[error("the controller granted no I/O queue")]
    NoQueues,
    /// There is no such namespace, or none that can be used.
    #[error("there is no usable namespace {wanted}; usable are: {usable}")]
    NoNamespace {
        /// What was asked for.
        wanted: String,
        /// What there is, or why there is none.
        usable: String,
    },
    /// The queues that were granted can't be scheduled.
    #[error(transparent)]
    Scheduler(#[from] ugds_sched::SchedulerError),
    /// A namespace's limits contradict each other.
    #[error(transparent)]
    Limits(#[from] ugds_sched::LimitsError),
    /// Memory can't be had, mapped, or used that way.
    #[error(transparent)]
    Memory(#[from] MemError),
    /// The memory is in use.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The memory is in others' hands.
    #[error("the memory is in use by {uses} exports or RDMA registrations; drop these first")]
    Exported {
        /// How many.
        uses: usize,
    },
    /// The region has clones.
    #[error("{clones} other clones of the region exist")]
    Cloned {
        /// How many.
        clones: usize,
    },
    /// The device still has work.
    #[error("{outstanding} commands are outstanding")]
    Outstanding {
        /// How many.
        outstanding: u32,
    },
    /// A length or an offset does not fit the namespace's blocks.
    #[error("{what} {value} is not a multiple of {multiple} bytes")]
    Alignment {
        /// Which value.
        what: &'static str,
        /// The value in bytes.
        value: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// The blocks do not lie within the namespace.
    #[error("{blocks} blocks from LBA {lba} on do not lie within namespace {nsid} of {capacity} blocks")]
    BlockRange {
        /// The namespace.
        nsid: Nsid,
        /// The first block.
        lba: Lba,
        /// How many.
        blocks: u64,
        /// How many there are.
        capacity: u64,
    },
    /// The range of bytes is none.
    #[error("bytes {start}..{end} are no range of a region of {region_bytes} bytes")]
    ByteRange {
        /// Its start.
        start: usize,
        /// Its end.
        end: usize,
        /// The region's length.
        region_bytes: usize,
    },
    /// The region was registered with another device.
    #[error("the region belongs to another device")]
    ForeignRegion,
    /// The namespace is another device's.
    #[error("namespace {nsid} belongs to another device than the batch")]
    ForeignNamespace {
        /// The namespace.
        nsid: Nsid,
    },
    /// The operating system gave no descriptor to wait on.
    #[error("no descriptor to wait on could be made: {0}; raise the limit of open files")]
    Descriptor(#[source] std::io::Error),
    /// A batch can't have that many entries.
    #[error("a batch of {depth} entries is not possible; 1 to {most} are accepted")]
    BatchDepth {
        /// What was asked for.
        depth: usize,
        /// The most.
        most: usize,
    },
    /// The batch has no entry left.
    #[error("all {depth} entries of the batch are in use; harvest some first")]
    BatchFull {
        /// How many there are.
        depth: usize,
    },
    /// The entry was cancelled before the device was given all of it.
    #[error("the entry was cancelled")]
    Cancelled,
    /// The device answered with an error.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The device can't be used any more.
    #[error("the device can't be used any more: {0}")]
    Wedged(#[from] Wedge),
    /// A command could not be submitted.
    #[error(transparent)]
    Submit(SubmitError),
    /// The device was closed.
    #[error("the device was closed")]
    Closed,
    /// This process was forked from the one that opened the device.
    #[error("the device was opened by the parent of this process; open it here to use it here")]
    Forked,
}

impl From<SubmitError> for Error {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Wedged(wedge) => Self::Wedged(wedge),
            other => Self::Submit(other),
        }
    }
}

/// What a command was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Move data to memory.
    Read,
    /// Move data to the namespace.
    Write,
    /// Make written data durable.
    Flush,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
        })
    }
}

/// A command that the device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{operation} of {len_bytes} bytes at LBA {lba} of namespace {nsid} failed after {done_bytes} bytes: {status}"
)]
pub struct IoFailure {
    /// What it was to do.
    pub operation: Operation,
    /// The namespace.
    pub nsid: Nsid,
    /// Its first block.
    pub lba: Lba,
    /// Its length.
    pub len_bytes: u32,
    /// The bytes of the request before this command, all of them done.
    pub done_bytes: u64,
    /// The device's answer.
    pub status: Status,
}
