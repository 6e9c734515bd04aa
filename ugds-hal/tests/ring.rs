//! The rings of a port, against a device of a few lines that reads and writes their memory.
//!
//! UNSAFETY: plays the backend, over leaked buffers.

#![allow(unsafe_code)]

use nvme_proto::register::Property;
use nvme_proto::zerocopy::{FromBytes, IntoBytes};
use nvme_proto::{BusAddr, Cid, Cqe, Nsid, PageSize, Qid, Sqe};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use ugds_hal::pcie::{self, Doorbell, PciePort};
use ugds_hal::{
    Admin, AdminError, Backend, Command, Completion, Direction, Dma, DomainId, Extent, HalError, Layout,
    Mapping, MonotonicClock, OpenError, Port, PortSpec, Quarantine, QueueCommand, Reaped, SharedMemory,
    Source, Traits, Violation,
};

/// Memory by bus address, and the last value of each doorbell.
struct Board {
    traits: Traits,
    clock: MonotonicClock,
    memory: Mutex<BTreeMap<u64, Arc<SharedMemory>>>,
    bells: [Arc<AtomicU32>; 2],
}

#[derive(Debug)]
struct Bell(Arc<AtomicU32>);

impl Doorbell for Bell {
    fn write(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl Board {
    fn new() -> Self {
        Self {
            traits: Traits::local(DomainId::fresh(), "board", "nowhere".into()),
            clock: MonotonicClock::new(),
            memory: Mutex::default(),
            bells: Default::default(),
        }
    }

    fn at(&self, addr: BusAddr) -> Arc<SharedMemory> {
        Arc::clone(&self.memory.lock().unwrap()[&addr.0])
    }

    fn bell(&self, which: usize) -> u32 {
        self.bells[which].load(Ordering::Relaxed)
    }
}

impl Backend for Board {
    type Port = PciePort<Bell>;
    type Clock = MonotonicClock;

    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        Err(HalError::Register { offset: property.offset(), reason: "the board has none" })
    }

    fn property_write(&self, property: Property, _value: u64) -> Result<(), HalError> {
        Err(HalError::Register { offset: property.offset(), reason: "the board has none" })
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        let mut all = self.memory.lock().unwrap();
        let addr = 0x10_0000 * (1 + all.len() as u64);
        let ptr = NonNull::from(vec![0u128; need.len_bytes.div_ceil(16) + 4].leak()).cast::<u8>();
        // SAFETY: four more words than needed were allocated.
        let ptr = unsafe { ptr.byte_add(ptr.align_offset(64)) };
        // SAFETY: leaked, and reached atomically by both sides.
        all.insert(addr, Arc::new(unsafe { SharedMemory::new(ptr, need.len_bytes) }));
        let extent = Extent { addr: BusAddr(addr), len_bytes: need.len_bytes as u64 };
        // SAFETY: no real device exists.
        let mapping =
            unsafe { Mapping::new(Box::new([extent]), need.direction, self.traits.domain, Box::new(())) };
        // SAFETY: leaked, zeroed, and reached atomically by both sides.
        Ok(unsafe { Dma::new(ptr, Arc::new(mapping)) })
    }

    unsafe fn map(&self, _: Source, _: Direction) -> Result<Arc<Mapping>, HalError> {
        Err(HalError::Unsupported { what: "mapping", backend: "board" })
    }

    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        pcie::open_port(self, spec, admin, self.bells.clone().map(Bell))
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        pcie::close_port(self, port, admin)
    }
}

/// An admin queue that notes what it was asked, and fails where the test says.
#[derive(Default)]
struct Clerk {
    asked: Vec<Sqe>,
    fail: Option<(u8, AdminErrorKind)>,
}

#[derive(Clone, Copy)]
enum AdminErrorKind {
    Status,
    Timeout,
}

impl Admin for Clerk {
    fn execute(&mut self, command: &QueueCommand) -> Result<u32, AdminError> {
        let opcode = command.sqe().opcode;
        self.asked.push(command.sqe());
        match self.fail {
            Some((failing, AdminErrorKind::Status)) if failing == opcode => {
                Err(AdminError::status(&command.sqe(), nvme_proto::Status::new(1, 1)))
            }
            Some((failing, AdminErrorKind::Timeout)) if failing == opcode => {
                Err(AdminError::Timeout { opcode, waited_ms: 1 })
            }
            _ => Ok(0),
        }
    }
}

fn spec(entries: u16) -> PortSpec {
    PortSpec { qid: Qid(1), entries, page: PageSize::MIN, completion: Completion::Poll, shadow: None }
}

/// A port and the device's view of its rings.
struct Rig {
    board: Board,
    port: PciePort<Bell>,
    submission: Arc<SharedMemory>,
    completion: Arc<SharedMemory>,
    entries: u16,
    /// Free-running, as the device counts.
    fetched: u32,
    posted: u32,
}

