//! Where the thread that reaped a command leaves its outcome for the thread that waits for it.

use nvme_proto::Status;
use std::sync::atomic::{AtomicU32, Ordering};

/// The outcome of one command.
///
/// The states follow each other in a circle: listed (on the channel's free list), pending, done, released, listed.
/// One thread at a time may make the next step: the submitter under the channel's lock, the reaper under that lock,
/// the waiter without it, and whoever sweeps under the lock.
///
/// Each has a cache line of its own, so that waiters do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Cell {
    state: AtomicU32,
}

const LISTED: u32 = 0;
const PENDING: u32 = 1;
const RELEASED: u32 = 2;
/// With the status in the low half.
const DONE: u32 = 1 << 16;

impl Cell {
    /// Makes a listed cell pending.
    #[inline]
    pub(crate) fn begin(&self) {
        // Relaxed: the lock under which the command is reaped orders this before `complete`.
        self.state.store(PENDING, Ordering::Relaxed);
    }

    /// Makes a pending cell done.
    #[inline]
    pub(crate) fn complete(&self, status: Status) {
        // Release: the waiter that sees this also sees the data, which the reaper acquired with the phase tag.
        self.state.store(DONE | u32::from(status.to_field(false)), Ordering::Release);
    }

    /// The outcome, once there is one.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Status> {
        // Acquire: pairs with `complete`.
        let state = self.state.load(Ordering::Acquire);
        (state & DONE != 0).then(|| Status::from_field(state as u16))
    }

    /// Gives the cell back after its outcome was taken.
    #[inline]
    pub(crate) fn release(&self) {
        // Release: pairs with `reclaim`, so that the outcome was read before the cell is used again.
        self.state.store(RELEASED, Ordering::Release);
    }

    /// Makes a released cell listed. `false` when it is in another state.
    pub(crate) fn reclaim(&self) -> bool {
        // Acquire: pairs with `release`. A released cell is changed by nobody but us, who hold the lock.
        if self.state.load(Ordering::Acquire) != RELEASED {
            return false;
        }
        self.state.store(LISTED, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_goes_its_circle() {
        let cell = Cell::default();
        assert!(!cell.reclaim());
        cell.begin();
        assert!(!cell.reclaim());
        assert_eq!(cell.outcome(), None);
        let status = Status::new(2, 0x81).with_do_not_retry();
        cell.complete(status);
        assert_eq!(cell.outcome(), Some(status));
        assert!(!cell.reclaim());
        cell.release();
        assert_eq!(cell.outcome(), None);
        assert!(cell.reclaim());
        assert!(!cell.reclaim(), "only once");
    }
}
