//! What survives: the write cache, the file, and what goes wrong with it.

mod support;

use nvme_proto::PageSize;
use nvme_proto::admin::{SetFeatures, VolatileWriteCache};
use nvme_proto::nvm::{Flush, IoFlags, Opcode, ReadWrite};
use nvme_proto::status::{generic, media};
use nvme_proto::{Lba, Nsid};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use support::{
    Driver, Queue, assert_status, blocks, csts, in_both_modes, pattern, read, read_data, write, write_data,
};
use ugds_hal::Backend;
use ugds_hal::emu::{ConfigError, Emu, EmuConfig, NamespaceConfig};

fn small(config: EmuConfig) -> EmuConfig {
    config.with_namespaces(1, 4 << 20, 512)
}

fn start(emu: &Emu) -> (Driver, Queue) {
    let mut driver = Driver::on(emu, PageSize::MIN);
    let queue = driver.open(1, 16);
    (driver, queue)
}

#[test]
fn a_crash_loses_what_was_not_flushed() {
    in_both_modes(|config| {
        let emu = Emu::new(small(EmuConfig { vwc: true, ..config })).unwrap();
        let (driver, mut queue) = start(&emu);
        let fua = IoFlags::new().with_fua(true);
        write_data(&driver, &mut queue, write(0, 8), &[1; 4096]).unwrap();
        queue.run(&Flush { nsid: Nsid::ALL }.to_sqe()).unwrap();
        write_data(&driver, &mut queue, write(2, 2), &[2; 1024]).unwrap();
        write_data(&driver, &mut queue, ReadWrite { flags: fua, ..write(3, 1) }, &[3; 512]).unwrap();
        write_data(&driver, &mut queue, write(5, 1), &[4; 512]).unwrap();
        let first = |bytes: Vec<u8>| bytes.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>();
        let seen = first(read_data(&driver, &mut queue, read(0, 8), 4096).unwrap());
        assert_eq!(seen, [1, 1, 2, 3, 1, 4, 1, 1]);
        assert_eq!(emu.unflushed_bytes(), 1024);
        emu.crash();
        assert!(csts(&emu).is_gone());
        emu.power_on();
        let (driver, mut queue) = start(&emu);
        let seen = first(read_data(&driver, &mut queue, read(0, 8), 4096).unwrap());
        assert_eq!(seen, [1, 1, 1, 3, 1, 1, 1, 1]);
        // A read with FUA has to come from the medium.
        write_data(&driver, &mut queue, write(0, 1), &[9; 512]).unwrap();
        read_data(&driver, &mut queue, ReadWrite { flags: fua, ..read(0, 1) }, 512).unwrap();
        assert_eq!(emu.unflushed_bytes(), 0);
    });
}

#[test]
fn a_cache_may_have_written_back_some() {
    let emu = Emu::new(small(EmuConfig { vwc: true, ..EmuConfig::default() }.stepped())).unwrap();
    let (driver, mut queue) = start(&emu);
    write_data(&driver, &mut queue, write(0, 256), &[7; 256 * 512]).unwrap();
    emu.crash_keeping_some(3);
    emu.power_on();
    let (driver, mut queue) = start(&emu);
    let back = read_data(&driver, &mut queue, read(0, 256), 256 * 512).unwrap();
    let kept = back.chunks(512).filter(|sector| sector[0] == 7).count();
    assert!((80..176).contains(&kept), "{kept} of 256");
}

#[test]
fn switching_the_cache_off_makes_everything_durable() {
    let emu = Emu::new(small(EmuConfig { vwc: true, ..EmuConfig::default() }.stepped())).unwrap();
    let (mut driver, mut queue) = start(&emu);
    write_data(&driver, &mut queue, write(0, 1), &[1; 512]).unwrap();
    driver.admin.run(&SetFeatures::new(VolatileWriteCache::new()).to_sqe()).unwrap();
    assert_eq!(emu.unflushed_bytes(), 0);
    write_data(&driver, &mut queue, write(1, 1), &[2; 512]).unwrap();
    assert_eq!(emu.unflushed_bytes(), 0);
    emu.power_cycle();
    let (driver, mut queue) = start(&emu);
    let back = read_data(&driver, &mut queue, read(0, 2), 1024).unwrap();
    assert_eq!((back[0], back[512]), (1, 2));
    // After a reset it is on again.
    write_data(&driver, &mut queue, write(1, 1), &[2; 512]).unwrap();
    assert_eq!(emu.unflushed_bytes(), 512);
}