impl Rig {
    fn new(entries: u16) -> Self {
        let board = Board::new();
        let mut clerk = Clerk::default();
        let port = board.open_port(&spec(entries), Some(&mut clerk)).unwrap();
        let [completion, submission] = [clerk.asked[0], clerk.asked[1]].map(|sqe| board.at(sqe.prp1()));
        Self { board, port, submission, completion, entries, fetched: 0, posted: 0 }
    }

    fn stage(&mut self, cid: u16) {
        // SAFETY: the command holds no address.
        let command = unsafe { Command::new_unchecked(Sqe::new(0, Nsid(1))) };
        self.port.stage(Cid(cid), &command);
    }

    /// Fetches what the doorbell covers.
    fn fetch(&mut self) -> Vec<u16> {
        let mut cids = Vec::new();
        while self.fetched % u32::from(self.entries) != self.board.bell(0) {
            let mut bytes = [0; 64];
            let slot = (self.fetched % u32::from(self.entries)) as usize;
            self.submission.copy_out(slot * 64, &mut bytes).unwrap();
            cids.push(Sqe::read_from_bytes(&bytes).unwrap().cid().0);
            self.fetched += 1;
        }
        cids
    }

    fn post(&mut self, cid: u16, sqhd: u16) {
        let lap = self.posted / u32::from(self.entries);
        let cqe = Cqe {
            dw0: 7.into(),
            dw1: u32::from(cid).into(),
            cid: cid.into(),
            sqhd: sqhd.into(),
            status: u16::from(lap.is_multiple_of(2)).into(),
            ..Cqe::default()
        };
        let slot = (self.posted % u32::from(self.entries)) as usize;
        self.completion.copy_in(slot * 16, cqe.as_bytes()).unwrap();
        self.posted += 1;
    }

    fn head(&self) -> u16 {
        (self.fetched % u32::from(self.entries)) as u16
    }
}

#[test]
fn nothing_is_there_before_the_device_says_so() {
    let mut rig = Rig::new(4);
    assert_eq!(rig.port.next(), None);
    assert_eq!(rig.port.retire(), Ok(()));
    rig.stage(5);
    assert_eq!(rig.fetch(), [] as [u16; 0], "staged is not published");
    rig.port.publish();
    assert_eq!(rig.fetch(), [5]);
}

#[test]
fn a_submission_head_outside_of_what_was_submitted_is_a_violation() {
    for (sqhd, sound) in
        [(0u16, false), (1, true), (2, true), (3, false), (7, false), (8, false), (0xffff, false)]
    {
        let mut rig = Rig::new(8);
        rig.stage(0);
        rig.stage(1);
        rig.port.publish();
        rig.post(0, sqhd);
        assert!(rig.port.next().is_some());
        let expected = Violation::SubmissionHead { qid: Qid(1), sqhd, head: 0, tail: 2 };
        assert_eq!(rig.port.retire(), if sound { Ok(()) } else { Err(expected) }, "SQHD {sqhd}");
        assert_eq!(rig.board.bell(1), u32::from(sound), "entries are given back only to a sound device");
    }
}

#[test]
fn a_head_that_moves_back_is_a_violation() {
    let mut rig = Rig::new(8);
    (0..4).for_each(|cid| rig.stage(cid));
    rig.port.publish();
    for (sqhd, sound) in [(3, true), (3, true), (2, false)] {
        rig.post(0, sqhd);
        assert!(rig.port.next().is_some());
        assert_eq!(rig.port.retire().is_ok(), sound, "SQHD {sqhd}");
    }
}

#[test]
fn impossible_ring_sizes_are_refused_with_the_value() {
    for entries in [0, 1, 3, 300, 65535] {
        match Board::new().open_port(&spec(entries), Some(&mut Clerk::default())) {
            Err(OpenError { error: HalError::RingSize(error), .. }) => assert_eq!(error.entries, entries),
            other => panic!("{entries}: {other:?}"),
        }
    }
}

#[test]
fn queues_are_created_and_deleted_in_the_one_legal_order() {
    let board = Board::new();
    let mut clerk = Clerk::default();
    let port = board.open_port(&spec(8), Some(&mut clerk)).unwrap();
    board.close_port(port, Some(&mut clerk)).unwrap();
    let opcodes: Vec<u8> = clerk.asked.iter().map(|sqe| sqe.opcode).collect();
    assert_eq!(opcodes, [0x05, 0x01, 0x00, 0x04], "CQ, SQ, then SQ and CQ");
    assert!(clerk.asked[..2].iter().all(|sqe| sqe.cdw10.get() == 7 << 16 | 1), "QSIZE is 0's-based");
    assert_eq!(clerk.asked[0].cdw11.get(), 1, "physically contiguous, no interrupts");
}

