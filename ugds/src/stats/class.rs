//! Counters by what commands are for.

use super::{QueueStats, Stats};
use std::fmt;
use ugds_hal::Histogram;

/// What a queue, or a command, is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum QueueClass {
    /// Blocking calls.
    Sync,
    /// Batches.
    Batch,
    /// Both: there are too few queues to part them, or [`Classes::Shared`](crate::Classes::Shared) was chosen.
    #[default]
    Shared,
    /// Flushes and the like, which move no data. They share a queue with others.
    Control,
}

impl QueueClass {
    /// Its name: `sync`, `batch`, `shared`, `control`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Batch => "batch",
            Self::Shared => "shared",
            Self::Control => "control",
        }
    }
}

impl fmt::Display for QueueClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Counters of the commands of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class.
    pub class: QueueClass,
    /// Commands that came back.
    pub completed: u64,
    /// Commands that came back with an error.
    pub failed: u64,
    /// Bytes moved by commands that came back without one.
    pub bytes: u64,
    /// Commands outstanding now on the queues of the class; those of [`QueueClass::Control`] are counted with their
    /// neighbours.
    pub outstanding: u32,
    /// Their latencies, where they are measured.
    pub latency: Option<Histogram>,
}

impl Stats {
    /// The counters by class, those of which there is a queue or a command.
    ///
    /// Which class a command has is told by its queue; that it moves no data is known where latencies are measured.
    /// Elsewhere flushes count for the class of their queue.
    #[must_use]
    pub fn classes(&self) -> Vec<ClassStats> {
        let mut classes: Vec<ClassStats> = Vec::new();
        for queue in &self.queues {
            let control = queue.measured.as_ref().map_or(0, |measured| measured.control.count());
            add(&mut classes, queue, control);
            if let Some(measured) = queue.measured.as_ref().filter(|_| control != 0) {
                let class = entry(&mut classes, QueueClass::Control);
                class.completed = class.completed.saturating_add(control);
                class.failed = class.failed.saturating_add(measured.control_failed);
                class.latency.get_or_insert_default().merge(&measured.control);
            }
        }
        classes.sort_by_key(|class| class.class);
        classes
    }
}

/// Adds a queue, without its `control` commands, to its class.
fn add(classes: &mut Vec<ClassStats>, queue: &QueueStats, control: u64) {
    let class = entry(classes, queue.class);
    // What is measured is read a moment later than what is counted.
    class.completed = class.completed.saturating_add(queue.completed.saturating_sub(control));
    class.bytes = class.bytes.saturating_add(queue.bytes);
    class.outstanding = class.outstanding.saturating_add(queue.outstanding);
    let failed = match &queue.measured {
        None => queue.failed,
        Some(measured) => {
            class.latency.get_or_insert_default().merge(&measured.data);
            queue.failed.saturating_sub(measured.control_failed)
        }
    };
    class.failed = class.failed.saturating_add(failed);
}

fn entry(classes: &mut Vec<ClassStats>, class: QueueClass) -> &mut ClassStats {
    let at = classes.iter().position(|known| known.class == class).unwrap_or_else(|| {
        classes.push(ClassStats { class, completed: 0, failed: 0, bytes: 0, outstanding: 0, latency: None });
        classes.len() - 1
    });
    &mut classes[at]
}
