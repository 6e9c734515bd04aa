//! I/O commands, right and wrong.

mod support;

use nvme_proto::nvm::{
    Copy, CopyRange, DatasetManagement, DsmAttributes, DsmRange, Flush, IoFlags, Opcode, ReadWrite,
};
use nvme_proto::sgl::SglDescriptor;
use nvme_proto::status::{command, generic, media};
use nvme_proto::zerocopy::IntoBytes;
use nvme_proto::{BusAddr, DataPointer, Lba, Nsid, Sqe};
use support::{
    Driver, Queue, assert_status, blocks, contents, in_both_modes, pattern, pointer, read, read_data, write,
    write_data,
};
use ugds_hal::emu::{EmuConfig, FaultOn, MediaFault, NamespaceConfig};

const LAST: u64 = (2 << 20) - 1;

fn start(config: EmuConfig) -> (Driver, Queue) {
    let mut driver = Driver::new(config);
    let queue = driver.open(1, 64);
    (driver, queue)
}

fn on(opcode: Opcode, lba: u64, count: u32) -> ReadWrite {
    ReadWrite::new(opcode, Nsid(1), Lba(lba), blocks(count))
}

#[test]
fn every_wrong_command_gets_its_status() {
    in_both_modes(|config| {
        let namespaces = vec![
            NamespaceConfig::new(1, 1 << 30, 512),
            NamespaceConfig { attached: false, ..NamespaceConfig::new(2, 1 << 20, 512) },
            NamespaceConfig { write_protected: true, ..NamespaceConfig::new(3, 1 << 20, 512) },
        ];
        let (driver, mut queue) = start(EmuConfig { namespaces, ..config });
        let buffer = driver.buffer(1 << 20);
        let addr = buffer.mapping().contiguous().unwrap();
        let at = |sqe: Sqe, prp1: u64, prp2: u64| {
            sqe.with_data_pointer(DataPointer::prp(BusAddr(prp1), BusAddr(prp2)))
        };
        let good = |command: ReadWrite| at(command.to_sqe(), addr.0, addr.0 + 4096);
        let flags = |flags: u8| Sqe { flags, ..good(read(0, 1)) };
        let of = |nsid: u32, command: ReadWrite| good(ReadWrite { nsid: Nsid(nsid), ..command });
        let dtype = IoFlags::new().with_dtype(1);
        let cases = [
            (Sqe::new(0x0d, Nsid(1)), generic::INVALID_OPCODE),
            (Sqe::new(0x7d, Nsid(1)), generic::INVALID_OPCODE),
            (flags(1), generic::INVALID_FIELD),
            (flags(2), generic::INVALID_FIELD),
            (flags(0x40), generic::INVALID_FIELD),
            (flags(0x80), generic::INVALID_FIELD),
            (flags(0xc0), generic::INVALID_FIELD),
            (of(0, read(0, 1)), generic::INVALID_NAMESPACE_OR_FORMAT),
            (of(2, read(0, 1)), generic::INVALID_NAMESPACE_OR_FORMAT),
            (of(4, read(0, 1)), generic::INVALID_NAMESPACE_OR_FORMAT),
            (of(u32::MAX, read(0, 1)), generic::INVALID_NAMESPACE_OR_FORMAT),
            (of(u32::MAX, write(0, 1)), generic::INVALID_NAMESPACE_OR_FORMAT),
            (Flush { nsid: Nsid::ALL }.to_sqe(), generic::INVALID_NAMESPACE_OR_FORMAT),
            (Flush { nsid: Nsid(9) }.to_sqe(), generic::INVALID_NAMESPACE_OR_FORMAT),
            (good(read(0, 257)), generic::INVALID_FIELD),
            (good(write(0, 65536)), generic::INVALID_FIELD),
            (good(on(Opcode::COMPARE, 0, 257)), generic::INVALID_FIELD),
            (good(ReadWrite { flags: dtype, ..write(0, 1) }), generic::INVALID_FIELD),
            (good(read(LAST, 2)), generic::LBA_OUT_OF_RANGE),
            (good(read(LAST + 1, 1)), generic::LBA_OUT_OF_RANGE),
            (good(read(u64::MAX, 2)), generic::LBA_OUT_OF_RANGE),
            (good(write(LAST, 2)), generic::LBA_OUT_OF_RANGE),
            (good(on(Opcode::COMPARE, LAST, 2)), generic::LBA_OUT_OF_RANGE),
            (on(Opcode::VERIFY, LAST, 2).to_sqe(), generic::LBA_OUT_OF_RANGE),
            (on(Opcode::WRITE_ZEROES, LAST, 2).to_sqe(), generic::LBA_OUT_OF_RANGE),
            (on(Opcode::WRITE_UNCORRECTABLE, LAST, 2).to_sqe(), generic::LBA_OUT_OF_RANGE),
            (of(3, write(0, 1)), generic::NAMESPACE_WRITE_PROTECTED),
            (of(3, on(Opcode::WRITE_ZEROES, 0, 1)), generic::NAMESPACE_WRITE_PROTECTED),
            (of(3, on(Opcode::WRITE_UNCORRECTABLE, 0, 1)), generic::NAMESPACE_WRITE_PROTECTED),
            (at(read(0, 1).to_sqe(), addr.0 + 2, 0), generic::PRP_OFFSET_INVALID),
            (at(read(0, 9).to_sqe(), addr.0, addr.0 + 4100), generic::PRP_OFFSET_INVALID),
            (at(read(0, 17).to_sqe(), addr.0, addr.0 + 4100), generic::PRP_OFFSET_INVALID),
        ];
        for (i, (sqe, status)) in cases.into_iter().enumerate() {
            let error = queue.run(&sqe).expect_err("a wrong command succeeded");
            assert!(error.is(status), "case {i}: {error} instead of {status}");
            assert!(error.do_not_retry() && error.more(), "case {i}: {error}");
        }
        driver.emu.assert_clean();
        queue.run(&of(3, read(0, 1))).unwrap();
    });
}