#[test]
fn a_file_keeps_its_namespaces_apart_and_for_the_next_model() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let config = EmuConfig::default().with_namespaces(3, 1 << 20, 4096).with_file(&path).stepped();
    {
        let emu = Emu::new(config.clone()).unwrap();
        let (driver, mut queue) = start(&emu);
        for nsid in 1..=3_u32 {
            let command = ReadWrite::write(Nsid(nsid), Lba(255), blocks(1));
            write_data(&driver, &mut queue, command, &pattern(nsid.into(), 4096)).unwrap();
        }
        let zeroes = ReadWrite::new(Opcode::WRITE_ZEROES, Nsid(2), Lba(0), blocks(256));
        queue.run(&zeroes.to_sqe()).unwrap();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 << 20);
    let emu = Emu::new(config.clone()).unwrap();
    let (driver, mut queue) = start(&emu);
    for nsid in 1..=3_u32 {
        let command = ReadWrite::read(Nsid(nsid), Lba(255), blocks(1));
        let back = read_data(&driver, &mut queue, command, 4096).unwrap();
        assert_eq!(back, if nsid == 2 { vec![0; 4096] } else { pattern(nsid.into(), 4096) });
    }
    let larger = config.with_namespaces(3, 2 << 20, 4096);
    assert!(matches!(Emu::new(larger.clone()), Err(ConfigError::FileInUse { .. })));
    drop((driver, queue, emu));
    assert!(matches!(Emu::new(larger), Err(ConfigError::FileTooSmall { .. })));
    let nowhere = EmuConfig::default().with_file(dir.path().join("none/disk"));
    assert!(matches!(Emu::new(nowhere), Err(ConfigError::File { .. })));
}

#[test]
fn a_truncated_file_is_a_read_error_and_not_zeroes() {
    in_both_modes(|config| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let emu = Emu::new(small(config).with_file(&path)).unwrap();
        let (driver, mut queue) = start(&emu);
        write_data(&driver, &mut queue, write(0, 16), &[7; 8192]).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        read_data(&driver, &mut queue, read(0, 8), 4096).unwrap();
        assert_status(
            read_data(&driver, &mut queue, read(7, 2), 1024).map(|_| 0),
            media::UNRECOVERED_READ_ERROR,
        );
        let verify = ReadWrite::new(Opcode::VERIFY, Nsid(1), Lba(8), blocks(1));
        assert_status(queue.run(&verify.to_sqe()), media::UNRECOVERED_READ_ERROR);
        emu.assert_clean();
    });
}

#[test]
fn what_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path(), Path::new("/dev/full")] {
        let config = small(EmuConfig::default()).with_file(path);
        assert!(matches!(Emu::new(config), Err(ConfigError::File { .. })));
    }
}

#[test]
fn the_file_holds_blocks_where_they_belong() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let mut first = NamespaceConfig::new(1, 1 << 20, 512);
    first.metadata_bytes = 0;
    let config =
        EmuConfig { namespaces: vec![first, NamespaceConfig::new(5, 1 << 20, 4096)], ..EmuConfig::default() };
    let emu = Emu::new(config.with_file(&path).stepped()).unwrap();
    let (driver, mut queue) = start(&emu);
    write_data(&driver, &mut queue, ReadWrite::write(Nsid(5), Lba(2), blocks(1)), &[5; 4096]).unwrap();
    write_data(&driver, &mut queue, write(3, 1), &[6; 512]).unwrap();
    let file = File::open(&path).unwrap();
    let mut byte = [0];
    for (offset, expected) in [((1 << 20) + 8191, 0), ((1 << 20) + 8192, 5), (1536, 6), (1535, 0)] {
        file.read_exact_at(&mut byte, offset).unwrap();
        assert_eq!(byte[0], expected, "{offset}");
    }
    assert_status(
        queue.run(&ReadWrite::read(Nsid(5), Lba(256), blocks(1)).to_sqe()),
        generic::LBA_OUT_OF_RANGE,
    );
    assert_eq!(emu.traits().backend, "emu");
}
