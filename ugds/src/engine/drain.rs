//! Letting go of a device or of memory while commands may be outstanding.

use super::core::Core;
use super::wait::look;
use crate::{Drain, Error};
use ugds_hal::{Backend, Clock, Instant};
use ugds_mem::Mapped;
use ugds_queue::{Busy, Wedge};

impl<B: Backend> Core<B> {
    /// Shuts the device down; see [`Core::close`]. While it waits, no new request begins.
    pub(crate) fn close_with(&self, drain: Drain) -> Result<(), Error> {
        self.set_draining(drain != Drain::Check);
        let closed = self.retry(drain, |error| matches!(error, Error::Outstanding { .. }), || self.close());
        if matches!(closed, Err(Error::Outstanding { .. })) {
            self.set_draining(false);
        }
        closed
    }

    /// Takes a mapping from every queue; see [`Core::detach`]. Whatever `drain` says, nobody waits for a device that can't
    /// be proved to have stopped.
    pub(crate) fn detach_with(&self, mapped: &Mapped, drain: Drain) -> Result<(), Busy> {
        self.retry(drain, |_| !self.is_lost(), || self.detach(mapped))
    }

    /// Tries again while the error is one that waiting cures, until the time is over.
    fn retry<E>(
        &self,
        drain: Drain,
        curable: impl Fn(&E) -> bool,
        attempt: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let deadline = match drain {
            Drain::Check | Drain::Force => self.clock().now(),
            Drain::Grace(grace) => self.clock().now().after(grace),
            Drain::Wait => Instant(u64::MAX),
        };
        let mut tries = 0u32;
        loop {
            match attempt() {
                Err(error) if curable(&error) && self.clock().now() < deadline => {}
                Err(error) if curable(&error) && drain == Drain::Force && tries == 0 => self.force(),
                result => return result,
            }
            // For commands of batches nobody may be looking.
            let _ = (0..self.channels().len()).try_for_each(|queue| look(self, queue).map(drop));
            self.clock().relax(tries.saturating_mul(PATIENCE));
            tries = tries.saturating_add(1);
        }
    }

    /// Ends everything outstanding by stopping the device.
    #[cold]
    fn force(&self) {
        self.give_up(Wedge::Forced);
        self.stop();
    }
}

/// Commands take microseconds at least: looking again at once brings nothing.
const PATIENCE: u32 = 16;
