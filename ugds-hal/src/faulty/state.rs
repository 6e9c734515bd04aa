//! How far a plan is.

use super::backend::Model;
use super::plan::{Access, Fault, FaultPlan, What};
use crate::command::blocks_of;
use crate::emu::Deviation;
use crate::{Clock, Instant};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use nvme_proto::{Cid, Qid, Sqe, nvm};
use std::sync::Arc;

/// What the ports and the registers of one wrapped backend share.
///
/// All the atomics are relaxed: each stands for itself, and a device's misbehaviour has no order to keep.
pub(super) struct State {
    pub(super) rules: Box<[Rule]>,
    pub(super) started: Instant,
    model: Option<Arc<dyn Model>>,
    /// Whether some fault happens by time alone.
    timed: bool,
    gone: AtomicBool,
    failed: AtomicBool,
    hung: AtomicBool,
    fired: AtomicU64,
}

/// A fault, and how often its trigger was met.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) fault: Fault,
    seen: AtomicU64,
    /// Of a hang: it lasts.
    lasts: AtomicBool,
}

impl State {
    pub(super) fn new(plan: FaultPlan, started: Instant, model: Option<Arc<dyn Model>>) -> Self {
        let rule = |fault| Rule { fault, seen: AtomicU64::new(0), lasts: AtomicBool::new(false) };
        let rules: Box<[Rule]> = plan.faults.into_iter().map(rule).collect();
        let timed = rules.iter().any(Rule::is_timed);
        Self {
            rules,
            started,
            model,
            timed,
            gone: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            fired: AtomicU64::new(0),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self) {
        self.fired.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(super) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Lets faults happen whose time has come.
    pub(super) fn let_time_pass(&self, clock: &impl Clock) {
        if !self.timed {
            return;
        }
        for rule in self.rules.iter().filter(|rule| rule.is_timed()) {
            if rule.seen.load(Ordering::Relaxed) == 0
                && clock.now() >= self.started.after(rule.fault.when.after)
            {
                rule.seen.store(1, Ordering::Relaxed);
                self.begin(rule);
            }
        }
    }

    /// Begins a fault that lasts.
    pub(super) fn begin(&self, rule: &Rule) {
        let flag = match rule.fault.what {
            What::Hang => {
                rule.lasts.store(true, Ordering::Relaxed);
                &self.hung
            }
            What::Fatal => &self.failed,
            What::Gone => &self.gone,
            _ => return,
        };
        flag.store(true, Ordering::Relaxed);
        self.note();
    }

    /// Whether the device takes no doorbells any more.
    pub(super) fn is_deaf(&self) -> bool {
        self.is_gone() || self.is_failed()
    }

    /// Whether no completion of that queue is seen any more.
    pub(super) fn is_silent(&self, qid: Qid) -> bool {
        let hangs = |rule: &Rule| rule.lasts.load(Ordering::Relaxed) && rule.admits(qid);
        self.is_deaf() || (self.hung.load(Ordering::Relaxed) && self.rules.iter().any(hangs))
    }

    /// The controller was reset: what lasted until then ends.
    pub(super) fn reset(&self) {
        self.failed.store(false, Ordering::Relaxed);
        self.hung.store(false, Ordering::Relaxed);
        self.rules.iter().for_each(|rule| rule.lasts.store(false, Ordering::Relaxed));
    }

    pub(super) fn deviate(&self, qid: Qid, cid: Cid, deviation: Deviation) {
        if let Some(model) = &self.model {
            model.deviate(qid, cid, deviation);
            self.note();
        }
    }
}

impl Rule {
    /// Whether a command meets the trigger; then it counts.
    pub(super) fn meets(&self, state: &State, clock: &impl Clock, qid: Qid, sqe: &Sqe) -> bool {
        let when = &self.fault.when;
        let wanted = !self.is_timed()
            && self.admits(qid)
            && when.opcode.is_none_or(|opcode| opcode == sqe.opcode)
            && self.is_access(qid, sqe)
            && when.blocks.is_none_or(|blocks| {
                blocks_of(qid, sqe).is_some_and(|(first, count)| blocks.overlaps(first, count))
            });
        wanted && self.counts(state, clock)
    }

    /// Counts one more occasion, and says whether it is one that the trigger means.
    pub(super) fn counts(&self, state: &State, clock: &impl Clock) -> bool {
        let when = &self.fault.when;
        if !when.after.is_zero() && clock.now() < state.started.after(when.after) {
            return false;
        }
        let count = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        when.nth.is_none_or(|nth| nth.holds(count))
    }

    fn is_timed(&self) -> bool {
        matches!(self.fault.what, What::Hang | What::Fatal | What::Gone) && self.fault.when.is_time()
    }

    fn admits(&self, qid: Qid) -> bool {
        self.fault.when.qid.is_none_or(|wanted| wanted == qid)
    }

    fn is_access(&self, qid: Qid, sqe: &Sqe) -> bool {
        match self.fault.what {
            What::Media(Access::Read) => !qid.is_admin() && sqe.opcode == nvm::Opcode::READ.0,
            What::Media(Access::Write) => !qid.is_admin() && sqe.opcode == nvm::Opcode::WRITE.0,
            // Other commands have no data that could be late.
            What::LateData(_) => {
                !qid.is_admin() && [nvm::Opcode::READ.0, nvm::Opcode::WRITE.0].contains(&sqe.opcode)
            }
            What::SlowReady(_) | What::StuckDisable => false,
            _ => true,
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("rules", &self.rules)
            .field("fired", &self.fired)
            .finish_non_exhaustive()
    }
}
