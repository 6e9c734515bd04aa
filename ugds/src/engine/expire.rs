//! What is done about a command that is late, and about a device that is beyond help.

use super::channel::Closing;
use super::core::Core;
use super::record::Event;
use super::wait::look;
use crate::Error;
use nvme_proto::Cid;
use std::time::Duration;
use ugds_hal::{Backend, poll};
use ugds_queue::Wedge;

/// Looks once more, has the controller abort the command, and gives the device up when that does not help. `take` takes
/// the command's outcome, once it is there.
#[cold]
pub(super) fn expire<B: Backend, T>(
    core: &Core<B>,
    queue: usize,
    cid: Cid,
    mut take: impl FnMut() -> Option<T>,
) -> Result<T, Error> {
    let qid = core.qid(queue);
    core.note(Event::CommandLate { qid, cid });
    look(core, queue)?;
    if let Some(outcome) = take() {
        return Ok(outcome);
    }
    if abort(core, queue, cid)
        && let Some(outcome) = wait_for_aborted(core, queue, take)?
    {
        return Ok(outcome);
    }
    let waited_ms = u64::try_from(core.io_timeout().as_millis()).unwrap_or(u64::MAX);
    let wedge = core.give_up(Wedge::Timeout { qid, waited_ms });
    core.stop();
    Err(wedge.into())
}

/// Whether the controller says that it aborts the command.
fn abort<B: Backend>(core: &Core<B>, queue: usize, cid: Cid) -> bool {
    let qid = core.qid(queue);
    let answer = match &mut *core.controller() {
        Some(controller) => controller.abort(qid, cid, ABORT_LIMIT),
        // Somebody else has stopped the device meanwhile.
        None => return false,
    };
    match answer {
        Ok(aborted) => {
            core.note(Event::AbortAnswered { qid, cid, aborted });
            // One that was not found may just have completed.
            true
        }
        Err(error) => {
            core.note(Event::AbortFailed { qid, cid, reason: error.to_string() });
            false
        }
    }
}

/// An aborted command still completes. `None` when it does not.
fn wait_for_aborted<B: Backend, T>(
    core: &Core<B>,
    queue: usize,
    mut take: impl FnMut() -> Option<T>,
) -> Result<Option<T>, Error> {
    poll(core.clock(), ABORT_LIMIT, || {
        look(core, queue)?;
        Ok(take())
    })
}

impl<B: Backend> Core<B> {
    /// Stops a device that was given up. Once the stop is proved, all that its commands held is free again; else it
    /// stays reserved for as long as the process lives.
    #[cold]
    pub(super) fn stop(&self) {
        // Held to the end: nobody is told that the device is closed before it is.
        let mut controller = self.controller();
        let Some(controller) = controller.take() else { return };
        self.begin_stop();
        let closing: Vec<_> = self.channels().iter().map(super::channel::Channel::closing).collect();
        let pairs = closing.into_iter().filter_map(Closing::close).collect();
        // Whoever closes the device is told; here the reason to stop it matters more.
        let _ = self.finish_stop(controller.stop(pairs));
    }
}

/// How long the controller may take to answer an Abort, and the aborted command to complete.
const ABORT_LIMIT: Duration = Duration::from_secs(5);