#[test]
fn there_may_be_no_limit_to_a_transfer() {
    let (driver, mut queue) = start(EmuConfig { mdts: 0, ..EmuConfig::default() });
    let data = pattern(5, 32 << 20);
    write_data(&driver, &mut queue, write(3, 65536), &data).unwrap();
    assert!(read_data(&driver, &mut queue, read(3, 65536), data.len()).unwrap() == data);
}

#[test]
fn sgls_describe_data_in_pieces_and_wrong_ones_are_refused() {
    in_both_modes(|config| {
        let (driver, mut queue) = start(EmuConfig { sgl: true, ..config });
        let data = pattern(3, 4096);
        let buffer = driver.buffer(1 << 16);
        let base = buffer.mapping().contiguous().unwrap();
        let at = |offset: u64| BusAddr(base.0 + offset);
        buffer.shared().copy_in(1, &data[..1001]).unwrap();
        buffer.shared().copy_in(9000, &data[1001..]).unwrap();
        let list = |descriptors: &[SglDescriptor]| {
            buffer.shared().copy_in(0x8000, descriptors.as_bytes()).unwrap();
            SglDescriptor::last_segment(at(0x8000), descriptors.len() as u32)
        };
        let run = |queue: &mut Queue, command: ReadWrite, sgl| {
            queue.run(&command.to_sqe().with_data_pointer(DataPointer::sgl(sgl)))
        };
        let two = [SglDescriptor::data_block(at(1), 1001), SglDescriptor::data_block(at(9000), 3095)];
        run(&mut queue, write(8, 8), list(&two)).unwrap();
        assert_eq!(read_data(&driver, &mut queue, read(8, 8), 4096).unwrap(), data);

        let some = [SglDescriptor::bit_bucket(512), SglDescriptor::data_block(at(0x4000), 3584)];
        run(&mut queue, read(8, 8), list(&some)).unwrap();
        assert_eq!(contents(&buffer, 1 << 16)[0x4000..][..3584], data[512..]);
        run(&mut queue, read(8, 8), SglDescriptor::data_block(at(0), 4096)).unwrap();
        assert_eq!(contents(&buffer, 4096), data);

        let short = SglDescriptor::data_block(at(0), 4095);
        let long = SglDescriptor::data_block(at(0), 4097);
        let keyed = SglDescriptor { identifier: 0x40, ..short };
        let cases = [
            (short, generic::DATA_SGL_LENGTH_INVALID),
            (long, generic::DATA_SGL_LENGTH_INVALID),
            (keyed, generic::SGL_DESCRIPTOR_TYPE_INVALID),
            (SglDescriptor::last_segment(at(0x8000), 0), generic::INVALID_SGL_SEGMENT_DESCRIPTOR),
        ];
        for (sgl, status) in cases {
            assert_status(run(&mut queue, read(8, 8), sgl), status);
        }
        // MPTR as an SGL is not offered.
        let segment = Sqe { flags: 0x80, ..read(8, 8).to_sqe() };
        assert_status(queue.run(&segment), generic::INVALID_FIELD);
        driver.emu.assert_clean();
    });
}

