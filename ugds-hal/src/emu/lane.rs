//! A lane serves some submission queues: it fetches from them in turn, and executes what it fetched when its time has
//! come. A worker thread owns one, or a step moves it.

use super::breach::Breach;
use super::dma::Purpose;
use super::model::Core;
use super::nvm::Scratch;
use super::queue::{CompletionQueue, Done, SubmissionQueue};
use super::rng::SplitMix;
use super::subsystem::LoggedError;
use super::{admin, nvm, stats};
use core::cmp::{Ordering, Reverse};
use core::sync::atomic::{self, fence};
use nvme_proto::admin::Opcode;
use nvme_proto::register::DoorbellKind;
use nvme_proto::status::{command, generic, media};
use nvme_proto::{Cid, PageSize, Qid, Sqe, Status};
use std::collections::BinaryHeap;
use std::sync::Arc;
use zerocopy::IntoBytes;

#[derive(Debug)]
pub(super) struct Lane {
    /// `CC.MPS`.
    pub(super) page: PageSize,
    submission: Vec<Arc<SubmissionQueue>>,
    completion: Vec<Arc<CompletionQueue>>,
    /// What was fetched and is not executed yet, the earliest on top.
    jobs: BinaryHeap<Reverse<Job>>,
    /// The queue whose turn it is.
    turn: usize,
    sequence: u64,
    disorder: Option<SplitMix>,
    scratch: Scratch,
}

/// A command on its way.
#[derive(Debug)]
pub(super) struct Job {
    due: u64,
    order: u64,
    pub(super) queue: Arc<SubmissionQueue>,
    pub(super) sqe: Sqe,
    owed: Owed,
}

/// What the host is still to be told about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Completion,
    /// Nothing: it was told that the command succeeded. Neither an abort nor the end of the queue undoes that.
    Nothing,
}

/// What a pass over a lane did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) worked: bool,
    /// When there is something to do again.
    pub(super) next_due: Option<u64>,
}

/// What becomes of a command.
pub(super) enum Reply {
    /// It completes, with DW0 and DW1 or with an error.
    Done(Result<u64, Status>),
    /// It waits for something else.
    Later,
}

impl Lane {
    pub(super) fn new(index: u16, seed: Option<u64>) -> Self {
        Self {
            page: PageSize::MIN,
            submission: Vec::new(),
            completion: Vec::new(),
            jobs: BinaryHeap::new(),
            turn: 0,
            sequence: 0,
            // Admin commands stay in order: the disorder is for what has to be fast.
            disorder: seed.filter(|_| index != 0).map(|seed| SplitMix::new(seed ^ u64::from(index) << 32)),
            scratch: Scratch::default(),
        }
    }

    pub(super) fn add_submission(&mut self, queue: Arc<SubmissionQueue>) {
        self.submission.push(queue);
    }

    pub(super) fn admin_queue(&self) -> Option<Arc<SubmissionQueue>> {
        self.submission.iter().find(|queue| queue.qid.is_admin()).cloned()
    }

    pub(super) fn add_completion(&mut self, queue: Arc<CompletionQueue>) {
        self.completion.push(queue);
    }

    /// Stops fetching from a queue, and returns what was fetched from it and not executed.
    pub(super) fn remove_submission(&mut self, qid: Qid) -> Vec<Job> {
        self.submission.retain(|queue| queue.qid != qid);
        let (gone, kept): (Vec<_>, Vec<_>) =
            self.jobs.drain().partition(|Reverse(job)| job.queue.qid == qid && job.owed == Owed::Completion);
        self.jobs = kept.into();
        let mut gone: Vec<_> = gone.into_iter().map(|Reverse(job)| job).collect();
        gone.sort_unstable();
        gone
    }

    pub(super) fn remove_completion(&mut self, qid: Qid) {
        self.completion.retain(|queue| queue.qid != qid);
    }

    /// Takes back a command that is not executed yet.
    pub(super) fn take_job(&mut self, qid: Qid, cid: Cid) -> Option<Job> {
        let wanted = |job: &Job| (job.queue.qid, job.sqe.cid(), job.owed) == (qid, cid, Owed::Completion);
        if !self.jobs.iter().any(|Reverse(job)| wanted(job)) {
            return None;
        }
        let (mut found, kept): (Vec<_>, Vec<_>) = self.jobs.drain().partition(|Reverse(job)| wanted(job));
        self.jobs = kept.into();
        found.pop().map(|Reverse(job)| job)
    }

    /// Forgets everything, without completions.
    pub(super) fn clear(&mut self) {
        self.submission.clear();
        self.completion.iter().for_each(|queue| queue.forget());
        self.completion.clear();
        self.jobs.clear();
        self.turn = 0;
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.jobs.peek().map(|Reverse(job)| job.due)
    }

