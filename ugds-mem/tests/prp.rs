//! The data pointers of transfers, against an oracle that looks up one dword at a time.
//!
//! UNSAFETY: plays the backend, over one buffer that lives as long as the test program.

#![allow(unsafe_code)]

use nvme_proto::register::{Cc, Property};
use nvme_proto::{BusAddr, PageSize, Psdt, prp};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use ugds_hal::pcie::{Doorbell, PciePort};
use ugds_hal::{
    Admin, Backend, Direction, Dma, DomainId, Extent, HalError, Layout, Mapping, MonotonicClock, OpenError,
    PortSpec, Quarantine, Source, Traits,
};
use ugds_mem::{Domain, MAX_TRANSFER_BYTES, Mapped, MemError};

/// A backend that only keeps memory.
struct Paper {
    traits: Traits,
    page: PageSize,
    clock: MonotonicClock,
    /// List memory by bus address, for the walk.
    lists: Mutex<BTreeMap<u64, Dma>>,
    next: Mutex<u64>,
}

struct NoBell;

impl Doorbell for NoBell {
    fn write(&self, _value: u32) {}
}

impl Paper {
    fn new(page: PageSize) -> Arc<Self> {
        Arc::new(Self {
            page,
            traits: Traits::local(DomainId::fresh(), "paper", "nowhere".into()),
            clock: MonotonicClock::new(),
            lists: Mutex::default(),
            next: Mutex::new(0x7000_0000_0000),
        })
    }

    /// Memory of the given extents. The bytes are one buffer that all share: only addresses matter here.
    fn dma(&self, extents: Vec<Extent>) -> Dma {
        let len = extents.iter().map(|extent| extent.len_bytes as usize).sum();
        let ptr = NonNull::from(vec![0u64; usize::div_ceil(len, 8)].leak()).cast();
        // SAFETY: no device exists.
        let mapping = unsafe {
            Mapping::new(extents.into_boxed_slice(), Direction::Both, self.traits.domain, Box::new(()))
        };
        // SAFETY: the buffer is leaked, zeroed, and used through this value only.
        unsafe { Dma::new(ptr, Arc::new(mapping)) }
    }

    /// Reads list memory as a device would: never across the end of the list page's controller page.
    fn read(&self, addr: BusAddr, to: &mut [u8]) -> Result<(), String> {
        let lists = self.lists.lock().unwrap();
        let (start, dma) = lists.range(..=addr.0).next_back().ok_or("no list there")?;
        dma.shared().copy_out((addr.0 - start) as usize, to).map_err(|error| error.to_string())
    }
}

impl Backend for Paper {
    type Port = PciePort<NoBell>;
    type Clock = MonotonicClock;

    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        match property {
            Property::CC => Ok(Cc::for_page(self.page).with_en(true).into_bits().into()),
            other => Err(HalError::Register { offset: other.offset(), reason: "paper has none" }),
        }
    }

    fn property_write(&self, property: Property, _value: u64) -> Result<(), HalError> {
        Err(HalError::Register { offset: property.offset(), reason: "paper has none" })
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        let mut next = self.next.lock().unwrap();
        let start = next.next_multiple_of(need.align_bytes as u64);
        *next = start + need.len_bytes as u64 + 4096;
        let extent = Extent { addr: BusAddr(start), len_bytes: need.len_bytes as u64 };
        let given = self.dma(vec![extent]);
        // SAFETY: as in `dma`: a second view of leaked memory that is accessed atomically.
        let view = unsafe { Dma::new(given.shared().as_ptr(), Arc::clone(given.mapping())) };
        self.lists.lock().unwrap().insert(start, view);
        Ok(given)
    }

    unsafe fn map(&self, _: Source, _: Direction) -> Result<Arc<Mapping>, HalError> {
        Err(HalError::Unsupported { what: "mapping", backend: "paper" })
    }

    fn open_port(
        &self,
        _: &PortSpec,
        _: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        Err(HalError::Unsupported { what: "a port", backend: "paper" }.into())
    }

    fn close_port(&self, _: Self::Port, _: Option<&mut dyn Admin>) -> Result<(), Quarantine<Self::Port>> {
        Ok(())
    }
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Extents of some megabytes, from one run to one per page, that suit pages of `page`.
fn extents(random: &mut Random, page: PageSize) -> Vec<Extent> {
    let pages = 1 + random.below(600);
    let lead = random.below(page.bytes() / 4) * 4;
    let tail = random.below(page.bytes() / 4) * 4;
    let longest = 1 << random.below(10);
    let (mut all, mut left, mut region) = (Vec::new(), pages, 0x10_0000_0000u64);
    while left > 0 {
        let count = (1 + random.below(longest)).min(left);
        // Sometimes the next run happens to follow the last one.
        region += if random.below(8) == 0 { 0 } else { page.bytes() * (1 + random.below(1000)) };
        all.push(Extent { addr: BusAddr(region), len_bytes: count << page.shift() });
        region += count << page.shift();
        left -= count;
    }
    all[0].addr.0 += lead;
    all[0].len_bytes -= lead;
    let last = all.last_mut().unwrap();
    last.len_bytes = last.len_bytes.saturating_sub(tail).max(4);
    all
}

