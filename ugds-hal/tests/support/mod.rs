//! A driver that does what a test tells it, right or wrong.
//!
//! UNSAFETY: sends commands that nobody vouches for. The device is a model that checks every access.

#![allow(unsafe_code, dead_code, unreachable_pub)]

use core::time::Duration;
use nvme_proto::admin::{
    AsyncEventConfig, CreateCq, CreateSq, DeleteCq, DeleteSq, Identify, Priority, SetFeatures,
};
use nvme_proto::nvm::ReadWrite;
use nvme_proto::register::{Cap, Cc, Csts, Property};
use nvme_proto::{BusAddr, Cid, Count16, Cqe, DataPointer, Lba, Nsid, PageSize, Qid, Sqe, Status, prp};
use ugds_hal::emu::{Emu, EmuConfig, EmuDoorbell, Mode};
use ugds_hal::pcie::{PciePort, ShadowPages};
use ugds_hal::{
    Admin, AdminError, Backend, Clock, Command, Completion, Direction, Dma, Layout, Port, PortSpec,
    QueueCommand, Stop,
};

pub type EmuPort = PciePort<EmuDoorbell>;

/// A queue pair on which one command at a time is executed.
pub struct Queue {
    pub port: EmuPort,
    emu: Emu,
    next_cid: u16,
}

impl Queue {
    pub fn new(emu: &Emu, port: EmuPort) -> Self {
        Self { port, emu: emu.clone(), next_cid: 0 }
    }

    /// Sends a command under a fresh identifier.
    pub fn send(&mut self, sqe: &Sqe) -> Cid {
        self.next_cid = (self.next_cid + 1) % 0x8000;
        let cid = Cid(self.next_cid);
        self.send_as(cid, sqe);
        self.port.publish();
        cid
    }

    /// Stages a command under that identifier.
    pub fn send_as(&mut self, cid: Cid, sqe: &Sqe) {
        // SAFETY: the model checks every address against its map.
        let command = unsafe { Command::new_unchecked(*sqe) };
        self.port.stage(cid, &command);
    }

    /// Waits for the next completion.
    #[track_caller]
    pub fn wait(&mut self) -> Cqe {
        self.try_wait(Duration::from_secs(20)).expect("no completion came")
    }

    pub fn try_wait(&mut self, limit: Duration) -> Option<Cqe> {
        let clock = self.emu.clock();
        let deadline = clock.now().after(limit);
        let mut attempt = 0;
        loop {
            if let Some(cqe) = self.port.next() {
                self.port.retire().unwrap();
                return Some(cqe);
            }
            if clock.now() >= deadline {
                return None;
            }
            clock.relax(attempt);
            attempt += 1;
        }
    }

    /// Executes a command, and returns DW0 and DW1.
    #[track_caller]
    pub fn run(&mut self, sqe: &Sqe) -> Result<u64, Status> {
        let cid = self.send(sqe);
        let cqe = self.wait();
        assert_eq!(cqe.cid(), cid, "another command completed: {cqe:?}");
        let result = u64::from(cqe.dw0.get()) | u64::from(cqe.dw1.get()) << 32;
        if cqe.status().is_success() { Ok(result) } else { Err(cqe.status()) }
    }
}

impl Admin for Queue {
    fn execute(&mut self, command: &QueueCommand) -> Result<u32, AdminError> {
        let sqe = command.sqe();
        self.run(&sqe).map(|result| result as u32).map_err(|status| AdminError::status(&sqe, status))
    }
}

/// A controller that is enabled, with its admin queue.
pub struct Driver {
    pub emu: Emu,
    pub admin: Queue,
    pub page: PageSize,
    pub shadow: Option<std::sync::Arc<ShadowPages>>,
}

impl Driver {
    pub fn new(config: EmuConfig) -> Self {
        let page = PageSize::from_exponent(config.mpsmin).unwrap();
        Self::on(&Emu::new(config).unwrap(), page)
    }

    /// Brings a model up with that page.
    pub fn on(emu: &Emu, page: PageSize) -> Self {
        emu.stop(Stop::Disable(Duration::from_secs(5))).unwrap();
        let port = emu.open_port(&spec(Qid::ADMIN, 32, page), None).unwrap();
        enable(emu, page);
        Self { emu: emu.clone(), admin: Queue::new(emu, port), page, shadow: None }
    }