    /// Fetches from the queues in turn, one command each. Says whether there was any.
    pub(super) fn fetch(&mut self, core: &Core, budget: usize) -> bool {
        let (mut fetched, mut idle) = (0, 0);
        while idle < self.submission.len() && fetched < budget && !core.is_failed() {
            self.turn = (self.turn + 1) % self.submission.len();
            let queue = Arc::clone(&self.submission[self.turn]);
            if self.fetch_one(core, queue) {
                fetched += 1;
                idle = 0;
            } else {
                idle += 1;
            }
        }
        fetched != 0
    }

    fn fetch_one(&mut self, core: &Core, queue: Arc<SubmissionQueue>) -> bool {
        let bell = core.bells.of(queue.qid, DoorbellKind::SubmissionTail);
        let completion_bell = core.bells.of(queue.completion.qid, DoorbellKind::CompletionHead);
        // Nothing new is begun while completions find no room.
        if completion_bell.is_waiting() || !has_entry(core, &queue) {
            return false;
        }
        let mut sqe = Sqe::default();
        let entry = queue.entry(queue.head());
        if core.dma.read(entry, sqe.as_mut_bytes(), Purpose::SubmissionEntry).is_err() {
            core.fail();
            return false;
        }
        queue.advance(bell);
        let counters = if queue.qid.is_admin() { &core.counters.admin } else { &core.counters.io };
        stats::add(&counters[usize::from(sqe.opcode)], 1);
        if sqe.cid() == Cid::NONE {
            core.breach(Breach::CommandIdReserved { qid: queue.qid });
        }
        if !queue.begin(sqe.cid()) {
            core.breach(Breach::CommandIdInUse { qid: queue.qid, cid: sqe.cid() });
            finish(core, queue, &sqe, Err(generic::COMMAND_ID_CONFLICT), false);
        } else if self.exceeds_abort_limit(&queue, &sqe) {
            finish(core, queue, &sqe, Err(command::ABORT_LIMIT_EXCEEDED), true);
        } else {
            self.schedule(core, queue, sqe);
        }
        true
    }

    fn exceeds_abort_limit(&self, queue: &SubmissionQueue, sqe: &Sqe) -> bool {
        let is_abort = |sqe: &Sqe| sqe.opcode == Opcode::ABORT.0;
        let waiting = || self.jobs.iter().filter(|Reverse(job)| is_abort(&job.sqe)).count();
        queue.qid.is_admin() && is_abort(sqe) && waiting() > usize::from(admin::ACL_Z)
    }

    fn schedule(&mut self, core: &Core, queue: Arc<SubmissionQueue>, sqe: Sqe) {
        let now = core.now();
        let mut due =
            if queue.qid.is_admin() { now } else { core.pipe.schedule(now, nvm::data_bytes(core, &sqe)) };
        self.sequence += 1;
        let order = match &mut self.disorder {
            None => self.sequence,
            Some(rng) => {
                // Without delays, the time of the fetch must not put them in order again.
                due = if due <= now { 0 } else { due + rng.below(core.pipe.latency() / 2 + 1) };
                // A bounded distance, so that no command waits for ever.
                self.sequence + rng.below(DISORDER)
            }
        };
        self.jobs.push(Reverse(Job { due, order, queue, sqe, owed: Owed::Completion }));
    }

    /// Executes what is due, at most `budget` commands. Says whether there was any.
    pub(super) fn run_due(&mut self, core: &Core, budget: usize) -> bool {
        let mut done = 0;
        while done < budget && !core.is_failed() && self.next_due().is_some_and(|due| due <= core.now()) {
            let Some(Reverse(job)) = self.jobs.pop() else { break };
            self.execute(core, job);
            done += 1;
        }
        done != 0
    }

    fn execute(&mut self, core: &Core, job: Job) {
        if job.owed == Owed::Nothing {
            // There is nobody to tell how it went.
            let _ = nvm::execute(core, &mut self.scratch, self.page, &job.sqe);
            return;
        }
        let late = core.deviations.late_data(job.queue.qid, job.sqe.cid());
        if let Some(delay) = late.filter(|_| !job.queue.qid.is_admin()) {
            finish(core, Arc::clone(&job.queue), &job.sqe, Ok(0), true);
            self.jobs.push(Reverse(Job { due: core.later(delay), owed: Owed::Nothing, ..job }));
            return;
        }
        let reply = if job.queue.qid.is_admin() {
            admin::execute(core, self, &job.sqe)
        } else {
            Reply::Done(nvm::execute(core, &mut self.scratch, self.page, &job.sqe))
        };
        if let Reply::Done(result) = reply {
            finish(core, job.queue, &job.sqe, result, true);
        }
    }