/// The bus address of byte `offset`, found by counting.
fn oracle(extents: &[Extent], mut offset: u64) -> BusAddr {
    for extent in extents {
        if offset < extent.len_bytes {
            return BusAddr(extent.addr.0 + offset);
        }
        offset -= extent.len_bytes;
    }
    panic!("beyond the end");
}

/// Walks a transfer as a device does and compares what it reaches with the oracle, page by page.
fn check(paper: &Paper, mapped: &Arc<Mapped>, extents: &[Extent], page: PageSize, offset: u64, len: u32) {
    let transfer = mapped.transfer(offset, len, Direction::DeviceWrites).unwrap();
    let pointer = transfer.data_pointer();
    assert_eq!(pointer.psdt(), Psdt::Prp);
    let [prp1, prp2] = pointer.words().map(BusAddr);
    let mut at = offset;
    for piece in prp::walk(page, prp1, prp2, len.into(), |addr, to: &mut [u8]| paper.read(addr, to)) {
        let (addr, bytes) = piece.unwrap();
        // A piece may be several pages that follow each other on the bus.
        let mut done = 0;
        while done < bytes {
            let expected = oracle(extents, at);
            assert_eq!(addr.0 + done, expected.0, "offset {offset} length {len} at {at}");
            let step = (page.bytes() - expected.offset_in(page)).min(bytes - done);
            // The last byte of the page, too.
            assert_eq!(oracle(extents, at + step - 1).0, expected.0 + step - 1);
            done += step;
            at += step;
        }
    }
    assert_eq!(at, offset + u64::from(len), "the walk covers the transfer");
}

#[test]
fn random_transfers_over_random_extents() {
    let transfers: u64 = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let per_mapping = 1_000;
    let mut random = Random(42);
    for _ in 0..transfers / per_mapping {
        let page = PageSize::from_exponent(random.below(4) as u8).unwrap();
        let paper = Paper::new(page);
        let extents = extents(&mut random, page);
        let dma = paper.dma(extents.clone());
        let mapped = Domain::of_enabled(Arc::clone(&paper), false).unwrap().adopt(&dma).unwrap();
        for _ in 0..per_mapping {
            let dwords = mapped.len_bytes() / 4;
            let offset = random.below(dwords) * 4;
            let most = (mapped.len_bytes() - offset).min(MAX_TRANSFER_BYTES.into()) / 4;
            // Short ones are as likely as long ones.
            let shift = random.below(19);
            let len = (1 + (random.below(most) >> shift)) * 4;
            check(&paper, &mapped, &extents, page, offset, len as u32);
        }
    }
    println!("{transfers} transfers agreed with the oracle");
}

#[test]
fn every_run_at_every_position_of_the_lists() {
    let page = PageSize::MIN;
    let paper = Paper::new(page);
    // Every page apart, three list pages and a bit.
    let pages = 3 * 256 + 40u64;
    let extents: Vec<Extent> =
        (0..pages).map(|i| Extent { addr: BusAddr(0x1000_0000 + i * 0x3000), len_bytes: 4096 }).collect();
    let dma = paper.dma(extents.clone());
    let mapped = Domain::of_enabled(Arc::clone(&paper), false).unwrap().adopt(&dma).unwrap();
    let mut runs = 0u64;
    for first in 0..pages - 2 {
        for entries in 2..=256.min(pages - 1 - first) {
            // From the last dword of the page before, so that 256 entries are reached within the cap.
            let offset = first * 4096 + 4092;
            let len = 4 + (entries - 1) * 4096 + 4;
            let transfer = mapped.transfer(offset, len as u32, Direction::DeviceReads).unwrap();
            let list = transfer.data_pointer().words()[1];
            assert_eq!(list / 4096, (list + entries * 8 - 1) / 4096, "the run lies within one list page");
            let mut bytes = vec![0; entries as usize * 8];
            paper.read(BusAddr(list), &mut bytes).unwrap();
            for (entry, page) in bytes.chunks_exact(8).zip(first + 1..) {
                assert_eq!(u64::from_le_bytes(entry.try_into().unwrap()), extents[page as usize].addr.0);
            }
            runs += 1;
        }
    }
    println!("{runs} runs checked");
    assert!(runs > 170_000, "the loops cover what they say");
}

