//! What a caller may choose about a controller.

use crate::Generations;
use core::time::Duration;

/// How a controller is brought up. `Default` suits any controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// I/O queue pairs to ask for. The controller may grant fewer.
    pub queues: u16,
    /// Entries of each I/O ring, rounded down to what the controller takes and to a power of two.
    pub queue_entries: u16,
    /// How long an admin command may take.
    pub admin_timeout: Duration,
    /// The least time given to the controller to become ready or to stop, whatever `CAP.TO` says.
    pub ready_floor: Duration,
    /// Use shadow doorbells where the controller has them.
    pub shadow_doorbells: bool,
    /// Use SGLs where the controller takes them.
    pub sgl: bool,
    /// Count generations in command identifiers. Off only for controllers that choke on large ones.
    pub cid_generations: Generations,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: 8,
            queue_entries: 1024,
            admin_timeout: Duration::from_secs(60),
            ready_floor: Duration::from_secs(5),
            shadow_doorbells: true,
            sgl: true,
            cid_generations: Generations::On,
        }
    }
}
