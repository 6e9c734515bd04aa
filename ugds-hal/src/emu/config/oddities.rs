//! Ways in which a controller misbehaves around bring-up.

use core::time::Duration;

/// Misbehaviour as data. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// `CSTS.RDY` never becomes 1.
    pub never_ready: bool,
    /// `CSTS.CFS` is set instead of `CSTS.RDY`.
    pub cfs_on_enable: bool,
    /// The device is gone from the start: all registers read as all ones.
    pub gone: bool,
    /// The device is gone after so many register reads.
    pub gone_after_register_reads: Option<u64>,
    /// The time from `CC.EN = 1` to `CSTS.RDY = 1`.
    pub ready_delay: Duration,
    /// The time from `CC.EN = 0` to `CSTS.RDY = 0`, during which commands are still executed.
    pub disable_delay: Duration,
    /// The time that a shutdown takes.
    pub shutdown_delay: Duration,
    /// `CSTS.SHST` never says that the shutdown is complete.
    pub shutdown_never_completes: bool,
    /// Submission and completion queues that are granted, when not as many as there are.
    pub grant_queues: Option<(u16, u16)>,
    /// Set Features of Number of Queues fails.
    pub refuse_number_of_queues: bool,
}
