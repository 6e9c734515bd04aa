//! The map of bus addresses: what is outside of it is refused, recorded, and told to the command.
//!
//! UNSAFETY: maps memory of the tests.

#![allow(unsafe_code)]

mod support;

use core::ptr::NonNull;
use core::time::Duration;
use nvme_proto::status::generic;
use nvme_proto::{BusAddr, DataPointer, PageSize};
use std::sync::Arc;
use support::{
    Driver, assert_status, contents, in_both_modes, pattern, pointer, pointer_to, read, read_data, write,
    write_data,
};
use ugds_hal::emu::{DmaViolation, Emu, EmuConfig, Iova, Mode, Purpose, Reason};
use ugds_hal::{Backend, Direction, Layout, Mapping, Port, Source};

fn map(emu: &Emu, memory: &mut [u8], direction: Direction) -> Arc<Mapping> {
    let source = Source::Host { ptr: NonNull::from(&mut *memory).cast(), len_bytes: memory.len() };
    // SAFETY: the tests keep the memory for longer than the mapping.
    unsafe { emu.map(source, direction) }.unwrap()
}

/// The bus address of an offset in mapped memory.
fn at(mapping: &Mapping, mut offset: u64) -> BusAddr {
    for extent in mapping.extents() {
        if offset < extent.len_bytes {
            return BusAddr(extent.addr.0 + offset);
        }
        offset -= extent.len_bytes;
    }
    panic!("beyond the mapping by {offset}");
}

#[test]
fn accesses_outside_of_mappings_fail_their_command_and_are_recorded() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        let mut queue = driver.open(1, 16);
        let layout = |direction| Layout { len_bytes: 8192, align_bytes: 4096, direction };
        let out = driver.emu.memory(layout(Direction::DeviceReads)).unwrap();
        let into = driver.emu.memory(layout(Direction::DeviceWrites)).unwrap();
        let [out_at, into_at] = [&out, &into].map(|memory| memory.mapping().contiguous().unwrap().0);
        let prp = |one, two| DataPointer::prp(BusAddr(one), BusAddr(two));
        let cases = [
            (read(0, 1), prp(0, 0), 0, Direction::DeviceWrites, Purpose::Data, Reason::Unmapped),
            (read(0, 1), prp(out_at, 0), out_at, Direction::DeviceWrites, Purpose::Data, Reason::Direction),
            (write(0, 1), prp(into_at, 0), into_at, Direction::DeviceReads, Purpose::Data, Reason::Direction),
            (
                read(0, 16),
                prp(into_at + 4096, into_at + 8192),
                into_at + 8192,
                Direction::DeviceWrites,
                Purpose::Data,
                Reason::Unmapped,
            ),
            (
                read(0, 24),
                prp(into_at, into_at),
                into_at,
                Direction::DeviceReads,
                Purpose::List,
                Reason::Direction,
            ),
            (
                read(0, 24),
                prp(into_at, 0x5000),
                0x5000,
                Direction::DeviceReads,
                Purpose::List,
                Reason::Unmapped,
            ),
        ];
        for (i, (command, pointer, addr, direction, purpose, reason)) in cases.into_iter().enumerate() {
            let result = queue.run(&command.to_sqe().with_data_pointer(pointer));
            assert_status(result, generic::DATA_TRANSFER_ERROR);
            let seen = driver.emu.violations();
            assert_eq!(seen.len(), i + 1);
            let DmaViolation { addr: seen_addr, direction: d, purpose: p, reason: r, .. } = seen[i];
            assert_eq!((seen_addr.0, d, p, r), (addr, direction, purpose, reason), "case {i}");
        }
        // A host address is no bus address.
        let host = out.shared().as_ptr().addr().get() as u64;
        assert!(queue.run(&write(0, 1).to_sqe().with_data_pointer(prp(host, 0))).is_err());
        assert_eq!(driver.emu.stats().dma_refused, 7);
        assert!(std::panic::catch_unwind(|| driver.emu.assert_clean()).is_err());
    });
}

#[test]
fn every_shape_of_prps_reaches_every_byte() {
    for (mode, scattered) in [(0, false), (1, false), (0, true), (1, true)] {
        let iova = if scattered { Iova::Scattered { seed: 9 } } else { Iova::Contiguous };
        let config = EmuConfig { iova, mdts: 0, ..EmuConfig::default() };
        let mut driver = Driver::new(if mode == 0 { config.stepped() } else { config });
        let mut queue = driver.open(1, 16);
        let mut source = pattern(4, 3 << 20);
        let mut target = vec![0; 3 << 20];
        let mapped = map(&driver.emu, &mut source, Direction::DeviceReads);
        let back = map(&driver.emu, &mut target, Direction::DeviceWrites);
        assert_eq!(mapped.extents().len() > 100, scattered);
        let skew = source.as_ptr().addr() as u64 % 4;
        let expected = pattern(4, 3 << 20);
        // Offsets and lengths around one page, two pages, a full list page (513 pages in all), and a chained one.
        for offset in [0, 4, 512, 4092] {
            for len in [512_u64, 4096, 4608, 8192, 8704, 1 << 20, 513 * 4096, 514 * 4096, 515 * 4096] {
                let from = offset + (4 - skew) % 4;
                let lba = offset * 7;
                let address = |mapping: &Arc<Mapping>| {
                    let mapping = Arc::clone(mapping);
                    move |place: u64| at(&mapping, from + place)
                };
                let out = pointer_to(&driver.emu, driver.page, &address(&mapped), len);
                let count = (len / 512) as u32;
                queue.run(&write(lba, count).to_sqe().with_data_pointer(out.pointer)).unwrap();
                let into = pointer_to(&driver.emu, driver.page, &address(&back), len);
                queue.run(&read(lba, count).to_sqe().with_data_pointer(into.pointer)).unwrap();
                let (start, len) = (from as usize, len as usize);
                assert!(target[start..start + len] == expected[start..start + len], "{offset} {len}");
            }
        }
        driver.emu.assert_clean();
        drop((mapped, back));
        driver.close(queue);
        assert_eq!(driver.shut_down().live_mappings(), 0);
    }
}