    /// Posts completions that waited for room.
    pub(super) fn drain(&self, core: &Core) -> bool {
        self.completion.iter().fold(false, |any, queue| {
            let waiting = core.bells.of(queue.qid, DoorbellKind::CompletionHead).is_waiting();
            (waiting && queue.drain(core)) || any
        })
    }

    /// Completes event requests for which there are events.
    pub(super) fn deliver_events(&self, core: &Core) -> bool {
        let Some(admin) = self.admin_queue() else { return false };
        let mut any = false;
        loop {
            let delivered = core.state().events.deliver();
            let Some((cid, event)) = delivered else { return any };
            any = true;
            post(core, Arc::clone(&admin), cid, Status::SUCCESS, event.event().to_result().into(), true);
        }
    }

    /// Asks for doorbells, since nobody will poll the shadows for a while.
    pub(super) fn ask_for_doorbells(&self, core: &Core) {
        if !core.shadow.in_use() {
            return;
        }
        for queue in &self.submission {
            let bell = core.bells.of(queue.qid, DoorbellKind::SubmissionTail);
            core.ask_for_doorbell(queue.qid, DoorbellKind::SubmissionTail, bell.value());
        }
        // The event indices before the look at the shadows that follows; the host does it the other way round.
        fence(atomic::Ordering::SeqCst);
    }
}

impl Core {
    /// One pass over a lane.
    pub(super) fn service(&self, index: usize, fetches: usize, executions: usize) -> Progress {
        if !self.is_running() {
            return Progress::default();
        }
        let mut lane = self.lane(index);
        // Again, now that nobody can stop the controller without us.
        if !self.is_running() {
            return Progress::default();
        }
        let mut worked = lane.fetch(self, fetches);
        worked |= lane.run_due(self, executions);
        worked |= lane.drain(self);
        worked |= index == 0 && lane.deliver_events(self);
        Progress { worked, next_due: lane.next_due() }
    }
}

impl Progress {
    pub(super) fn and(self, other: Self) -> Self {
        let next_due = self.next_due.into_iter().chain(other.next_due).min();
        Self { worked: self.worked || other.worked, next_due }
    }
}

/// How far a command may be put off behind later ones.
const DISORDER: u64 = 64;

/// Whether there is something to fetch. The shadow is looked at only when all that is known was fetched.
fn has_entry(core: &Core, queue: &SubmissionQueue) -> bool {
    let bell = core.bells.of(queue.qid, DoorbellKind::SubmissionTail);
    bell.value() != queue.head() || {
        core.poll_shadow(queue.qid, DoorbellKind::SubmissionTail, bell);
        bell.value() != queue.head()
    }
}

/// Completes a command.
pub(super) fn finish(
    core: &Core,
    queue: Arc<SubmissionQueue>,
    sqe: &Sqe,
    result: Result<u64, Status>,
    frees_cid: bool,
) {
    let (status, result) = match result {
        Ok(result) => (Status::SUCCESS, result),
        Err(status) => (report(core, &queue, sqe, status), 0),
    };
    post(core, queue, sqe.cid(), status, result, frees_cid);
}

/// Logs an error, and says with it whether a retry makes sense.
#[cold]
fn report(core: &Core, queue: &SubmissionQueue, sqe: &Sqe, status: Status) -> Status {
    let status = if is_transient(status) { status } else { status.with_do_not_retry() };
    if status.is(generic::ABORT_REQUESTED) || status.is(generic::ABORTED_SQ_DELETED) {
        return status;
    }
    let lba = if queue.qid.is_admin() { 0 } else { sqe.cdw10_11() };
    let (cid, nsid, opcode) = (sqe.cid(), sqe.nsid(), sqe.opcode);
    core.subsystem.log_error(LoggedError { count: 0, qid: queue.qid, cid, status, lba, nsid, opcode });
    status.with_more()
}

/// Whether the same command could succeed later.
fn is_transient(status: Status) -> bool {
    [
        generic::DATA_TRANSFER_ERROR,
        generic::INTERNAL_ERROR,
        generic::ABORT_REQUESTED,
        generic::ABORTED_SQ_DELETED,
        generic::NAMESPACE_NOT_READY,
        generic::SANITIZE_IN_PROGRESS,
        generic::FORMAT_IN_PROGRESS,
        generic::CAPACITY_EXCEEDED,
        media::WRITE_FAULT,
        command::ABORT_LIMIT_EXCEEDED,
    ]
    .into_iter()
    .any(|transient| status.is(transient))
}

fn post(core: &Core, queue: Arc<SubmissionQueue>, cid: Cid, status: Status, result: u64, frees_cid: bool) {
    let completion = Arc::clone(&queue.completion);
    completion.post(core, Done { queue, cid, status, result, frees_cid });
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By time, then by order.
impl Ord for Job {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}