#[test]
fn compare_verify_zeroes_and_uncorrectable() {
    in_both_modes(|config| {
        let (driver, mut queue) = start(config);
        let data = pattern(2, 16 * 512);
        let compare = |driver: &Driver, queue: &mut Queue, data: &[u8]| {
            write_data(driver, queue, on(Opcode::COMPARE, 100, 16), data)
        };
        write_data(&driver, &mut queue, write(100, 16), &data).unwrap();
        compare(&driver, &mut queue, &data).unwrap();
        let mut other = data.clone();
        other[16 * 512 - 1] ^= 1;
        assert_status(compare(&driver, &mut queue, &other), media::COMPARE_FAILURE);
        queue.run(&on(Opcode::VERIFY, 100, 16).to_sqe()).unwrap();

        queue.run(&on(Opcode::WRITE_ZEROES, 104, 2).to_sqe()).unwrap();
        let back = read_data(&driver, &mut queue, read(100, 16), data.len()).unwrap();
        assert_eq!(back[4 * 512..6 * 512], [0; 1024]);
        assert_eq!(back[6 * 512..], data[6 * 512..]);

        queue.run(&on(Opcode::WRITE_UNCORRECTABLE, 101, 2).to_sqe()).unwrap();
        for command in [read(102, 1), read(100, 16), on(Opcode::COMPARE, 100, 16)] {
            assert_status(write_data(&driver, &mut queue, command, &data), media::UNRECOVERED_READ_ERROR);
        }
        assert_status(queue.run(&on(Opcode::VERIFY, 100, 2).to_sqe()), media::UNRECOVERED_READ_ERROR);
        read_data(&driver, &mut queue, read(103, 1), 512).unwrap();
        write_data(&driver, &mut queue, write(101, 1), &data[..512]).unwrap();
        read_data(&driver, &mut queue, read(101, 1), 512).unwrap();
        queue.run(&on(Opcode::WRITE_ZEROES, 102, 1).to_sqe()).unwrap();
        read_data(&driver, &mut queue, read(100, 16), data.len()).unwrap();
    });
}

#[test]
fn media_faults_hit_their_blocks() {
    let (driver, mut queue) = start(EmuConfig::default().stepped());
    let fault = |first, blocks, on| MediaFault { first: Lba(first), blocks, on };
    driver.emu.set_media_faults(Nsid(1), vec![fault(10, 2, FaultOn::Reads), fault(20, 1, FaultOn::Writes)]);
    for (lba, count, bad) in [(9, 1, false), (9, 2, true), (11, 1, true), (12, 9, false), (20, 1, false)] {
        assert_eq!(read_data(&driver, &mut queue, read(lba, count), count as usize * 512).is_err(), bad);
    }
    assert_status(write_data(&driver, &mut queue, write(19, 2), &[0; 1024]), media::WRITE_FAULT);
    assert_status(queue.run(&on(Opcode::WRITE_ZEROES, 20, 1).to_sqe()), media::WRITE_FAULT);
    write_data(&driver, &mut queue, write(10, 2), &[0; 1024]).unwrap();
    driver.emu.set_media_faults(Nsid(1), Vec::new());
    read_data(&driver, &mut queue, read(9, 12), 12 * 512).unwrap();
}

#[test]
fn ranges_are_deallocated_all_or_none() {
    in_both_modes(|config| {
        let (driver, mut queue) = start(config);
        write_data(&driver, &mut queue, write(0, 32), &[5; 32 * 512]).unwrap();
        let trim = |queue: &mut Queue, ranges: &[DsmRange], attributes| {
            let buffer = driver.buffer(4096);
            buffer.shared().copy_in(0, ranges.as_bytes()).unwrap();
            let pointer = pointer(&driver.emu, driver.page, &buffer, ranges.len() as u64 * 16);
            let command = DatasetManagement { nsid: Nsid(1), nr_z: (ranges.len() - 1) as u8, attributes };
            queue.run(&command.to_sqe().with_data_pointer(pointer.pointer))
        };
        let ranges = [DsmRange::new(Lba(2), 3), DsmRange::new(Lba(30), 2), DsmRange::new(Lba(9), 0)];
        let beyond = [DsmRange::new(Lba(6), 1), DsmRange::new(Lba(LAST), 2)];
        let all = DsmAttributes::DEALLOCATE;
        assert_status(trim(&mut queue, &beyond, all), generic::LBA_OUT_OF_RANGE);
        trim(&mut queue, &beyond, DsmAttributes::INTEGRAL_READ).unwrap();
        trim(&mut queue, &ranges, all).unwrap();
        let back = read_data(&driver, &mut queue, read(0, 32), 32 * 512).unwrap();
        let gone: Vec<_> = (0..32).filter(|block| back[block * 512] == 0).collect();
        assert_eq!(gone, [2, 3, 4, 30, 31]);
        trim(&mut queue, &[DsmRange::new(Lba(0), 2 << 20); 256], all).unwrap();
        driver.emu.assert_clean();
    });
}

