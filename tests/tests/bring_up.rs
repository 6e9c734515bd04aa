//! A bring-up that fails half-way, at each of its calls to the device and of its requests for memory: nothing may be
//! left of it, or all that the device may still write to.

mod hooked;

use hooked::{Hooked, Hooks};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use ugds::emu::{Emu, EmuConfig};
use ugds_hal::{Backend, HalError};
use ugds_queue::QueuePair;
use ugds_queue::controller::{Controller, ControllerError, Options};

/// A bus on which calls fail, counted from 0.
struct Failing {
    calls: AtomicU64,
    fails: Box<dyn Fn(u64) -> bool + Send + Sync>,
}

impl Hooks for Failing {
    fn called(&self) -> Result<(), HalError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let error =
            || HalError::System { what: "the bus".into(), reason: format!("it failed at call {call}") };
        if (self.fails)(call) { Err(error()) } else { Ok(()) }
    }
}

/// A controller in use.
struct InUse {
    controller: Controller<Hooked<Failing>>,
    queues: Vec<QueuePair<<Hooked<Failing> as Backend>::Port>>,
}

/// Brings a controller up as far as somebody does who uses it. What fails is given up.
fn bring_up(bus: &Arc<Hooked<Failing>>) -> Result<InUse, ControllerError> {
    let mut options = Options::default();
    options.queues = 2;
    let mut used = InUse { controller: Controller::bring_up(Arc::clone(bus), options)?, queues: Vec::new() };
    match used.begin() {
        Ok(()) => Ok(used),
        Err(error) => used.end().and(Err(error)),
    }
}

impl InUse {
    fn begin(&mut self) -> Result<(), ControllerError> {
        for _ in 0..2 {
            self.queues.push(self.controller.open_queue()?);
        }
        let region = ugds_mem::host::allocate(64 << 10)?;
        region.attach(self.controller.domain())?;
        assert_eq!(self.controller.scan()?.namespaces.len(), 1);
        Ok(())
    }

    fn end(self) -> Result<(), ControllerError> {
        self.controller.shut_down(self.queues)
    }
}

fn emu() -> Emu {
    let config = EmuConfig { dbbuf: true, ..EmuConfig::default() };
    Emu::new(config.with_namespaces(1, 16 << 20, 512).stepped()).unwrap()
}

fn failing(emu: &Emu, fails: impl Fn(u64) -> bool + Send + Sync + 'static) -> Arc<Hooked<Failing>> {
    Hooked::new(emu, Failing { calls: AtomicU64::new(0), fails: Box::new(fails) })
}

#[test]
fn whichever_call_of_a_bring_up_fails_nothing_is_left_of_it() {
    let emu = emu();
    let whole = failing(&emu, |_| false);
    let used = bring_up(&whole).unwrap();
    let calls = whole.hooks().calls.load(Ordering::Relaxed);
    used.end().unwrap();
    drop(whole);
    for at in 0..calls {
        let bus = failing(&emu, move |call| call == at);
        let error = bring_up(&bus).err().unwrap_or_else(|| panic!("call {at} failed, and nobody noticed"));
        assert!(error.to_string().contains(&format!("at call {at}")), "call {at}: {error}");
        bus.forget_buffer();
        assert_eq!(emu.live_mappings(), 0, "after call {at}");
        emu.assert_clean();
        let again = bring_up(&failing(&emu, |_| false)).and_then(InUse::end);
        again.unwrap_or_else(|error| panic!("after call {at}: {error}"));
    }
    assert!(calls > 20, "{calls} calls are registers and memory of the whole bring-up");
}

#[test]
fn a_bus_that_fails_for_good_leaves_the_device_nothing_or_all_that_it_was_given() {
    for at in 0.. {
        let emu = emu();
        let bus = failing(&emu, move |call| call >= at);
        let Err(error) = bring_up(&bus).and_then(InUse::end) else { break };
        assert!(error.to_string().contains("the bus"), "call {at}: {error}");
        bus.forget_buffer();
        let reserved = emu.live_mappings();
        emu.run_until_idle();
        emu.assert_clean();
        match bring_up(&failing(&emu, |_| false)).and_then(InUse::end) {
            Ok(()) => assert_eq!(reserved, 0, "call {at}: memory of a device that may be running"),
            Err(ControllerError::Claimed) => {
                assert!(reserved >= 3, "call {at}: the admin rings and the buffer");
            }
            Err(other) => panic!("call {at}: {other}"),
        }
    }
}
