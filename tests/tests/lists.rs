//! Memory that tells the device what to do is for the device to read: a device that writes there is stopped by the
//! map, and the list says what it said.
//!
//! UNSAFETY: sends commands with addresses that no transfer has. The model checks every access.

#![allow(unsafe_code)]

use std::sync::Arc;
use ugds::emu::{Emu, EmuConfig, Purpose, Reason};
use ugds::nvme::nvm::ReadWrite;
use ugds::nvme::register::Property;
use ugds::nvme::{BusAddr, Count16, DataPointer, Lba, Nsid, PageSize, Status};
use ugds_hal::{Backend, Clock, Direction};
use ugds_mem::Io;
use ugds_queue::QueuePair;
use ugds_queue::controller::{Controller, Options};

type Queue = QueuePair<<Emu as Backend>::Port>;

struct Rig {
    emu: Emu,
    controller: Controller<Emu>,
    queue: Queue,
}

impl Rig {
    fn new() -> Self {
        let config = EmuConfig { dbbuf: true, ..EmuConfig::default() };
        let emu = Emu::new(config.with_namespaces(1, 16 << 20, 512).stepped()).unwrap();
        let mut controller = Controller::bring_up(Arc::new(emu.clone()), Options::default()).unwrap();
        let queue = controller.open_queue().unwrap();
        Self { emu, controller, queue }
    }

    fn run(&mut self, io: &Io<'_>) -> Status {
        let _ticket = self.queue.submit(io, 0).unwrap();
        self.queue.ring();
        loop {
            let mut status = None;
            self.queue.reap(|done| status = Some(done.status())).unwrap();
            if let Some(status) = status {
                return status;
            }
            self.emu.clock().relax(0);
        }
    }

    /// Has the device write a block, or read one, at an address of its own choice.
    fn stray(&mut self, addr: u64, direction: Direction) -> Status {
        let command = match direction {
            Direction::DeviceWrites => ReadWrite::read(Nsid(1), Lba(0), Count16::ONE),
            _ => ReadWrite::write(Nsid(1), Lba(0), Count16::ONE),
        };
        let pointer = DataPointer::prp(BusAddr(addr), BusAddr(0));
        let sqe = command.to_sqe().with_data_pointer(pointer);
        // SAFETY: not kept, on purpose: whatever the device reaches there is memory of this library, and the model
        // refuses what is not mapped that way.
        self.run(&unsafe { Io::raw(&sqe, None) })
    }

    /// The access is refused, for its direction.
    fn assert_refused(&mut self, what: &str, addr: u64, direction: Direction) {
        let before = self.emu.violations().len();
        let status = self.stray(addr, direction);
        assert!(!status.is_success(), "{what}: {status}");
        let seen = self.emu.violations();
        assert_eq!(seen.len(), before + 1, "{what}: {seen:?}");
        let last = seen[before];
        assert_eq!((last.purpose, last.reason), (Purpose::Data, Reason::Direction), "{what}: {last}");
    }
}

#[test]
fn a_device_can_not_write_into_a_list() {
    let mut rig = Rig::new();
    let namespace = rig.controller.scan().unwrap().namespaces.remove(0);
    let region = ugds_mem::host::allocate(4 << 20).unwrap();
    let mapped = region.attach(rig.controller.domain()).unwrap();
    let pages = mapped.len_bytes() / PageSize::MIN.bytes();
    // Each list page, by a transfer that begins in it.
    for page in (0..pages).step_by(256) {
        let transfer = mapped.transfer(page * 4096, 128 << 10, Direction::DeviceWrites).unwrap();
        let list = transfer.data_pointer().words()[1];
        rig.assert_refused("a list", list & !511, Direction::DeviceWrites);
        let read = Io::read(namespace.nsid(), namespace.format(), Lba(0), transfer).unwrap();
        assert!(rig.run(&read).is_success(), "the list says what it said");
    }
}

#[test]
fn a_device_can_not_write_where_commands_are_nor_read_where_completions_are() {
    let mut rig = Rig::new();
    let register = |rig: &Rig, which| rig.emu.property_read(which).unwrap();
    let submissions = register(&rig, Property::ASQ);
    let completions = register(&rig, Property::ACQ);
    rig.assert_refused("the submission ring", submissions, Direction::DeviceWrites);
    rig.assert_refused("the completion ring", completions, Direction::DeviceReads);
    assert_eq!(rig.controller.scan().unwrap().namespaces.len(), 1, "the admin queue works");
}
