//! Where the thread that reaped a command leaves its outcome for the thread that waits for it.

use super::sync::{AtomicU32, Ordering};
use nvme_proto::Status;

/// The outcome of one command.
///
/// The states follow each other in a circle: open (on the channel's free list, or waited for), done, released, open. One
/// thread at a time may make the next step: the reaper under the channel's lock, the waiter without it, and whoever
/// sweeps under the lock. A waiter that reaps its own command needs none of these.
///
/// Each has a cache line of its own, so that waiters do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Cell {
    state: AtomicU32,
}

const OPEN: u32 = 0;
const RELEASED: u32 = 1;
/// With the status in the low half.
const DONE: u32 = 1 << 16;

impl Cell {
    /// Makes an open cell done.
    #[inline]
    pub(super) fn complete(&self, status: Status) {
        // Release: the waiter that sees this also sees the data, which the reaper acquired with the phase tag.
        self.state.store(DONE | u32::from(status.to_field(false)), Ordering::Release);
    }

    /// The outcome, once there is one.
    #[inline]
    pub(super) fn outcome(&self) -> Option<Status> {
        // Acquire: pairs with `complete`.
        let state = self.state.load(Ordering::Acquire);
        (state & DONE != 0).then(|| Status::from_field(state as u16))
    }

    /// Gives the cell back after its outcome was taken.
    #[inline]
    pub(super) fn release(&self) {
        // Release: pairs with `reclaim`, so that the outcome was read before the cell is used again.
        self.state.store(RELEASED, Ordering::Release);
    }

    /// Makes a released cell open. `false` when it is in another state.
    pub(super) fn reclaim(&self) -> bool {
        // Acquire: pairs with `release`. A released cell is changed by nobody but us, who hold the lock.
        if self.state.load(Ordering::Acquire) != RELEASED {
            return false;
        }
        // Relaxed: whoever takes it next holds the lock, too.
        self.state.store(OPEN, Ordering::Relaxed);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cell_goes_its_circle() {
        let cell = Cell::default();
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
