//! An I/O path whose completions go wrong.
//!
//! UNSAFETY: stages a command without addresses in the place of one that is to fail.

#![allow(unsafe_code)]

use super::plan::{Access, What};
use super::state::State;
use crate::emu::Deviation;
use crate::{Clock, Command, Instant, Port, Violation};
use nvme_proto::admin::FeatureId;
use nvme_proto::admin::Opcode as AdminOpcode;
use nvme_proto::nvm::Opcode as NvmOpcode;
use nvme_proto::status::media;
use nvme_proto::{Cid, Cqe, Nsid, Qid, Sqe, Status};
use std::sync::Arc;
use zerocopy::little_endian::{U16, U32};

/// A port that breaks its promise: completions may be missing, late, double, or wrong.
#[derive(Debug)]
pub struct FaultyPort<P, C> {
    port: P,
    clock: C,
    state: Arc<State>,
    qid: Qid,
    active: bool,
    /// What is to happen to completions. Room for every command, so that nothing is allocated later.
    marks: Vec<Mark>,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Mark {
    cid: Cid,
    effect: Effect,
}

/// What happens to a completion.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Status(Status),
    Drop,
    Delay(core::time::Duration),
    Duplicate,
    Cid(u16),
}

/// A completion that is seen later.
#[derive(Debug)]
struct Held {
    due: Instant,
    cqe: Cqe,
}

impl<P: Port, C: Clock> FaultyPort<P, C> {
    pub(super) fn new(port: P, clock: C, state: Arc<State>, qid: Qid) -> Self {
        let active = !state.is_empty();
        let room = if active { usize::from(port.entries()) } else { 0 };
        let (marks, held) = (Vec::with_capacity(room), Vec::with_capacity(room));
        Self { port, clock, state, qid, active, marks, held }
    }

    pub(super) fn qid(&self) -> Qid {
        self.qid
    }

    pub(super) fn into_inner(self) -> P {
        self.port
    }

    #[cold]
    fn stage_by_plan(&mut self, cid: Cid, command: &Command<'_>) {
        let state = Arc::clone(&self.state);
        let mut effect = None;
        let mut fails = false;
        for rule in
            state.rules.iter().filter(|rule| rule.meets(&self.state, &self.clock, self.qid, &command.sqe()))
        {
            let own = match rule.fault.what {
                What::Fail(status) => Err(status),
                What::Media(Access::Read) => Err(media::UNRECOVERED_READ_ERROR.with_do_not_retry()),
                What::Media(Access::Write) => Err(media::WRITE_FAULT),
                What::CorruptStatus(status) => Ok(Effect::Status(status)),
                What::Drop => Ok(Effect::Drop),
                What::Delay(by) => Ok(Effect::Delay(by)),
                What::Duplicate => Ok(Effect::Duplicate),
                What::CorruptCid(bits) => Ok(Effect::Cid(bits)),
                What::CorruptSqhd(bits) => {
                    self.state.deviate(self.qid, cid, Deviation::SubmissionHead(bits));
                    continue;
                }
                What::CorruptPhase => {
                    self.state.deviate(self.qid, cid, Deviation::Phase);
                    continue;
                }
                What::LateData(by) => {
                    self.state.deviate(self.qid, cid, Deviation::LateData(by));
                    continue;
                }
                What::Hang | What::Fatal | What::Gone => {
                    self.state.begin(rule);
                    continue;
                }
                What::SlowReady(_) | What::StuckDisable => continue,
            };
            if effect.is_none() {
                fails = own.is_err();
                effect = Some(own.unwrap_or_else(Effect::Status));
            }
        }
        if let Some(effect) = effect
            && self.marks.len() < self.marks.capacity()
        {
            self.marks.push(Mark { cid, effect });
            self.state.note();
        }
        if fails { self.port.stage(cid, &harmless(self.qid)) } else { self.port.stage(cid, command) }
    }

    #[cold]
    fn next_by_plan(&mut self) -> Option<Cqe> {
        self.state.let_time_pass(&self.clock);
        if self.state.is_silent(self.qid) {
            return None;
        }
        if let Some(cqe) = self.next_held() {
            return Some(cqe);
        }
        loop {
            let cqe = self.port.next()?;
            let Some(at) = self.marks.iter().position(|mark| mark.cid == cqe.cid()) else { return Some(cqe) };
            let effect = self.marks.swap_remove(at).effect;
            if let Some(seen) = self.alter(cqe, effect) {
                return Some(seen);
            }
        }
    }

    fn next_held(&mut self) -> Option<Cqe> {
        if self.held.is_empty() {
            return None;
        }
        let now = self.clock.now();
        let at = self.held.iter().position(|held| held.due <= now)?;
        Some(self.held.remove(at).cqe)
    }

    fn alter(&mut self, mut cqe: Cqe, effect: Effect) -> Option<Cqe> {
        match effect {
            Effect::Status(status) => {
                cqe.status = U16::new(status.to_field(cqe.phase()));
                (cqe.dw0, cqe.dw1) = (U32::ZERO, U32::ZERO);
            }
            Effect::Cid(bits) => cqe.cid = U16::new(cqe.cid.get() ^ bits),
            Effect::Drop => return None,
            Effect::Delay(by) => {
                self.hold(self.clock.now().after(by), cqe);
                return None;
            }
            Effect::Duplicate => self.hold(Instant::default(), cqe),
        }
        Some(cqe)
    }

    fn hold(&mut self, due: Instant, cqe: Cqe) {
        if self.held.len() < self.held.capacity() {
            self.held.push(Held { due, cqe });
        }
    }
}

impl<P: Port, C: Clock> Port for FaultyPort<P, C> {
    #[inline]
    fn entries(&self) -> u16 {
        self.port.entries()
    }

    #[inline]
    fn stage(&mut self, cid: Cid, command: &Command<'_>) {
        if self.active { self.stage_by_plan(cid, command) } else { self.port.stage(cid, command) }
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let deaf = self.active && self.state.is_deaf();
        !deaf && self.port.publish()
    }

    #[inline]
    fn next(&mut self) -> Option<Cqe> {
        if self.active { self.next_by_plan() } else { self.port.next() }
    }

    #[inline]
    fn retire(&mut self) -> Result<(), Violation> {
        self.port.retire()
    }
}

/// A command that moves nothing and changes nothing: Get Features of the number of queues, or a Flush of no namespace.
fn harmless(qid: Qid) -> Command<'static> {
    let sqe = if qid.is_admin() {
        let mut sqe = Sqe::new(AdminOpcode::GET_FEATURES.0, Nsid::NONE);
        sqe.cdw10 = U32::new(FeatureId::NUMBER_OF_QUEUES.0.into());
        sqe
    } else {
        Sqe::new(NvmOpcode::FLUSH.0, Nsid::NONE)
    };
    // SAFETY: neither command has an address: that feature is in DW0 of the completion, and a flush has no data.
    unsafe { Command::new_unchecked(sqe) }
}