#[test]
fn copies_keep_to_their_limits() {
    in_both_modes(|config| {
        let (driver, mut queue) = start(config);
        let data = pattern(8, 64 * 512);
        write_data(&driver, &mut queue, write(0, 64), &data).unwrap();
        let copy = |queue: &mut Queue, ranges: &[(u64, u32)], command: Copy| {
            let ranges: Vec<_> =
                ranges.iter().map(|&(lba, count)| CopyRange::new(Lba(lba), blocks(count))).collect();
            let buffer = driver.buffer(8192);
            buffer.shared().copy_in(0, ranges.as_bytes()).unwrap();
            let pointer = pointer(&driver.emu, driver.page, &buffer, ranges.len() as u64 * 32);
            queue.run(&command.to_sqe().with_data_pointer(pointer.pointer))
        };
        let to = |lba, ranges: u32| Copy::new(Nsid(1), Lba(lba), ranges).unwrap();
        copy(&mut queue, &[(8, 4), (0, 2)], to(1000, 2)).unwrap();
        let back = read_data(&driver, &mut queue, read(1000, 6), 6 * 512).unwrap();
        assert_eq!(back, [&data[8 * 512..12 * 512], &data[..2 * 512]].concat());
        copy(&mut queue, &[(0, 8)], to(4, 1)).unwrap();
        assert_eq!(read_data(&driver, &mut queue, read(4, 8), 8 * 512).unwrap(), data[..8 * 512]);

        let many = [(0, 1); 17];
        let large = [(0, 256); 5];
        let cases: [(&[(u64, u32)], Copy, _); 6] = [
            (&many, to(1000, 17), command::COMMAND_SIZE_LIMIT_EXCEEDED),
            (&[(0, 257)], to(1000, 1), command::COMMAND_SIZE_LIMIT_EXCEEDED),
            (&large, to(1000, 5), command::COMMAND_SIZE_LIMIT_EXCEEDED),
            (&[(LAST, 2)], to(1000, 1), generic::LBA_OUT_OF_RANGE),
            (&[(0, 2)], to(LAST, 1), generic::LBA_OUT_OF_RANGE),
            (&[(0, 1)], Copy { format: 1, ..to(1000, 1) }, generic::INVALID_FIELD),
        ];
        for (ranges, command, status) in cases {
            assert_status(copy(&mut queue, ranges, command), status);
        }
        driver.emu.assert_clean();
    });
}

#[test]
fn metadata_travels_between_blocks_or_apart() {
    let namespaces = vec![
        NamespaceConfig { metadata_bytes: 8, extended_lba: true, ..NamespaceConfig::new(1, 1 << 20, 512) },
        NamespaceConfig { metadata_bytes: 64, ..NamespaceConfig::new(2, 1 << 20, 4096) },
    ];
    let (driver, mut queue) = start(EmuConfig { namespaces, ..EmuConfig::default() }.stepped());
    let data = pattern(1, 10 * 520);
    write_data(&driver, &mut queue, write(3, 10), &data).unwrap();
    assert_eq!(read_data(&driver, &mut queue, read(3, 10), data.len()).unwrap(), data);
    assert_eq!(read_data(&driver, &mut queue, read(5, 1), 520).unwrap(), data[1040..1560]);
    // 253 blocks of 520 bytes are more than 128 KiB.
    assert_status(queue.run(&read(0, 253).to_sqe()), generic::INVALID_FIELD);

    let data = pattern(6, 2 * 4096);
    let buffer = driver.buffer(3 * 4096);
    buffer.shared().copy_in(0, &data).unwrap();
    buffer.shared().copy_in(2 * 4096, &[9; 128]).unwrap();
    let base = buffer.mapping().contiguous().unwrap();
    let command = |opcode| {
        let mut sqe = ReadWrite::new(opcode, Nsid(2), Lba(1), blocks(2)).to_sqe();
        sqe.mptr = (base.0 + 8192).into();
        sqe.with_data_pointer(DataPointer::prp(base, BusAddr(base.0 + 4096)))
    };
    queue.run(&command(Opcode::WRITE)).unwrap();
    buffer.shared().fill(0, 3 * 4096, 0).unwrap();
    queue.run(&command(Opcode::READ)).unwrap();
    let back = contents(&buffer, 3 * 4096);
    assert_eq!(back[..8192], data);
    assert_eq!(back[8192..8192 + 129], [[9; 128].as_slice(), &[0]].concat());
    driver.emu.assert_clean();
}
