//! What went through a device.

use nvme_proto::Qid;
use ugds_queue::Counters;

/// Counters of a device since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// One entry for each open I/O queue.
    pub queues: Vec<QueueStats>,
}

/// Counters of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue.
    pub qid: Qid,
    /// Commands given to the device.
    pub submitted: u64,
    /// Commands that came back.
    pub completed: u64,
    /// Commands that came back with an error.
    pub failed: u64,
    /// Bytes moved by commands that came back without one.
    pub bytes: u64,
    /// Times the submission doorbell was rung.
    pub doorbells: u64,
    /// Commands outstanding now.
    pub outstanding: u32,
}

impl QueueStats {
    pub(crate) fn new(qid: Qid, counters: Counters, bytes: u64, outstanding: u32) -> Self {
        Self {
            qid,
            submitted: counters.submitted,
            completed: counters.completed,
            failed: counters.failed,
            bytes,
            doorbells: counters.rings,
            outstanding,
        }
    }
}

impl Stats {
    /// The sum of one counter over all queues, such as `stats.total(|q| q.bytes)`.
    #[must_use]
    pub fn total(&self, counter: impl Fn(&QueueStats) -> u64) -> u64 {
        self.queues.iter().map(counter).sum()
    }
}