    pub fn open(&mut self, qid: u16, entries: u16) -> Queue {
        let mut spec = spec(Qid(qid), entries, self.page);
        spec.shadow = self.shadow.clone();
        let port = self.emu.open_port(&spec, Some(&mut self.admin)).unwrap();
        Queue::new(&self.emu, port)
    }

    pub fn close(&mut self, queue: Queue) {
        assert!(self.emu.close_port(queue.port, Some(&mut self.admin)).is_ok());
    }

    /// Disables the controller and frees the admin queue.
    pub fn shut_down(self) -> Emu {
        let proof = self.emu.stop(Stop::Disable(Duration::from_secs(5))).unwrap();
        if let Some(shadow) = &self.shadow {
            shadow.release(&proof);
        }
        assert!(self.emu.close_port(self.admin.port, None).is_ok());
        self.emu
    }

    pub fn buffer(&self, len_bytes: usize) -> Dma {
        buffer(&self.emu, len_bytes)
    }

    /// Executes an admin command that returns `N` bytes.
    #[track_caller]
    pub fn fetch<const N: usize>(&mut self, sqe: &Sqe) -> Result<[u8; N], Status> {
        let buffer = self.buffer(N.max(4096));
        let pointer = pointer(&self.emu, self.page, &buffer, N as u64);
        self.admin.run(&sqe.with_data_pointer(pointer.pointer))?;
        let mut bytes = [0; N];
        buffer.shared().copy_out(0, &mut bytes).unwrap();
        Ok(bytes)
    }

    #[track_caller]
    pub fn identify(&mut self, identify: Identify) -> Result<[u8; 4096], Status> {
        self.fetch(&identify.to_sqe())
    }

    pub fn emu_dstrd(&self) -> u8 {
        Cap::from_bits(self.emu.property_read(Property::CAP).unwrap()).dstrd()
    }

    pub fn enable_events(&mut self) {
        let config = AsyncEventConfig::new().with_smart(0xff).with_nan(true);
        self.admin.run(&SetFeatures::new(config).to_sqe()).unwrap();
    }
}

pub fn buffer(emu: &Emu, len_bytes: usize) -> Dma {
    emu.memory(Layout { len_bytes, align_bytes: 4096, direction: Direction::Both }).unwrap()
}

pub fn spec(qid: Qid, entries: u16, page: PageSize) -> PortSpec {
    PortSpec { qid, entries, page, completion: Completion::Poll, shadow: None }
}

/// Enables a controller whose admin queue is set, and waits until it is ready.
#[track_caller]
pub fn enable(emu: &Emu, page: PageSize) {
    let cc = Cc::for_page(page).with_en(true);
    emu.property_write(Property::CC, cc.into_bits().into()).unwrap();
    let deadline = emu.clock().now().after(Duration::from_secs(5));
    let mut attempt = 0;
    while !csts(emu).rdy() {
        assert!(!csts(emu).cfs(), "the controller failed");
        assert!(emu.clock().now() < deadline, "the controller does not become ready");
        emu.clock().relax(attempt);
        attempt += 1;
    }
}

pub fn csts(emu: &Emu) -> Csts {
    Csts::from_bits(emu.property_read(Property::CSTS).unwrap() as u32)
}

/// A data pointer, with the list that it may need.
pub struct Pointer {
    pub pointer: DataPointer,
    _list: Option<Dma>,
}

/// The PRPs of the first `len` bytes of a contiguous buffer.
pub fn pointer(emu: &Emu, page: PageSize, buffer: &Dma, len: u64) -> Pointer {
    let addr = buffer.mapping().contiguous().unwrap();
    pointer_to(emu, page, &|offset| BusAddr(addr.0 + offset), len)
}

/// The PRPs of a buffer whose byte at an offset has the address that `at` says.
pub fn pointer_to(emu: &Emu, page: PageSize, at: &dyn Fn(u64) -> BusAddr, len: u64) -> Pointer {
    let first = at(0);
    let rest = page.bytes() - first.offset_in(page);
    let entry = |index: u32| at(rest + u64::from(index) * page.bytes());
    match prp::shape(page, first.0, len.try_into().unwrap()) {
        prp::Shape::One => Pointer { pointer: DataPointer::prp(first, BusAddr(0)), _list: None },
        prp::Shape::Two => Pointer { pointer: DataPointer::prp(first, entry(0)), _list: None },
        prp::Shape::List { entries } => {
            let pages = prp::list_pages(page, 0, entries);
            let page_bytes = page.bytes() as usize;
            let list = emu
                .memory(Layout {
                    len_bytes: pages as usize * page_bytes,
                    align_bytes: page_bytes,
                    direction: Direction::DeviceReads,
                })
                .unwrap();
            let base = list.mapping().contiguous().unwrap();
            let addresses: Vec<_> =
                (0..pages).map(|index| BusAddr(base.0 + u64::from(index) * page.bytes())).collect();
            prp::lay_list(page, &addresses, entries, entry, |slot, addr| {
                let offset = slot.list_page as usize * page_bytes + slot.index as usize * 8;
                list.shared().copy_in(offset, &addr.0.to_le_bytes()).unwrap();
            })
            .unwrap();
            Pointer { pointer: DataPointer::prp(first, base), _list: Some(list) }
        }
    }
}