#[test]
fn a_port_that_fails_half_way_is_undone() {
    for (failing, kind, opcodes) in [
        (0x05, AdminErrorKind::Status, vec![0x05]),
        (0x01, AdminErrorKind::Status, vec![0x05, 0x01, 0x04]),
        (0x05, AdminErrorKind::Timeout, vec![0x05]),
        (0x01, AdminErrorKind::Timeout, vec![0x05, 0x01]),
    ] {
        let mut clerk = Clerk { fail: Some((failing, kind)), ..Clerk::default() };
        let result = Board::new().open_port(&spec(8), Some(&mut clerk));
        let Err(OpenError { error: HalError::Admin(_), left }) = result else { panic!("{result:?}") };
        // What was not answered may have been done, and only a stop undoes it.
        assert_eq!(left.is_some(), matches!(kind, AdminErrorKind::Timeout));
        let asked: Vec<u8> = clerk.asked.iter().map(|sqe| sqe.opcode).collect();
        assert_eq!(asked, opcodes);
    }
}

#[test]
fn a_port_that_the_device_does_not_let_go_of_is_quarantined() {
    let board = Board::new();
    let port = board.open_port(&spec(8), Some(&mut Clerk::default())).unwrap();
    let mut clerk = Clerk { fail: Some((0x00, AdminErrorKind::Timeout)), ..Clerk::default() };
    let quarantine = board.close_port(port, Some(&mut clerk)).unwrap_err();
    // SAFETY: no device exists, so it has stopped.
    let (own, foreign) = unsafe {
        (ugds_hal::Stopped::claim(board.traits.era()), ugds_hal::Stopped::claim(Board::new().traits.era()))
    };
    let quarantine = quarantine.release(&foreign).unwrap_err();
    assert!(quarantine.release(&own).is_ok());
}

/// The three ways to take completions from a port.
#[derive(Clone, Copy, Debug)]
enum Way {
    Next(u16),
    Pass,
    One,
}

impl Rig {
    /// Takes completions, and gives back what was taken.
    fn take(&mut self, way: Way, taken: &mut Vec<u16>) {
        let each = |reaped: Reaped<'_>| -> Result<(), Violation> {
            assert!(reaped.status().is_success());
            assert_eq!(reaped.result(), u64::from(reaped.cid().0) << 32 | 7);
            taken.push(reaped.cid().0);
            Ok(())
        };
        match way {
            Way::Pass => {
                let (count, passed) = self.port.pass(each);
                passed.unwrap();
                assert!(count <= usize::from((self.entries / 4).max(1)), "{count} in a pass");
            }
            Way::One => drop(self.port.one(each).unwrap()),
            Way::Next(limit) => {
                for cqe in (0..limit).map_while(|_| self.port.next()) {
                    let words = [cqe.dw0.get(), cqe.dw1.get()];
                    assert_eq!(words, [7, u32::from(cqe.cid().0)]);
                    taken.push(cqe.cid().0);
                }
                self.port.retire().unwrap();
            }
        }
    }
}

#[test]
fn an_impossible_head_ends_a_pass_of_any_kind() {
    for (sqhd, sound) in [(0u16, false), (1, true), (2, true), (3, false), (8, false), (0xffff, false)] {
        for alone in [false, true] {
            let mut rig = Rig::new(8);
            rig.stage(0);
            rig.stage(1);
            rig.port.publish();
            rig.post(0, sqhd);
            let mut count = 0;
            let each = |_: Reaped<'_>| -> Result<(), Violation> {
                count += 1;
                Ok(())
            };
            let (taken, ended) = match alone {
                true => (1, rig.port.one(each).map(drop)),
                false => rig.port.pass(each),
            };
            let expected = Violation::SubmissionHead { qid: Qid(1), sqhd, head: 0, tail: 2 };
            assert_eq!((taken, ended), (1, if sound { Ok(()) } else { Err(expected) }), "SQHD {sqhd}");
            assert_eq!((count, rig.board.bell(1)), (1, u32::from(sound)));
        }
    }
}

proptest! {
    /// Bursts of any size over many laps: what is staged arrives in order, what is posted arrives once and in order,
    /// and both doorbells follow.
    #[test]
    fn rings_carry_everything_once_and_in_order(
        exponent in 1u32..6,
        bursts in proptest::collection::vec((1u16..64, way()), 1..200),
    ) {
        let entries = 1u16 << exponent;
        let mut rig = Rig::new(entries);
        let mut next_cid = 0u16;
        for (burst, way) in bursts {
            let burst = burst.min(entries - 1);
            let staged: Vec<u16> = (next_cid..).take(usize::from(burst)).collect();
            next_cid = (next_cid + burst) % 1000;
            staged.iter().for_each(|cid| rig.stage(*cid));
            rig.port.publish();
            prop_assert_eq!(&rig.fetch(), &staged);
            let head = rig.head();
            staged.iter().for_each(|cid| rig.post(*cid, head));
            let mut taken = Vec::new();
            while taken.len() < staged.len() {
                rig.take(way, &mut taken);
            }
            prop_assert_eq!(taken, staged);
            prop_assert_eq!(rig.port.next(), None);
            prop_assert_eq!(rig.board.bell(1), rig.posted % u32::from(entries));
        }
    }
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![(1u16..64).prop_map(Way::Next), Just(Way::Pass), Just(Way::One)]
}
