//! What a queue holds for the device, and until when. The model's record of DMA and of live mappings is the judge.

use nvme_proto::{Lba, Nsid};
use std::sync::Arc;
use std::time::Duration;
use ugds_hal::emu::{Emu, EmuConfig};
use ugds_hal::{Backend, Direction, Stop};
use ugds_mem::{Io, Mapped, MemError};
use ugds_queue::controller::{Controller, Options};
use ugds_queue::{Busy, Generations, QueuePair, Ticket};

type Queue = QueuePair<<Emu as Backend>::Port>;

/// A controller with one queue and one namespace of blocks of 512 bytes.
struct Rig {
    emu: Emu,
    controller: Controller<Emu>,
    queue: Queue,
    namespace: ugds_queue::controller::Namespace,
}

impl Rig {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let emu = Emu::new(EmuConfig::default().with_namespaces(1, 16 << 20, 512).stepped()).unwrap();
        let mut options = Options::default();
        change(&mut options);
        let mut controller = Controller::bring_up(Arc::new(emu.clone()), options).unwrap();
        let namespace = controller.scan().unwrap().namespaces.remove(0);
        let queue = controller.open_queue().unwrap();
        Self { emu, controller, queue, namespace }
    }

    /// Memory of so many pages that a command needs a list.
    fn mapped(&self) -> Arc<Mapped> {
        ugds_mem::host::allocate(LEN as usize).unwrap().attach(self.controller.domain()).unwrap()
    }

    /// Gives the device a read of all of `mapped`.
    fn read(&mut self, mapped: &Arc<Mapped>) -> Ticket {
        let transfer = mapped.transfer(0, LEN, Direction::DeviceWrites).unwrap();
        let read = Io::read(self.namespace.nsid(), self.namespace.format(), Lba(0), transfer).unwrap();
        let ticket = self.queue.submit(&read, 0).unwrap();
        self.queue.ring();
        ticket
    }

    /// Lets the device do all that it was given, and takes `count` completions.
    fn complete(&mut self, count: usize) {
        self.emu.run_until_idle();
        let mut done = 0;
        while done < count {
            let ended = self.queue.reap(|command| assert!(command.status().is_success())).unwrap();
            assert_ne!(ended, 0, "{done} of {count} commands ended");
            done += ended;
        }
    }

    fn shut_down(self) {
        self.controller.shut_down(vec![self.queue]).unwrap();
        self.emu.assert_clean();
        assert_eq!(self.emu.live_mappings(), 0);
    }
}

#[test]
fn what_a_command_moves_stays_mapped_when_nobody_else_wants_it_any_more() {
    let mut rig = Rig::new(|_| {});
    let mapped = rig.mapped();
    let held = rig.emu.live_mappings();
    drop(rig.read(&mapped));
    drop(mapped);
    assert_eq!(rig.emu.live_mappings(), held, "the memory and its list");
    rig.complete(1);
    rig.emu.assert_clean();
    rig.shut_down();
}

#[test]
fn memory_of_a_command_is_busy_until_the_command_ends() {
    let mut rig = Rig::new(|_| {});
    let [mapped, other] = [(); 2].map(|()| rig.mapped());
    drop(rig.read(&mapped));
    assert_eq!(rig.queue.detach(&mapped).unwrap_err(), Busy);
    assert!(rig.queue.detach(&other).unwrap().is_none(), "what no command moves is not in use");
    rig.emu.run_until_idle();
    assert_eq!(rig.queue.detach(&mapped).unwrap_err(), Busy, "the device is done, but nobody saw it");
    rig.complete(1);
    let held = rig.emu.live_mappings();
    let given_back = rig.queue.detach(&mapped).unwrap().unwrap();
    assert!(Arc::ptr_eq(&given_back, &mapped));
    drop((given_back, mapped));
    assert_eq!(rig.emu.live_mappings(), held - 2, "the memory and its list");
    drop(other);
    rig.shut_down();
}

