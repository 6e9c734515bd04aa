//! A controller: bring-up, admin commands, I/O queues, namespaces, shutdown.

mod admin;
mod bring_up;
mod error;
mod events;
mod namespace;
mod options;
mod queues;
mod scan;
mod shutdown;

pub use error::ControllerError;
pub use events::{ControllerEvent, Detail};
pub use namespace::{Namespace, Refused, RefusedReason};
pub use options::Options;
pub use queues::NotClosed;
pub use scan::Scan;

use admin::AdminQueue;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use nvme_proto::register::{Cap, Vs};
use nvme_proto::{PageSize, Qid, identify};
use ugds_hal::pcie::ShadowPages;
use ugds_hal::{Backend, Claim, Quarantine};
use ugds_mem::Domain;

/// A controller that is enabled and whose admin queue is ours.
///
/// It is shut down by [`shut_down`](Self::shut_down). Dropped without that, it stays enabled, and everything it may
/// still write to is leaked.
#[derive(Debug)]
pub struct Controller<B: Backend> {
    backend: Arc<B>,
    claim: Claim,
    domain: Domain<B>,
    admin: AdminQueue<B>,
    identify: Box<identify::Controller>,
    cap: Cap,
    options: Options,
    facts: Facts,
    shadow: Option<Arc<ShadowPages>>,
    /// What is left of queues that could not be opened.
    stranded: Vec<Quarantine<B::Port>>,
    /// Identifiers of I/O queues that are not open, the next one last.
    free_qids: Vec<Qid>,
}

/// What was settled with the controller during bring-up.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// The version of the specification that it reports.
    pub version: Vs,
    /// Its page, `CC.MPS`.
    pub page: PageSize,
    /// The most bytes of one command: MDTS, or 128 KiB where it sets none, and never more than 1 MiB.
    pub max_transfer_bytes: u32,
    /// I/O queue pairs that it granted.
    pub queues: u16,
    /// Entries of each I/O ring.
    pub queue_entries: u16,
    /// Whether SGLs are used.
    pub sgl: bool,
    /// Whether shadow doorbells are used.
    pub shadow_doorbells: bool,
    /// Whether written data is durable only after a flush.
    pub volatile_write_cache: bool,
}

impl<B: Backend> Controller<B> {
    /// The Identify data.
    #[must_use]
    pub fn identify(&self) -> &identify::Controller {
        &self.identify
    }

    /// What was settled during bring-up.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Maps memory for this controller.
    #[must_use]
    pub fn domain(&self) -> &Domain<B> {
        &self.domain
    }
}