pub fn create_cq(qid: u16, entries: u32, base: BusAddr) -> CreateCq {
    CreateCq {
        qid: Qid(qid),
        entries: Count16::new(entries).unwrap(),
        base,
        physically_contiguous: true,
        interrupt_vector: None,
    }
}

pub fn create_sq(qid: u16, cqid: u16, entries: u32, base: BusAddr) -> CreateSq {
    CreateSq {
        qid: Qid(qid),
        cqid: Qid(cqid),
        entries: Count16::new(entries).unwrap(),
        base,
        physically_contiguous: true,
        priority: Priority::URGENT,
    }
}

pub fn delete_sq(qid: u16) -> Sqe {
    DeleteSq { qid: Qid(qid) }.to_sqe()
}

pub fn delete_cq(qid: u16) -> Sqe {
    DeleteCq { qid: Qid(qid) }.to_sqe()
}

pub fn blocks(count: u32) -> Count16 {
    Count16::new(count).unwrap()
}

pub fn read(lba: u64, count: u32) -> ReadWrite {
    ReadWrite::read(Nsid(1), Lba(lba), blocks(count))
}

pub fn write(lba: u64, count: u32) -> ReadWrite {
    ReadWrite::write(Nsid(1), Lba(lba), blocks(count))
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) | 1;
    (0..len.div_ceil(8))
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            (state ^ state >> 29).to_le_bytes()
        })
        .take(len)
        .collect()
}

pub fn contents(buffer: &Dma, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    buffer.shared().copy_out(0, &mut bytes).unwrap();
    bytes
}

/// Writes `data` at `lba`, and returns the command's end.
#[track_caller]
pub fn write_data(
    driver: &Driver,
    queue: &mut Queue,
    command: ReadWrite,
    data: &[u8],
) -> Result<u64, Status> {
    let buffer = driver.buffer(data.len());
    buffer.shared().copy_in(0, data).unwrap();
    let pointer = pointer(&driver.emu, driver.page, &buffer, data.len() as u64);
    queue.run(&command.to_sqe().with_data_pointer(pointer.pointer))
}

/// Reads `len` bytes.
#[track_caller]
pub fn read_data(
    driver: &Driver,
    queue: &mut Queue,
    command: ReadWrite,
    len: usize,
) -> Result<Vec<u8>, Status> {
    let buffer = driver.buffer(len);
    let pointer = pointer(&driver.emu, driver.page, &buffer, len as u64);
    queue.run(&command.to_sqe().with_data_pointer(pointer.pointer))?;
    Ok(contents(&buffer, len))
}

/// Runs a test under virtual time and in threads.
pub fn in_both_modes(test: impl Fn(EmuConfig)) {
    test(EmuConfig { mode: Mode::Stepped, ..EmuConfig::default() });
    test(EmuConfig { mode: Mode::Threads { workers: 2 }, ..EmuConfig::default() });
}

#[track_caller]
pub fn assert_status(result: Result<u64, Status>, expected: Status) {
    match result {
        Err(status) => assert!(status.is(expected), "{status} instead of {expected}"),
        Ok(_) => panic!("success instead of {expected}"),
    }
}

impl Driver {
    /// Executes an admin command that returns up to a page, while an event request is outstanding.
    #[track_caller]
    pub fn fetch_while_waiting(&mut self, sqe: &Sqe) {
        let buffer = self.buffer(4096);
        let pointer = pointer(&self.emu, self.page, &buffer, 4096);
        let cid = self.admin.send(&sqe.with_data_pointer(pointer.pointer));
        let cqe = self.admin.wait();
        assert!(cqe.cid() == cid && cqe.status().is_success(), "{cqe:?}");
    }
}
