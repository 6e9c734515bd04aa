//! Shutting a controller down in order.

use super::{Controller, ControllerError};
use crate::QueuePair;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use nvme_proto::register::{Cc, Csts, Property, ShutdownNotification, ShutdownStatus};
use ugds_hal::{Backend, HalError, Stop, Stopped, poll};

impl<B: Backend> Controller<B> {
    /// Closes the queues, lets the controller write back its cache (`CC.SHN`), disables it, and frees everything.
    ///
    /// Queues with commands outstanding are not deleted first: the stop of the controller, once proved, ends those
    /// commands and frees their memory.
    ///
    /// # Errors
    ///
    /// [`ControllerError`] when the controller did not finish its shutdown, and it was disabled all the same; or when
    /// it can't be proved to have stopped, and then everything it may still write to is leaked.
    pub fn shut_down(mut self, queues: Vec<QueuePair<B::Port>>) -> Result<(), ControllerError> {
        let left = self.close_idle(queues);
        let finished = self.notify();
        self.end(left).and(finished)
    }

    /// Stops a controller that does not answer any more: no queue is deleted, nothing is announced, and what its cache
    /// held may be lost. Everything is freed once the stop is proved.
    ///
    /// # Errors
    ///
    /// As [`shut_down`](Self::shut_down), when the stop can't be proved.
    pub fn stop(self, queues: Vec<QueuePair<B::Port>>) -> Result<(), ControllerError> {
        let outstanding = |pair| Left::Outstanding(Box::new(pair));
        self.end(queues.into_iter().map(outstanding).collect())
    }

    /// Disables the controller, and frees or leaks what it was given.
    fn end(mut self, mut left: Vec<Left<B>>) -> Result<(), ControllerError> {
        left.extend(self.stranded.drain(..).map(Left::Unconfirmed));
        let proof = match prove_stop(&*self.backend, self.stop_timeout()) {
            Ok(proof) => proof,
            Err(error) => {
                self.leak(left);
                return Err(error.into());
            }
        };
        self.reclaim(left, &proof);
        Ok(())
    }

    /// Deletes the queues that have nothing outstanding, and returns the others.
    fn close_idle(&mut self, queues: Vec<QueuePair<B::Port>>) -> Vec<Left<B>> {
        queues.into_iter().filter_map(|queue| self.close_queue(queue).err()).collect()
    }

    /// Announces the shutdown and waits until the controller has done what it needs.
    fn notify(&self) -> Result<(), ControllerError> {
        let cc = Cc::from_bits(self.backend.property_read(Property::CC)? as u32);
        let announced = cc.with_shn(ShutdownNotification::NORMAL).into_bits();
        self.backend.property_write(Property::CC, announced.into())?;
        let limit = self.shutdown_timeout();
        let not_shut_down = ControllerError::NotShutDown { waited: limit };
        let complete = poll(self.backend.clock(), limit, || {
            let csts = Csts::from_bits(self.backend.property_read(Property::CSTS)? as u32);
            if csts.is_gone() {
                return Err(ControllerError::Gone);
            }
            if csts.cfs() {
                return Err(ControllerError::NotShutDown { waited: limit });
            }
            Ok((csts.shst() == ShutdownStatus::COMPLETE).then_some(()))
        });
        complete?.ok_or(not_shut_down)
    }

    fn reclaim(self, left: Vec<Left<B>>, proof: &Stopped) {
        for queue in left {
            let port = match queue {
                Left::Outstanding(pair) => pair.abandon(proof).ok(),
                Left::Unconfirmed(quarantine) => quarantine.release(proof).ok(),
            };
            if let Some(port) = port {
                // Without an admin queue to ask, closing can't fail: the stop is the confirmation.
                let _ = self.backend.close_port(port, None);
            }
        }
        self.admin.close(proof);
        if let Some(shadow) = &self.shadow {
            shadow.release(proof);
        }
        self.claim.release(proof);
    }

    /// Leaves everything to a controller that may still use it.
    #[cold]
    fn leak(self, left: Vec<Left<B>>) {
        core::mem::forget(left);
        core::mem::forget(self.admin);
    }

    /// RTD3E is in microseconds. Controllers that leave it 0 get five seconds, and none gets more than a minute.
    fn shutdown_timeout(&self) -> Duration {
        let stated = Duration::from_micros(self.identify.rtd3e_us.get().into());
        stated.clamp(Duration::from_secs(5), Duration::from_secs(60))
    }

    fn stop_timeout(&self) -> Duration {
        Duration::from_millis(self.cap.ready_timeout_ms().into()).max(self.options.ready_floor)
    }
}

/// Stops the device by the mildest way that it obeys. The error is that of the mildest, since it says most.
pub(super) fn prove_stop<B: Backend>(backend: &B, limit: Duration) -> Result<Stopped, HalError> {
    let first = match backend.stop(Stop::Disable(limit)) {
        Err(error) => error,
        stopped => return stopped,
    };
    let harder = [Stop::FunctionReset, Stop::BusMasterOff(limit)];
    harder.into_iter().find_map(|how| backend.stop(how).ok()).ok_or(first)
}

type Left<B> = super::queues::NotClosed<B>;
