//! What outlives a reset: health, the error log, a sanitize operation.

use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use nvme_proto::{Cid, Nsid, Qid, Status};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct Subsystem {
    /// The composite temperature in kelvins.
    pub(super) temperature: AtomicU16,
    health: Mutex<Health>,
    errors: Mutex<ErrorLog>,
    sanitize: Mutex<Sanitize>,
    /// When the last sanitize operation ends, 0 if there was none.
    sanitized_at: AtomicU64,
    pub(super) usage: Usage,
}

/// Counters of the health log.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) media_errors: AtomicU64,
}

/// The part of the health log that tests set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// The critical warnings: bit 0 spare, 1 temperature, 2 reliability, 3 read only, 4 backup.
    pub critical_warning: u8,
    /// The spare capacity that is left, in percent.
    pub available_spare: u8,
    /// The spare capacity below which bit 0 of the warnings is set, in percent.
    pub spare_threshold: u8,
    /// The wear, in percent of the expected life.
    pub percentage_used: u8,
    /// How often the power came on.
    pub power_cycles: u64,
    /// How often it failed without a shutdown.
    pub unsafe_shutdowns: u64,
}

/// An entry of the error log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedError {
    pub(super) count: u64,
    pub(super) qid: Qid,
    pub(super) cid: Cid,
    pub(super) status: Status,
    pub(super) lba: u64,
    pub(super) nsid: Nsid,
    pub(super) opcode: u8,
}

#[derive(Debug, Default)]
struct ErrorLog {
    total: u64,
    /// The newest first.
    entries: VecDeque<LoggedError>,
}

/// The last sanitize operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sanitize {
    /// CDW10 of the command. 0 when there never was one.
    pub(super) cdw10: u32,
    pub(super) started_at: u64,
    pub(super) until: u64,
}

impl Default for Subsystem {
    fn default() -> Self {
        Self {
            temperature: AtomicU16::new(ROOM_TEMPERATURE),
            health: Mutex::new(Health {
                critical_warning: 0,
                available_spare: 100,
                spare_threshold: 10,
                percentage_used: 0,
                power_cycles: 1,
                unsafe_shutdowns: 0,
            }),
            errors: Mutex::default(),
            sanitize: Mutex::default(),
            sanitized_at: AtomicU64::new(0),
            usage: Usage::default(),
        }
    }
}

impl Subsystem {
    pub(super) fn health(&self) -> MutexGuard<'_, Health> {
        lock(&self.health)
    }

    pub(super) fn note_power_loss(&self, clean: bool) {
        if !clean {
            self.health().unsafe_shutdowns += 1;
        }
    }

    pub(super) fn note_power_on(&self) {
        self.health().power_cycles += 1;
    }

    pub(super) fn log_error(&self, error: LoggedError) {
        let mut log = lock(&self.errors);
        log.total += 1;
        let count = log.total;
        log.entries.push_front(LoggedError { count, ..error });
        log.entries.truncate(MAX_ERRORS);
    }

    /// The logged errors, the newest first, and how many there ever were.
    pub(super) fn errors(&self) -> (Vec<LoggedError>, u64) {
        let log = lock(&self.errors);
        (log.entries.iter().copied().collect(), log.total)
    }

    pub(super) fn sanitize(&self) -> Sanitize {
        *lock(&self.sanitize)
    }

    pub(super) fn set_sanitize(&self, sanitize: Sanitize) {
        *lock(&self.sanitize) = sanitize;
        self.sanitized_at.store(sanitize.until, Ordering::Relaxed);
    }

    /// Whether a sanitize operation runs. The time is looked at only if there ever was one.
    pub(super) fn is_sanitizing(&self, now: impl FnOnce() -> u64) -> bool {
        // Relaxed: the operation is ordered before later commands by their queues.
        let until = self.sanitized_at.load(Ordering::Relaxed);
        until != 0 && now() < until
    }

    pub(super) fn set_temperature(&self, kelvins: u16) {
        self.temperature.store(kelvins, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 37 degrees Celsius, in kelvins.
const ROOM_TEMPERATURE: u16 = 310;
/// `ELPE` of Identify Controller, 0's based.
pub(super) const ELPE_Z: u8 = 63;
const MAX_ERRORS: usize = ELPE_Z as usize + 1;
