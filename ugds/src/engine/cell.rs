//! Where the thread that reaped a command leaves its outcome for the thread that waits for it.

use super::sync::{AtomicU32, Ordering};
use nvme_proto::Status;

/// The outcome of one command, or of several in a row on one queue: that of the first that failed.
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
    /// Commands to come beside the last. Only under the channel's lock, as is the next.
    left: AtomicU32,
    /// The status of the one that failed nearest to the start, and its place above that; 0 for none.
    failed: AtomicU32,
}

/// How a command ended, or a row of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    /// Which of the row failed.
    pub(crate) place: u32,
}

const OPEN: u32 = 0;
const RELEASED: u32 = 1;
/// With the status in the low half, and the place above.
const DONE: u32 = 1 << 16;
const PLACE_SHIFT: u32 = 17;

impl Cell {
    /// Says how many commands an open cell is for. It is one without that.
    #[inline]
    pub(super) fn set_commands(&self, commands: u32) {
        // Relaxed: under the channel's lock.
        self.left.store(commands - 1, Ordering::Relaxed);
    }

    /// Takes in the outcome of the command at `place` of a row; the last one makes an open cell done.
    #[inline]
    pub(super) fn complete(&self, place: u32, status: Status) {
        if !status.is_success() {
            self.fail(place, status);
        }
        self.complete_well(1);
    }

    /// The same for `count` commands that ended well, at least one.
    #[inline]
    pub(super) fn complete_well(&self, count: u32) {
        // Relaxed: under the channel's lock, as all of these.
        let left = self.left.load(Ordering::Relaxed);
        if count <= left {
            self.left.store(left - count, Ordering::Relaxed);
            return;
        }
        self.left.store(0, Ordering::Relaxed);
        let failed = self.failed.load(Ordering::Relaxed);
        if failed != 0 {
            self.failed.store(0, Ordering::Relaxed);
        }
        // Release: the waiter that sees this also sees the data, which the reapers acquired with the phase tags.
        self.state.store(DONE | failed, Ordering::Release);
    }

    #[cold]
    fn fail(&self, place: u32, status: Status) {
        let before = self.failed.load(Ordering::Relaxed);
        if before == 0 || place < before >> PLACE_SHIFT {
            let failed = place << PLACE_SHIFT | u32::from(status.to_field(false));
            self.failed.store(failed, Ordering::Relaxed);
        }
    }

    /// The outcome, once there is one.
    #[inline]
    pub(super) fn outcome(&self) -> Option<Ended> {
        // Acquire: pairs with `complete`.
        let state = self.state.load(Ordering::Acquire);
        let ended = Ended { status: Status::from_field(state as u16), place: state >> PLACE_SHIFT };
        (state & DONE != 0).then_some(ended)
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
        cell.complete(0, status);
        assert_eq!(cell.outcome(), Some(Ended { status, place: 0 }));
        assert!(!cell.reclaim());
        cell.release();
        assert_eq!(cell.outcome(), None);
        assert!(cell.reclaim());
        assert!(!cell.reclaim(), "only once");
    }

    #[test]
    fn a_row_is_done_with_its_last_command_and_says_which_failed_first() {
        let cell = Cell::default();
        for _ in 0..2 {
            cell.set_commands(4);
            let (early, late) = (Status::new(2, 0x81), Status::new(0, 0x04));
            cell.complete(3, late);
            cell.complete(0, Status::SUCCESS);
            cell.complete(1, early);
            assert_eq!(cell.outcome(), None);
            cell.complete(2, late);
            assert_eq!(cell.outcome(), Some(Ended { status: early, place: 1 }));
            cell.release();
            assert!(cell.reclaim());
            // The next life begins as if nothing had failed, with one command.
            cell.complete(0, Status::SUCCESS);
            assert_eq!(cell.outcome(), Some(Ended { status: Status::SUCCESS, place: 0 }));
            cell.release();
            assert!(cell.reclaim());
        }
    }
}
