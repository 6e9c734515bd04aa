//! I/O queues of a controller.

use super::{Controller, ControllerError};
use crate::QueuePair;
use alloc::boxed::Box;
use core::time::Duration;
use nvme_proto::admin::Abort;
use nvme_proto::{Cid, Qid};
use ugds_hal::{Backend, Completion, OpenError, PortSpec, Quarantine};
use ugds_mem::Io;

impl<B: Backend> Controller<B> {
    /// Opens the next I/O queue pair, for polling.
    ///
    /// # Errors
    ///
    /// [`ControllerError::NoQueueLeft`] when all that were granted are open; the backend's.
    pub fn open_queue(&mut self) -> Result<QueuePair<B::Port>, ControllerError> {
        self.open_queue_with(Completion::Poll)
    }

    /// Opens the next I/O queue pair, with completions noticed as `completion` says. The event of an interrupt vector
    /// is the backend's.
    ///
    /// # Errors
    ///
    /// As [`open_queue`](Self::open_queue).
    pub fn open_queue_with(&mut self, completion: Completion) -> Result<QueuePair<B::Port>, ControllerError> {
        let Some(&qid) = self.free_qids.last() else {
            return Err(ControllerError::NoQueueLeft { granted: self.facts.queues });
        };
        let spec = PortSpec {
            qid,
            entries: self.facts.queue_entries,
            page: self.facts.page,
            completion,
            shadow: self.shadow.clone().filter(|_| self.facts.shadow_doorbells),
        };
        let port = match self.backend.open_port(&spec, Some(&mut self.admin)) {
            Ok(port) => port,
            Err(OpenError { error, left }) => {
                self.stranded.extend(left);
                return Err(error.into());
            }
        };
        self.free_qids.pop();
        Ok(QueuePair::new(port, qid, self.backend.traits().era(), self.options.cid_generations))
    }

    /// Closes an I/O queue pair with nothing outstanding. Its identifier is used again.
    ///
    /// # Errors
    ///
    /// What is left of the queue: the pair unchanged while commands are outstanding, its port in quarantine when the
    /// controller did not confirm.
    pub fn close_queue(&mut self, pair: QueuePair<B::Port>) -> Result<(), NotClosed<B>> {
        let qid = pair.qid();
        let port = pair.into_port().map_err(NotClosed::Outstanding)?;
        self.backend.close_port(port, Some(&mut self.admin)).map_err(NotClosed::Unconfirmed)?;
        self.free_qids.push(qid);
        Ok(())
    }
}

impl<B: Backend> Controller<B> {
    /// Asks the controller to abort a command. One at a time, so the limit that it sets (ACL) is kept.
    ///
    /// An aborted command still completes, with a status that says so. `false` means that the controller did not
    /// find it, or would not abort it.
    ///
    /// # Errors
    ///
    /// [`ControllerError::Admin`], also when the controller does not answer within `limit`.
    pub fn abort(&mut self, qid: Qid, cid: Cid, limit: Duration) -> Result<bool, ControllerError> {
        let abort = Io::abort(&Abort { sqid: qid, cid });
        // Bit 0 of DW0 is set when the command was not aborted.
        Ok(self.admin.run_within(&abort, limit)? & 1 == 0)
    }
}

/// A queue that could not be closed.
#[derive(Debug)]
pub enum NotClosed<B: Backend> {
    /// Commands are outstanding.
    Outstanding(Box<QueuePair<B::Port>>),
    /// The controller did not confirm the deletion.
    Unconfirmed(Quarantine<B::Port>),
}
