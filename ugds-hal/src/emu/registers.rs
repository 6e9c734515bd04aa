//! The registers, and what reading and writing them does.

use super::breach::Breach;
use super::model::Core;
use core::sync::atomic::Ordering;
use core::time::Duration;
use nvme_proto::register::{
    Aqa, Cap, Cc, CommandSets, Crto, Csts, GONE_32, NSSR_RESET, Property, ShutdownNotification,
    ShutdownStatus, Vs, decode_doorbell,
};

/// What the registers hold, and how far the controller is.
#[derive(Debug, Default)]
pub(super) struct Registers {
    pub(super) cc: Cc,
    pub(super) aqa: Aqa,
    pub(super) asq: u64,
    pub(super) acq: u64,
    pub(super) phase: Phase,
    pub(super) shutdown: Shutdown,
    /// `CSTS.NSSRO`.
    pub(super) subsystem_reset: bool,
}

/// How far the controller is. Delays end when somebody looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Disabled,
    /// Enabled, and ready from that time on; never without one.
    Enabling(Option<u64>),
    Ready,
    /// Enabled with a configuration that can't be, or one that fails by order.
    Failed,
    /// Disabled from that time on.
    Disabling(u64),
}

/// How far a shutdown is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shutdown {
    #[default]
    None,
    /// Complete from that time on; never without one.
    InProgress(Option<u64>),
    Complete,
}

impl Core {
    /// Loads 32 bits from BAR 0. Reserved space reads as 0, and so do doorbells.
    pub(super) fn load_register(&self, offset: u32) -> u32 {
        let reads = self.counters.register_reads.fetch_add(1, Ordering::Relaxed) + 1;
        if self.config.oddities.gone_after_register_reads.is_some_and(|limit| reads > limit) {
            self.set_gone(true);
        }
        if self.is_gone() {
            return GONE_32;
        }
        let mut registers = self.registers();
        self.settle(&mut registers);
        let Some(property) = Property::at(offset & !3) else { return 0 };
        let value = self.property(&registers, property);
        (value >> (8 * (offset & !3).saturating_sub(property.offset()))) as u32
    }

    /// Stores 32 bits to BAR 0.
    pub(super) fn store_register(&self, offset: u32, value: u32) {
        if self.is_gone() {
            return;
        }
        if let Some((qid, kind)) = decode_doorbell(offset.into(), self.config.dstrd) {
            return self.ring(qid, kind, value);
        }
        let mut registers = self.registers();
        self.settle(&mut registers);
        let half = |old: u64, high: bool| {
            let (low, top) = (old as u32, (old >> 32) as u32);
            if high {
                u64::from(value) << 32 | u64::from(low)
            } else {
                u64::from(top) << 32 | u64::from(value)
            }
        };
        let Some(property) = Property::at(offset & !3) else {
            return self.breach(Breach::ReadOnlyRegister { offset });
        };
        let high = offset & !3 != property.offset();
        match property {
            Property::INTMS => self.interrupts.set_mask(value),
            Property::INTMC => self.interrupts.clear_mask(value, &self.counters),
            Property::CC => self.configure(&mut registers, Cc::from_bits(value)),
            Property::CSTS => self.clear_status(&mut registers, Csts::from_bits(value)),
            Property::NSSR if value == NSSR_RESET => self.reset_subsystem(&mut registers),
            Property::NSSR => {}
            Property::AQA | Property::ASQ | Property::ACQ if registers.cc.en() => {
                self.breach(Breach::ChangedWhileEnabled { offset });
            }
            Property::AQA => registers.aqa = Aqa::from_bits(value),
            Property::ASQ => registers.asq = half(registers.asq, high),
            Property::ACQ => registers.acq = half(registers.acq, high),
            _ => self.breach(Breach::ReadOnlyRegister { offset }),
        }
    }

    fn property(&self, registers: &Registers, property: Property) -> u64 {
        match property {
            Property::CAP => self.capabilities().into_bits(),
            Property::VS => Vs::of(2, 0, 0).into_bits().into(),
            Property::INTMS | Property::INTMC => self.interrupts.mask().into(),
            Property::CC => registers.cc.into_bits().into(),
            Property::CSTS => self.status(registers).into_bits().into(),
            Property::AQA => registers.aqa.into_bits().into(),
            Property::ASQ => registers.asq,
            Property::ACQ => registers.acq,
            Property::CRTO => {
                let units = u16::from(self.config.timeout);
                Crto::new().with_crwmt(units).with_crimt(units).into_bits().into()
            }
            _ => 0,
        }
    }

    pub(super) fn capabilities(&self) -> Cap {
        Cap::new()
            .with_mqes_z(self.config.mqes_z)
            .with_cqr(self.config.cqr)
            .with_to(self.config.timeout)
            .with_dstrd(self.config.dstrd)
            .with_nssrs(true)
            .with_css(CommandSets::NVM.bits())
            .with_mpsmin(self.config.mpsmin)
            .with_mpsmax(self.config.mpsmax)
            .with_crwms(true)
    }

    fn status(&self, registers: &Registers) -> Csts {
        let shutdown = match registers.shutdown {
            Shutdown::None => ShutdownStatus::NONE,
            Shutdown::InProgress(_) => ShutdownStatus::IN_PROGRESS,
            Shutdown::Complete => ShutdownStatus::COMPLETE,
        };
        Csts::new()
            .with_rdy(matches!(registers.phase, Phase::Ready | Phase::Disabling(_)))
            .with_cfs(registers.phase == Phase::Failed || self.is_failed())
            .with_shst(shutdown)
            .with_nssro(registers.subsystem_reset)
    }

    fn clear_status(&self, registers: &mut Registers, written: Csts) {
        if written.nssro() {
            registers.subsystem_reset = false;
        } else {
            self.breach(Breach::ReadOnlyRegister { offset: Property::CSTS.offset() });
        }
    }

    fn configure(&self, registers: &mut Registers, new: Cc) {
        let old = registers.cc;
        match (old.en(), new.en()) {
            (false, false) => registers.cc = new,
            (false, true) => {
                if let Phase::Disabling(_) = registers.phase {
                    self.breach(Breach::EnabledBeforeIdle);
                    self.tear_down(registers);
                }
                registers.cc = new;
                self.enable(registers);
            }
            (true, false) => {
                if let Phase::Enabling(_) = registers.phase {
                    self.breach(Breach::DisabledBeforeReady);
                }
                registers.cc = new;
                self.disable(registers);
            }
            (true, true) => {
                if old.with_shn(ShutdownNotification::NONE) != new.with_shn(ShutdownNotification::NONE) {
                    self.breach(Breach::ChangedWhileEnabled { offset: Property::CC.offset() });
                }
                registers.cc = old.with_shn(new.shn());
            }
        }
        self.notify_shutdown(registers, old.shn(), new.shn());
    }

    fn notify_shutdown(
        &self,
        registers: &mut Registers,
        old: ShutdownNotification,
        new: ShutdownNotification,
    ) {
        let asked = |shn| shn == ShutdownNotification::NORMAL || shn == ShutdownNotification::ABRUPT;
        if asked(new) && !asked(old) {
            let oddities = &self.config.oddities;
            let done = (!oddities.shutdown_never_completes).then(|| self.later(oddities.shutdown_delay));
            registers.shutdown = Shutdown::InProgress(done);
            self.settle(registers);
        } else if asked(old) && !asked(new) && registers.shutdown == Shutdown::Complete {
            registers.shutdown = Shutdown::None;
        }
    }

    pub(super) fn later(&self, delay: Duration) -> u64 {
        self.now().saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX))
    }
}
