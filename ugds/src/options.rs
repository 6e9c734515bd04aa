//! What a caller may choose about a device.

use crate::stats::Statistics;
use std::time::Duration;
use ugds_hal::traced::Tracer;
use ugds_queue::{Generations, controller};
use ugds_sched::Settings;

/// How a device is brought up and driven. `Default` suits any controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// I/O queue pairs to ask for. The controller may grant fewer.
    pub queues: u16,
    /// Entries of each I/O ring, rounded down to what the controller takes and to a power of two.
    pub queue_entries: u16,
    /// How long an admin command may take.
    pub admin_timeout: Duration,
    /// How long an I/O command may take. Then it is aborted, and if that does not help, the device is stopped.
    pub io_timeout: Duration,
    /// The least time given to the controller to become ready or to stop, whatever `CAP.TO` says.
    pub ready_floor: Duration,
    /// Use shadow doorbells where the controller has them.
    pub shadow_doorbells: bool,
    /// Use SGLs where the controller takes them.
    pub sgl: bool,
    /// Count generations in command identifiers. Off only for controllers that choke on large ones.
    pub cid_generations: Generations,
    /// Which queue a command goes to.
    pub policy: Policy,
    /// Which queues blocking calls, batches and flushes have.
    pub classes: Classes,
    /// What the device is to be good at, and how much its requests matter beside each other, where a namespace's
    /// handle does not say something else.
    pub settings: Settings,
    /// Which queues interrupt.
    pub completions: Completions,
    /// What is counted and measured.
    pub statistics: Statistics,
    /// Writes down the life of each command. A tracer is for one device.
    pub trace: Option<Tracer>,
    /// Lets `ugds stat` of the same user, or of root, read the statistics while the device is open, under this name.
    /// Without it, the environment decides: see [`published`](crate::published).
    pub publish: Option<String>,
}

/// Which queues interrupt when something ended. On the others, whoever waits looks again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completions {
    /// None in [`Mode::Latency`](ugds_sched::Mode::Latency) and [`Mode::Priority`](ugds_sched::Mode::Priority), all in
    /// [`Mode::Throughput`](ugds_sched::Mode::Throughput), those of batches in
    /// [`Mode::Adaptive`](ugds_sched::Mode::Adaptive).
    #[default]
    ByMode,
    /// None.
    Poll,
    /// All, as far as the device has vectors.
    Interrupt,
}

/// The rule that chooses a queue for a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// The caller's last queue while it is idle, else the one with the fewest bytes outstanding.
    #[default]
    LeastLoaded,
    /// Each queue in turn.
    RoundRobin,
    /// Each request takes the next queue in turn and keeps it. It is here to be compared with.
    HeldQueue,
}

/// How blocking calls, batches and flushes share the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Classes {
    /// Half of the queues for blocking calls, the others for batches, the last of these for flushes too. Fewer than
    /// four queues are shared.
    #[default]
    Parted,
    /// All queues are for everything.
    Shared,
}

impl Default for Options {
    fn default() -> Self {
        let controller = controller::Options::default();
        Self {
            queues: controller.queues,
            queue_entries: controller.queue_entries,
            admin_timeout: controller.admin_timeout,
            io_timeout: IO_TIMEOUT,
            ready_floor: controller.ready_floor,
            shadow_doorbells: controller.shadow_doorbells,
            sgl: controller.sgl,
            cid_generations: controller.cid_generations,
            policy: Policy::default(),
            classes: Classes::default(),
            settings: Settings::default(),
            completions: Completions::default(),
            statistics: Statistics::default(),
            trace: None,
            publish: None,
        }
    }
}

impl Options {
    /// The same for a device whose statistics, with latencies, can be read by `ugds stat` under `name`.
    #[must_use]
    pub fn publish_statistics(mut self, name: impl Into<String>) -> Self {
        self.statistics = Statistics::Latencies;
        self.publish = Some(name.into());
        self
    }

    /// What of this concerns the controller.
    pub(crate) fn controller(&self) -> controller::Options {
        let mut options = controller::Options::default();
        options.queues = self.queues;
        options.queue_entries = self.queue_entries;
        options.admin_timeout = self.admin_timeout;
        options.ready_floor = self.ready_floor;
        options.shadow_doorbells = self.shadow_doorbells;
        options.sgl = self.sgl;
        options.cid_generations = self.cid_generations;
        options
    }
}

/// What the Linux driver gives a command.
const IO_TIMEOUT: Duration = Duration::from_secs(30);