#[test]
fn a_queue_holds_a_mapping_once_however_many_commands_move_it() {
    let mut rig = Rig::new(|_| {});
    let mapped = rig.mapped();
    let before = Arc::strong_count(&mapped);
    for _ in 0..3 {
        (0..10).for_each(|_| drop(rig.read(&mapped)));
        assert_eq!(Arc::strong_count(&mapped), before + 1);
        rig.complete(10);
    }
    assert_eq!(Arc::strong_count(&mapped), before + 1, "until it is detached");
    drop(rig.queue.detach(&mapped).unwrap());
    assert_eq!(Arc::strong_count(&mapped), before);
    drop(mapped);
    rig.shut_down();
}

#[test]
fn a_queue_that_is_dropped_in_the_middle_leaves_its_memory_to_the_device() {
    let mut rig = Rig::new(|_| {});
    let mapped = rig.mapped();
    drop(rig.read(&mapped));
    drop(mapped);
    let held = rig.emu.live_mappings();
    drop(rig.queue);
    assert_eq!(rig.emu.live_mappings(), held, "the memory, its list, and the rings");
    rig.emu.run_until_idle();
    rig.emu.assert_clean();
    // Nobody has the queue any more, so nobody can give its memory back, even now.
    rig.controller.shut_down(vec![]).unwrap();
    assert!(rig.emu.live_mappings() >= 4);
}

#[test]
fn memory_comes_back_from_a_queue_that_is_given_up_only_with_the_proof_of_its_own_stop() {
    let (mut rig, other) = (Rig::new(|_| {}), Rig::new(|_| {}));
    let mapped = rig.mapped();
    drop(rig.read(&mapped));
    drop(mapped);
    let held = rig.emu.live_mappings();
    let foreign = other.emu.stop(Stop::Disable(Duration::from_secs(1))).unwrap();
    let Err(queue) = rig.queue.abandon(&foreign) else { panic!("another device's proof freed it") };
    assert_eq!(rig.emu.live_mappings(), held);
    rig.queue = *queue;
    rig.shut_down();
}

#[test]
fn a_command_takes_no_memory_that_was_checked_for_the_other_direction() {
    let rig = Rig::new(|_| {});
    let mapped = rig.mapped();
    let (nsid, format) = (rig.namespace.nsid(), rig.namespace.format());
    let transfer = |used| mapped.transfer(0, LEN, used).unwrap();
    let read = Io::read(nsid, format, Lba(0), transfer(Direction::DeviceReads));
    assert!(matches!(read, Err(MemError::Direction { .. })), "{read:?}");
    let write = Io::write(nsid, format, Lba(0), transfer(Direction::DeviceWrites));
    assert!(matches!(write, Err(MemError::Direction { .. })), "{write:?}");
}

#[test]
fn the_slot_used_last_is_used_next_wherever_the_ring_is() {
    let mut rig = Rig::new(|_| {});
    let flush = |rig: &mut Rig| rig.queue.submit(&Io::flush(Nsid(1)), 0).unwrap().cid().0 & INDEX;
    let first: Vec<u16> = (0..3).map(|_| flush(&mut rig)).collect();
    assert_eq!(first, [0, 1, 2]);
    rig.queue.ring();
    rig.complete(3);
    // The ring's next place is 3.
    let next: Vec<u16> = (0..4).map(|_| flush(&mut rig)).collect();
    assert_eq!(next, [2, 1, 0, 3]);
    rig.queue.ring();
    rig.complete(4);
    rig.shut_down();
}

#[test]
fn identifiers_have_a_generation_unless_the_device_chokes_on_it() {
    for generations in [Generations::On, Generations::Off] {
        let mut rig = Rig::new(|options| options.cid_generations = generations);
        let mut cids = Vec::new();
        for _ in 0..40 {
            cids.push(rig.queue.submit(&Io::flush(Nsid(1)), 0).unwrap().cid().0);
            rig.queue.ring();
            rig.complete(1);
        }
        assert!(cids.iter().all(|cid| cid & INDEX == 0), "{cids:x?}");
        let bare = generations == Generations::Off;
        assert_eq!(cids.iter().all(|cid| *cid == 0), bare, "{cids:x?}");
        assert_eq!(cids[0] == cids[1], bare, "what is late is told from what is new");
        rig.shut_down();
    }
}

/// More than two pages.
const LEN: u32 = 64 << 10;
/// The part of an identifier that is the slot.
const INDEX: u16 = 0xfff;
