//! What the model counts.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

/// What a model did since it was made. Tests compare two of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmuStats {
    /// Admin commands that were fetched, by opcode.
    pub admin_commands: BTreeMap<u8, u64>,
    /// I/O commands that were fetched, by opcode.
    pub io_commands: BTreeMap<u8, u64>,
    /// Completions that were posted.
    pub completions: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Writes of a submission queue's tail doorbell.
    pub submission_doorbells: u64,
    /// Writes of a completion queue's head doorbell.
    pub completion_doorbells: u64,
    /// Bytes of data moved to the host.
    pub bytes_to_host: u64,
    /// Bytes of data moved from the host.
    pub bytes_from_host: u64,
    /// Interrupts that were signalled.
    pub interrupts: u64,
    /// Register reads.
    pub register_reads: u64,
    /// Accesses to host memory that were refused.
    pub dma_refused: u64,
}

impl EmuStats {
    /// I/O commands that were fetched with `opcode`.
    #[must_use]
    pub fn io(&self, opcode: u8) -> u64 {
        self.io_commands.get(&opcode).copied().unwrap_or(0)
    }

    /// Admin commands that were fetched with `opcode`.
    #[must_use]
    pub fn admin(&self, opcode: u8) -> u64 {
        self.admin_commands.get(&opcode).copied().unwrap_or(0)
    }
}

/// The counters behind it. All are relaxed: they order nothing.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) admin: [AtomicU64; 256],
    pub(super) io: [AtomicU64; 256],
    pub(super) completions: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) submission_doorbells: AtomicU64,
    pub(super) completion_doorbells: AtomicU64,
    pub(super) bytes_to_host: AtomicU64,
    pub(super) bytes_from_host: AtomicU64,
    pub(super) interrupts: AtomicU64,
    pub(super) register_reads: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            admin: [const { AtomicU64::new(0) }; 256],
            io: [const { AtomicU64::new(0) }; 256],
            completions: AtomicU64::default(),
            errors: AtomicU64::default(),
            submission_doorbells: AtomicU64::default(),
            completion_doorbells: AtomicU64::default(),
            bytes_to_host: AtomicU64::default(),
            bytes_from_host: AtomicU64::default(),
            interrupts: AtomicU64::default(),
            register_reads: AtomicU64::default(),
        }
    }
}

impl Counters {
    pub(super) fn snapshot(&self, dma_refused: u64) -> EmuStats {
        EmuStats {
            admin_commands: by_opcode(&self.admin),
            io_commands: by_opcode(&self.io),
            completions: get(&self.completions),
            errors: get(&self.errors),
            submission_doorbells: get(&self.submission_doorbells),
            completion_doorbells: get(&self.completion_doorbells),
            bytes_to_host: get(&self.bytes_to_host),
            bytes_from_host: get(&self.bytes_from_host),
            interrupts: get(&self.interrupts),
            register_reads: get(&self.register_reads),
            dma_refused,
        }
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// The value of a counter.
pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn by_opcode(counters: &[AtomicU64; 256]) -> BTreeMap<u8, u64> {
    (0..=255).zip(counters).map(|(opcode, counter)| (opcode, get(counter))).filter(|(_, n)| *n != 0).collect()
}
