//! Creating and deleting I/O queues.

use super::Context;
use crate::emu::lane::finish;
use crate::emu::queue::{CompletionQueue, Ring, SubmissionQueue, read_pages};
use core::sync::atomic::Ordering;
use nvme_proto::admin::{CreateCq, CreateSq, DeleteCq, DeleteSq};
use nvme_proto::register::DoorbellKind;
use nvme_proto::status::{command, generic};
use nvme_proto::{BusAddr, Count16, Qid, Status};
use std::sync::Arc;

impl Context<'_> {
    pub(super) fn create_completion(&self) -> Result<(), Status> {
        let create = CreateCq::from_sqe(self.sqe);
        let exists = self.core.state().completion.contains_key(&create.qid.0);
        let (_, limit) = self.queue_limits();
        self.check_new(create.qid, exists, limit, create.entries)?;
        if create.interrupt_vector.is_some_and(|vector| !self.core.interrupts.exists(vector)) {
            return Err(command::INVALID_INTERRUPT_VECTOR);
        }
        let ring = self.ring(create.base, create.physically_contiguous, create.entries, 16)?;
        let entries = create.entries.get();
        let queue = Arc::new(CompletionQueue::new(create.qid, entries, ring, create.interrupt_vector));
        self.core.state().completion.insert(create.qid.0, Arc::clone(&queue));
        self.core.bells.of(create.qid, DoorbellKind::CompletionHead).open(entries);
        self.core.lane(self.core.lane_of(create.qid)).add_completion(queue);
        Ok(())
    }

    pub(super) fn create_submission(&self) -> Result<(), Status> {
        let create = CreateSq::from_sqe(self.sqe);
        let (completion, exists) = {
            let state = self.core.state();
            let completion = state.completion.get(&create.cqid.0).cloned();
            (completion.ok_or(command::CQ_INVALID)?, state.submission.contains_key(&create.qid.0))
        };
        let (limit, _) = self.queue_limits();
        self.check_new(create.qid, exists, limit, create.entries)?;
        let ring = self.ring(create.base, create.physically_contiguous, create.entries, 64)?;
        let entries = create.entries.get();
        // Relaxed: queues are made and deleted by admin commands alone, one after the other.
        completion.users.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(SubmissionQueue::new(create.qid, entries, ring, completion));
        self.core.state().submission.insert(create.qid.0, Arc::clone(&queue));
        self.core.bells.of(create.qid, DoorbellKind::SubmissionTail).open(entries);
        self.core.lane(self.core.lane_of(create.qid)).add_submission(queue);
        Ok(())
    }

    pub(super) fn delete_submission(&self) -> Result<(), Status> {
        let qid = DeleteSq::from_sqe(self.sqe).qid;
        let queue = self.core.state().submission.remove(&qid.0).ok_or(command::INVALID_QUEUE_ID)?;
        self.core.bells.of(qid, DoorbellKind::SubmissionTail).close();
        let jobs = self.core.lane(self.core.lane_of(qid)).remove_submission(qid);
        for job in jobs {
            finish(self.core, job.queue, &job.sqe, Err(generic::ABORTED_SQ_DELETED), true);
        }
        queue.completion.users.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn delete_completion(&self) -> Result<(), Status> {
        let qid = DeleteCq::from_sqe(self.sqe).qid;
        let queue = self.core.state().completion.get(&qid.0).cloned().ok_or(command::INVALID_QUEUE_ID)?;
        if queue.users.load(Ordering::Relaxed) != 0 {
            return Err(command::INVALID_QUEUE_DELETION);
        }
        self.core.bells.of(qid, DoorbellKind::CompletionHead).close();
        self.core.lane(self.core.lane_of(qid)).remove_completion(qid);
        queue.forget();
        self.core.state().completion.remove(&qid.0);
        Ok(())
    }

    /// The highest submission and completion queue identifier: what was granted, or all before anyone asked.
    fn queue_limits(&self) -> (u16, u16) {
        let all = self.core.config.queues;
        self.core.state().granted.unwrap_or((all, all))
    }

    fn check_new(&self, qid: Qid, exists: bool, limit: u16, entries: Count16) -> Result<(), Status> {
        if qid.is_admin() || qid.0 > limit || exists {
            return Err(command::INVALID_QUEUE_ID);
        }
        // A device that reports MQES of 0 takes queues all the same.
        let max_z = if self.core.config.mqes_z == 0 { TRUE_MQES_Z } else { self.core.config.mqes_z };
        if entries.get() < 2 || entries.z() > max_z {
            return Err(command::INVALID_QUEUE_SIZE);
        }
        Ok(())
    }

    fn ring(
        &self,
        base: BusAddr,
        contiguous: bool,
        entries: Count16,
        entry_bytes: u64,
    ) -> Result<Ring, Status> {
        let page = self.lane.page;
        if contiguous {
            let aligned = base.offset_in(page) == 0;
            return if aligned { Ok(Ring::Contiguous(base)) } else { Err(generic::PRP_OFFSET_INVALID) };
        }
        if self.core.config.cqr {
            return Err(generic::INVALID_FIELD);
        }
        let len_bytes = u64::from(entries.get()) * entry_bytes;
        Ok(Ring::Pages(page, read_pages(self.core, page, base, len_bytes)?))
    }
}

/// What a controller with an `MQES` of 0 takes in truth.
const TRUE_MQES_Z: u16 = 1023;
