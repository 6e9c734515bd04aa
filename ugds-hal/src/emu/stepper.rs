//! The model under virtual time: it moves only when it is told to.

use super::lane::Progress;
use super::model::Core;
use std::sync::PoisonError;

impl Core {
    /// Does one thing: fetches what there is, or executes one command, or moves the time to the next event, but not
    /// beyond `limit`. Says whether there was anything; if not, the time is `limit` now.
    pub(super) fn step(&self, limit: Option<u64>) -> bool {
        let _one_at_a_time = self.stepper.lock().unwrap_or_else(PoisonError::into_inner);
        let transition = {
            let mut registers = self.registers();
            self.settle(&mut registers);
            Self::next_transition(&registers)
        };
        let progress = self.step_lanes();
        if progress.worked {
            return true;
        }
        let next = progress.next_due.into_iter().chain(transition).min();
        match (next, limit) {
            (Some(at), limit) if limit.is_none_or(|limit| at <= limit) => self.time.advance_to(at),
            (_, Some(limit)) => {
                self.time.advance_to(limit);
                return false;
            }
            _ => return false,
        }
        true
    }

    fn step_lanes(&self) -> Progress {
        let progress = self.try_lanes();
        if progress.worked || !self.shadow.in_use() {
            return progress;
        }
        // As a controller that goes to sleep.
        (0..self.lanes()).for_each(|index| self.lane(index).ask_for_doorbells(self));
        self.try_lanes()
    }

    fn try_lanes(&self) -> Progress {
        let mut all = Progress::default();
        for index in 0..self.lanes() {
            // First everything is fetched, so that disorder can reach as far as possible.
            let fetched = self.service(index, usize::MAX, 0);
            let progress = if fetched.worked { fetched } else { self.service(index, 0, 1) };
            all = all.and(progress);
            if all.worked {
                break;
            }
        }
        all
    }
}
