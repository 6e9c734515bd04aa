//! Abort.

use super::Context;
use crate::emu::lane::finish;
use nvme_proto::admin::{Abort, AsyncEventRequest};
use nvme_proto::status::generic;
use nvme_proto::{Cid, Qid};

impl Context<'_> {
    /// Aborts a command that is not executed yet, or an event request. The result has bit 0 set when there was none.
    pub(super) fn abort(&mut self) -> u64 {
        let Abort { sqid, cid } = Abort::from_sqe(self.sqe);
        let aborted = if sqid.is_admin() { self.abort_admin(cid) } else { self.abort_io(sqid, cid) };
        u64::from(!aborted)
    }

    fn abort_admin(&mut self, cid: Cid) -> bool {
        let withdrawn = self.core.state().events.withdraw(cid);
        if withdrawn && let Some(queue) = self.lane.admin_queue() {
            let request = AsyncEventRequest.to_sqe().with_cid(cid);
            finish(self.core, queue, &request, Err(generic::ABORT_REQUESTED), true);
            return true;
        }
        let job = self.lane.take_job(Qid::ADMIN, cid);
        let found = job.is_some();
        if let Some(job) = job {
            finish(self.core, job.queue, &job.sqe, Err(generic::ABORT_REQUESTED), true);
        }
        found
    }

    fn abort_io(&self, sqid: Qid, cid: Cid) -> bool {
        let job = self.core.lane(self.core.lane_of(sqid)).take_job(sqid, cid);
        let found = job.is_some();
        if let Some(job) = job {
            finish(self.core, job.queue, &job.sqe, Err(generic::ABORT_REQUESTED), true);
        }
        found
    }
}
