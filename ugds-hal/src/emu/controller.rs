//! The controller's life: enabled, ready, disabled, shut down, reset, without power.

use super::model::Core;
use super::queue::{CompletionQueue, Ring, SubmissionQueue};
use super::registers::{Phase, Registers, Shutdown};
use nvme_proto::register::{CommandSetSelect, DoorbellKind};
use nvme_proto::{BusAddr, Qid};
use std::sync::Arc;

impl Core {
    /// Lets everything happen whose time has come.
    pub(super) fn settle(&self, registers: &mut Registers) {
        let now = self.now();
        match registers.phase {
            Phase::Enabling(Some(at)) if at <= now => self.become_ready(registers),
            Phase::Disabling(at) if at <= now => self.tear_down(registers),
            _ => {}
        }
        if let Shutdown::InProgress(Some(at)) = registers.shutdown
            && at <= now
        {
            self.finish_shutdown(registers);
        }
    }

    /// When the next thing happens by itself.
    pub(super) fn next_transition(registers: &Registers) -> Option<u64> {
        let phase = match registers.phase {
            Phase::Enabling(at) => at,
            Phase::Disabling(at) => Some(at),
            _ => None,
        };
        let shutdown = match registers.shutdown {
            Shutdown::InProgress(at) => at,
            _ => None,
        };
        phase.into_iter().chain(shutdown).min()
    }

    pub(super) fn enable(&self, registers: &mut Registers) {
        let oddities = &self.config.oddities;
        registers.shutdown = Shutdown::None;
        registers.phase = if !self.is_possible(registers) || oddities.cfs_on_enable {
            Phase::Failed
        } else if oddities.never_ready {
            Phase::Enabling(None)
        } else {
            Phase::Enabling(Some(self.later(oddities.ready_delay)))
        };
        self.settle(registers);
    }

    /// Whether a controller can run with this configuration. A real one would set `CFS` too, or never get ready.
    fn is_possible(&self, registers: &Registers) -> bool {
        let cc = registers.cc;
        let page = cc.page();
        let aligned = |address| BusAddr(address).offset_in(page) == 0;
        (self.config.mpsmin..=self.config.mpsmax).contains(&cc.mps())
            && cc.css() == CommandSetSelect::NVM
            && cc.ams() == 0
            && (cc.iosqes(), cc.iocqes()) == (6, 4)
            && !cc.crime()
            && registers.aqa.asqs_z() >= 1
            && registers.aqa.acqs_z() >= 1
            && aligned(registers.asq)
            && aligned(registers.acq)
    }

    fn become_ready(&self, registers: &mut Registers) {
        let (asq, acq) = (Ring::Contiguous(BusAddr(registers.asq)), Ring::Contiguous(BusAddr(registers.acq)));
        let (sq_entries, cq_entries) = (registers.aqa.asq_entries(), registers.aqa.acq_entries());
        // Vector 0 is the admin queue's, if there are vectors at all.
        let vector = self.interrupts.exists(0).then_some(0);
        let completion = Arc::new(CompletionQueue::new(Qid::ADMIN, cq_entries, acq, vector));
        let submission = Arc::new(SubmissionQueue::new(Qid::ADMIN, sq_entries, asq, Arc::clone(&completion)));
        self.at_rest(|lanes| {
            for lane in lanes.iter_mut() {
                lane.page = registers.cc.page();
            }
            if let Some(admin) = lanes.first_mut() {
                admin.add_completion(completion);
                admin.add_submission(submission);
            }
            self.bells.of(Qid::ADMIN, DoorbellKind::SubmissionTail).open(sq_entries);
            self.bells.of(Qid::ADMIN, DoorbellKind::CompletionHead).open(cq_entries);
        });
        registers.phase = Phase::Ready;
        self.set_ready(true);
    }

    pub(super) fn disable(&self, registers: &mut Registers) {
        if registers.phase == Phase::Ready {
            registers.phase = Phase::Disabling(self.later(self.config.oddities.disable_delay));
            self.settle(registers);
        } else {
            self.tear_down(registers);
        }
    }

    /// Ends everything that the controller does, without completions. When this returns, no access to host memory is
    /// under way, and none follows.
    pub(super) fn tear_down(&self, registers: &mut Registers) {
        self.set_ready(false);
        self.bells.close_all();
        self.at_rest(|lanes| lanes.iter_mut().for_each(|lane| lane.clear()));
        self.shadow.forget();
        self.deviations.clear();
        self.state().reset(&self.config);
        // The feature is at its default again. What can't be written back stays in the cache and fails the next flush.
        let _ = self.namespaces.store().set_caching(self.config.vwc);
        self.interrupts.reset();
        self.pipe.reset();
        self.clear_failure();
        registers.phase = Phase::Disabled;
        registers.shutdown = Shutdown::None;
    }

    /// Makes everything durable. Commands that are still outstanding are dropped: the host was to wait for them.
    fn finish_shutdown(&self, registers: &mut Registers) {
        self.set_ready(false);
        self.bells.close_all();
        self.at_rest(|lanes| lanes.iter_mut().for_each(|lane| lane.clear()));
        if self.namespaces.store().flush().is_err() {
            // The host must not take this for a clean end.
            self.fail();
            registers.shutdown = Shutdown::InProgress(None);
            return;
        }
        registers.shutdown = Shutdown::Complete;
    }

    /// `NSSR`: like a reset of every controller, and `CSTS.NSSRO` says so afterwards.
    pub(super) fn reset_subsystem(&self, registers: &mut Registers) {
        self.tear_down(registers);
        *registers = Registers { subsystem_reset: true, ..Registers::default() };
    }

    /// The power fails: the device is gone, and so is what was only cached.
    pub(super) fn lose_power(&self, survivors: Option<u64>) {
        let mut registers = self.registers();
        self.set_gone(true);
        let clean = registers.shutdown == Shutdown::Complete;
        self.tear_down(&mut registers);
        *registers = Registers::default();
        self.namespaces.store().lose(survivors);
        self.subsystem.note_power_loss(clean);
    }

    /// The power comes back.
    pub(super) fn restore_power(&self) {
        let _registers = self.registers();
        self.subsystem.note_power_on();
        self.set_gone(false);
    }
}
