//! What a test does to a model behind the driver's back, and what it asks it.

use super::backend::Emu;
use super::breach::Breach;
use super::config::EmuConfig;
use super::dma::DmaViolation;
use super::events::AsyncEvent;
use super::namespace::MediaFault;
use super::registers::Registers;
use super::stats::EmuStats;
use super::subsystem::Health;
use nvme_proto::Nsid;

/// How the model is moved and what it has seen.
impl Emu {
    /// Does one thing under virtual time: fetches what there is, or executes one command, or moves the time to the
    /// next event. `false` when nothing will happen by itself any more. Does nothing in thread mode.
    pub fn step(&self) -> bool {
        self.core().config.mode == super::Mode::Stepped && self.core().step(None)
    }

    /// Steps until nothing happens by itself any more, and returns how many steps that took.
    pub fn run_until_idle(&self) -> usize {
        core::iter::from_fn(|| self.step().then_some(())).count()
    }

    /// The description that the model was made from.
    #[must_use]
    pub fn config(&self) -> &EmuConfig {
        &self.core().config
    }

    /// The accesses to host memory that were refused, the oldest first, up to 1024 of them. A driver that is right
    /// causes none.
    #[must_use]
    pub fn violations(&self) -> Vec<DmaViolation> {
        self.core().dma.violations()
    }

    /// Breaches of the protocol by the driver, the oldest first, up to 1024 of them.
    #[must_use]
    pub fn breaches(&self) -> Vec<Breach> {
        self.core().breaches()
    }

    /// Panics when the driver did something wrong, with what it was.
    ///
    /// # Panics
    ///
    /// When there are [`violations`](Self::violations) or [`breaches`](Self::breaches).
    #[track_caller]
    pub fn assert_clean(&self) {
        let (violations, breaches) = (self.violations(), self.breaches());
        assert!(
            violations.is_empty() && breaches.is_empty(),
            "the driver did wrong: {violations:?} {breaches:?}"
        );
    }

    /// Mappings that exist. 0 once everything was let go.
    #[must_use]
    pub fn live_mappings(&self) -> usize {
        self.core().dma.live()
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> EmuStats {
        self.core().counters.snapshot(self.core().dma.refused())
    }

    /// Bytes that a loss of power would lose now.
    #[must_use]
    pub fn unflushed_bytes(&self) -> u64 {
        self.core().namespaces.store().unflushed_bytes()
    }
}

/// What is done to the device.
impl Emu {
    /// Takes the power away: registers read as all ones, commands in flight are lost, and so is what was written and
    /// not flushed. No access to host memory follows.
    pub fn crash(&self) {
        self.core().lose_power(None);
    }

    /// As [`crash`](Self::crash), but each cached block of 512 bytes survives by the toss of a coin: a cache may have
    /// written back whatever it liked.
    pub fn crash_keeping_some(&self, seed: u64) {
        self.core().lose_power(Some(seed));
    }

    /// Brings the power back after a crash: the controller is disabled, and what was durable is there.
    pub fn power_on(&self) {
        self.core().restore_power();
    }

    /// Takes the power away and brings it back.
    pub fn power_cycle(&self) {
        self.crash();
        self.power_on();
    }

    /// Removes the device by surprise: registers read as all ones, and commands in flight stop. What is cached stays.
    pub fn remove(&self) {
        // At rest, so that nothing is half done when this returns.
        self.core().at_rest(|_| self.core().set_gone(true));
    }

    /// Plugs the device in again after [`remove`](Self::remove). Its controller has been reset.
    pub fn plug_in(&self) {
        let mut registers = self.core().registers();
        self.core().tear_down(&mut registers);
        *registers = Registers::default();
        self.core().set_gone(false);
    }

    /// Makes the controller report a fatal error (`CSTS.CFS`) and stop.
    pub fn fail(&self) {
        self.core().at_rest(|_| self.core().fail());
    }

    /// Fails commands on blocks. Replaces the namespace's faults.
    pub fn set_media_faults(&self, nsid: Nsid, faults: Vec<MediaFault>) {
        if let Some(namespace) = self.core().namespaces.get(nsid) {
            namespace.write().faults = faults;
        }
    }

    /// Sets the composite temperature, which may warn.
    pub fn set_temperature(&self, kelvins: u16) {
        self.core().subsystem.set_temperature(kelvins);
        self.core().watch_temperature();
    }

    /// Changes the health. Warnings that are new raise their events.
    pub fn set_health(&self, change: impl FnOnce(&mut Health)) {
        let new = {
            let mut health = self.core().subsystem.health();
            let before = health.critical_warning;
            change(&mut health);
            health.critical_warning & !before
        };
        for (bit, event) in
            [(1, AsyncEvent::Spare), (2, AsyncEvent::Temperature), (4, AsyncEvent::Reliability)]
        {
            if new & bit != 0 {
                self.core().raise_event(event);
            }
        }
    }

    /// Raises an event as if it had happened.
    pub fn raise(&self, event: AsyncEvent) {
        self.core().raise_event(event);
    }

    /// Reports that a namespace changed: its event, and its entry in the log.
    pub fn raise_namespace_changed(&self, nsid: Nsid) {
        self.core().state().changed_namespaces.insert(nsid.0);
        self.core().raise_event(AsyncEvent::NamespaceChanged);
    }

    /// Attaches a namespace to the controller, or detaches it, and reports it. `false` when there is none.
    pub fn set_attached(&self, nsid: Nsid, attached: bool) -> bool {
        self.change(nsid, |state| state.attached = attached)
    }

    /// Changes whether a namespace is write protected, and reports it. `false` when there is none.
    pub fn set_write_protected(&self, nsid: Nsid, write_protected: bool) -> bool {
        self.change(nsid, |state| state.write_protected = write_protected)
    }

    /// Changes the size of a namespace, up to the size that it was made with, and reports it. `false` when there is
    /// none, or the size is too large.
    pub fn resize(&self, nsid: Nsid, size_bytes: u64) -> bool {
        let fits = |limit| size_bytes <= limit;
        self.core().namespaces.get(nsid).is_some_and(|namespace| fits(namespace.config.size_bytes))
            && self.change(nsid, |state| state.size_bytes = size_bytes)
    }

    fn change(&self, nsid: Nsid, change: impl FnOnce(&mut super::namespace::NamespaceState)) -> bool {
        let Some(namespace) = self.core().namespaces.get(nsid) else { return false };
        change(&mut namespace.write());
        self.raise_namespace_changed(nsid);
        true
    }
}

/// The registers as a bus sees them.
impl Emu {
    /// Loads 32 bits from BAR 0, as a processor would.
    #[must_use]
    pub fn load32(&self, offset: u32) -> u32 {
        self.core().load_register(offset)
    }

    /// Stores 32 bits to BAR 0, doorbells included.
    pub fn store32(&self, offset: u32, value: u32) {
        self.core().store_register(offset, value);
    }
}