#[test]
fn scattered_memory_agrees_with_the_host_within_the_smallest_page() {
    let config =
        EmuConfig { iova: Iova::Scattered { seed: 1 }, mpsmin: 2, mpsmax: 2, ..EmuConfig::default() };
    let emu = Emu::new(config.stepped()).unwrap();
    let mut memory = vec![0; 200_000];
    let start = memory.as_ptr().addr() as u64;
    let mapping = map(&emu, &mut memory, Direction::Both);
    let mut offset = 0;
    for extent in mapping.extents() {
        assert_eq!(extent.addr.0 % 16384, (start + offset) % 16384);
        offset += extent.len_bytes;
    }
    let owned = support::buffer(&emu, 100_000);
    assert!(owned.mapping().contiguous().is_some(), "what the backend allocates stays in one run");
    // The same memory twice is two mappings with addresses of their own.
    let again = map(&emu, &mut memory, Direction::Both);
    assert!(mapping.extents().iter().all(|one| !again.extents().contains(one)));
    assert_eq!(emu.live_mappings(), 3);
}

/// A mapping that goes away while commands use it: each access is whole or refused, and none comes later.
#[test]
fn unmapping_waits_for_the_access_and_stops_those_that_follow() {
    for round in 0..20 {
        let mut driver =
            Driver::new(EmuConfig { mode: Mode::Threads { workers: 2 }, ..EmuConfig::default() });
        let mut queue = driver.open(1, 64);
        let buffer = driver.buffer(128 << 10);
        let pointer = pointer(&driver.emu, PageSize::MIN, &buffer, 128 << 10);
        for cid in 0..40 {
            queue.send_as(nvme_proto::Cid(cid), &read(0, 256).to_sqe().with_data_pointer(pointer.pointer));
        }
        queue.port.publish();
        std::thread::sleep(Duration::from_micros(round * 20));
        drop(buffer);
        for _ in 0..40 {
            let status = queue.wait().status();
            assert!(status.is_success() || status.is(generic::DATA_TRANSFER_ERROR), "{status}");
        }
    }
}

#[test]
fn addresses_of_one_controller_are_nothing_to_another() {
    let mut one = Driver::new(EmuConfig::default().stepped());
    let two = Driver::new(EmuConfig::default().stepped());
    let mut queue = one.open(1, 8);
    let foreign = two.buffer(4096);
    let pointer = DataPointer::prp(foreign.mapping().contiguous().unwrap(), BusAddr(0));
    assert_status(queue.run(&read(0, 8).to_sqe().with_data_pointer(pointer)), generic::DATA_TRANSFER_ERROR);
    assert_ne!(one.emu.traits().domain, two.emu.traits().domain);
    assert_ne!(foreign.mapping().domain(), one.emu.traits().domain);
}

#[test]
fn impossible_mappings_are_refused() {
    let emu = Emu::new(EmuConfig::default().stepped()).unwrap();
    let source = Source::Host { ptr: NonNull::dangling(), len_bytes: 0 };
    // SAFETY: there is no memory to keep.
    assert!(unsafe { emu.map(source, Direction::Both) }.is_err());
    for (len_bytes, align_bytes) in [(0, 4096), (usize::MAX, 4096), (4096, 3)] {
        assert!(emu.memory(Layout { len_bytes, align_bytes, direction: Direction::Both }).is_err());
    }
    assert_eq!(emu.live_mappings(), 0);
}

/// 256 MiB in commands of 128 KiB: it has to be quick enough to be shown. Prints what it measured.
#[test]
fn large_transfers_are_quick() {
    let mut driver = Driver::new(EmuConfig { vwc: false, ..EmuConfig::default() });
    let mut queue = driver.open(1, 64);
    let data = pattern(1, 128 << 10);
    let start = std::time::Instant::now();
    let buffer = driver.buffer(128 << 10);
    buffer.shared().copy_in(0, &data).unwrap();
    let pointer = pointer(&driver.emu, driver.page, &buffer, 128 << 10);
    for index in 0..2048 {
        queue.run(&write(index * 256, 256).to_sqe().with_data_pointer(pointer.pointer)).unwrap();
    }
    let written = start.elapsed();
    for index in 0..2048 {
        queue.run(&read(index * 256, 256).to_sqe().with_data_pointer(pointer.pointer)).unwrap();
    }
    let both = start.elapsed();
    println!("256 MiB written in {written:?}, read in {:?}", both - written);
    assert_eq!(contents(&buffer, 128 << 10), data);
    assert!(write_data(&driver, &mut queue, write(0, 1), &[1; 512]).is_ok());
    assert!(read_data(&driver, &mut queue, read(0, 1), 512).is_ok());
}