#[test]
fn what_no_command_can_move_is_refused() {
    let paper = Paper::new(PageSize::MIN);
    let dma = paper.dma(vec![Extent { addr: BusAddr(0x10_0000), len_bytes: 4 << 20 }]);
    let mapped = Domain::of_enabled(Arc::clone(&paper), false).unwrap().adopt(&dma).unwrap();
    let refused = |offset, len| mapped.transfer(offset, len, Direction::DeviceReads).unwrap_err();
    assert!(matches!(refused(0, 0), MemError::Length { len_bytes: 0, .. }));
    assert!(matches!(refused(0, MAX_TRANSFER_BYTES + 4), MemError::Length { .. }));
    assert!(matches!(refused(0, 6), MemError::Dword { what: "length", value: 6 }));
    assert!(matches!(refused(2, 4), MemError::Dword { what: "offset", value: 2 }));
    assert!(matches!(refused((4 << 20) - 4, 8), MemError::Range { .. }));
    assert!(matches!(refused(u64::MAX - 3, 4), MemError::Range { .. }));
    assert!(mapped.transfer((4 << 20) - 4, 4, Direction::DeviceReads).is_ok());
}

#[test]
fn runs_that_do_not_suit_the_page_are_refused_with_the_address() {
    let page = PageSize::from_exponent(1).unwrap();
    let paper = Paper::new(page);
    let domain = Domain::of_enabled(Arc::clone(&paper), false).unwrap();
    // Pages of 4 KiB, scattered: the second does not begin at a page of 8 KiB.
    let scattered = [(0x10_0000, 4096), (0x20_1000, 4096)];
    let misaligned = [(0x10_0000, 8192), (0x20_1000, 4096)];
    for (case, at) in [(scattered, 4096), (misaligned, 8192)] {
        let extents = case.map(|(addr, len_bytes)| Extent { addr: BusAddr(addr), len_bytes }).to_vec();
        match domain.adopt(&paper.dma(extents)) {
            Err(MemError::Pages { offset, page: told, .. }) => assert_eq!((offset, told), (at, page)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn addresses_beyond_the_devices_mask_are_refused() {
    let mut paper = Paper::new(PageSize::MIN);
    let traits = Traits::local(DomainId::fresh(), "paper", "nowhere".into()).with_address_mask((1 << 32) - 1);
    Arc::get_mut(&mut paper).unwrap().traits = traits;
    let dma = paper.dma(vec![Extent { addr: BusAddr(0xffff_f000), len_bytes: 8192 }]);
    let refused = Domain::of_enabled(Arc::clone(&paper), false).unwrap().adopt(&dma);
    assert!(matches!(refused, Err(MemError::AddressMask { .. })), "{refused:?}");
}

#[test]
fn contiguous_memory_is_told_by_one_descriptor_where_the_device_takes_it() {
    let paper = Paper::new(PageSize::MIN);
    let dma = paper.dma(vec![Extent { addr: BusAddr(0x1004), len_bytes: 1 << 20 }]);
    let mapped = Domain::of_enabled(Arc::clone(&paper), true).unwrap().adopt(&dma).unwrap();
    assert!(mapped.uses_sgl());
    let pointer = mapped.transfer(8, 512, Direction::DeviceReads).unwrap().data_pointer();
    assert_eq!((pointer.psdt(), pointer.words()), (Psdt::SglBufferMetadata, [0x100c, 512]));
}

#[test]
fn numbers_of_mappings_are_used_again_only_when_they_are_gone() {
    let paper = Paper::new(PageSize::MIN);
    let domain = Domain::of_enabled(Arc::clone(&paper), false).unwrap();
    let dma = paper.dma(vec![Extent { addr: BusAddr(0x1000), len_bytes: 4096 }]);
    let first = domain.adopt(&dma).unwrap();
    let second = domain.adopt(&dma).unwrap();
    assert_ne!(first.index(), second.index());
    let freed = first.index();
    drop(first);
    assert_eq!(domain.adopt(&dma).unwrap().index(), freed);
}
