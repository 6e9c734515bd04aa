//! What a write to a doorbell register does: it checks, stores, and wakes whoever serves the queue.

use super::bells::Ignored;
use super::breach::Breach;
use super::dma::Purpose;
use super::events::AsyncEvent;
use super::model::Core;
use super::stats;
use core::sync::atomic::{Ordering, fence};
use nvme_proto::register::DoorbellKind;
use nvme_proto::{BusAddr, Qid};

impl Core {
    /// A doorbell register is written.
    pub(super) fn ring(&self, qid: Qid, kind: DoorbellKind, value: u32) {
        let counter = match kind {
            DoorbellKind::SubmissionTail => &self.counters.submission_doorbells,
            DoorbellKind::CompletionHead => &self.counters.completion_doorbells,
        };
        stats::add(counter, 1);
        let bell = self.bells.get(qid, kind);
        let Some(bell) = bell else { return self.ring_refused(qid, kind, value, Ignored::NoQueue) };
        if let Some([shadow, _]) = self.shadow_of(qid, kind) {
            self.check_shadow(qid, shadow, value);
        } else if let Err(why) = bell.ring(kind, value) {
            return self.ring_refused(qid, kind, value, why);
        }
        // Full fence: the value is stored before we look who sleeps; the sleeper does it the other way round.
        fence(Ordering::SeqCst);
        if kind == DoorbellKind::SubmissionTail || bell.is_waiting() {
            self.wake(qid);
        }
    }

    #[cold]
    fn ring_refused(&self, qid: Qid, kind: DoorbellKind, value: u32, why: Ignored) {
        if self.is_gone() {
            return;
        }
        if !self.is_ready() {
            return self.breach(Breach::DoorbellNotReady { qid });
        }
        match why {
            Ignored::NoQueue => {
                self.breach(Breach::DoorbellWithoutQueue { qid, kind });
                self.raise_event(AsyncEvent::InvalidDoorbellRegister);
            }
            Ignored::Value => self.bad_value(qid, kind, value),
        }
    }

    #[cold]
    pub(super) fn bad_value(&self, qid: Qid, kind: DoorbellKind, value: u32) {
        self.breach(Breach::DoorbellValue { qid, kind, value });
        self.raise_event(AsyncEvent::InvalidDoorbellValue);
    }

    /// The host stores the shadow first, so the register can't be ahead of it or behind.
    fn check_shadow(&self, qid: Qid, shadow: BusAddr, register: u32) {
        match self.dma.load(shadow, Purpose::Shadow) {
            Ok(shadow) if shadow == register => {}
            Ok(shadow) => self.breach(Breach::ShadowDiffers { qid, register, shadow }),
            Err(_) => self.fail(),
        }
    }
}
