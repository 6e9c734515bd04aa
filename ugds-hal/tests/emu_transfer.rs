//! Data that goes to the model comes back, whatever way it is described.

mod support;

use nvme_proto::admin::Identify;
use nvme_proto::identify::{Controller, Namespace};
use nvme_proto::zerocopy::FromBytes;
use nvme_proto::{Nsid, PageSize};
use support::{Driver, in_both_modes, pattern, read, read_data, write, write_data};
use ugds_hal::emu::EmuConfig;

#[test]
fn a_controller_comes_up_moves_data_and_goes_down_without_leaks() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        let controller =
            Controller::read_from_bytes(&driver.identify(Identify::controller()).unwrap()).unwrap();
        assert_eq!(controller.max_transfer_bytes(PageSize::MIN), Some(128 << 10));
        let namespace = driver.identify(Identify::namespace(Nsid(1))).unwrap();
        let namespace = Namespace::read_from_bytes(&namespace).unwrap();
        assert_eq!((namespace.nsze.get(), namespace.lba_bytes()), (2 << 20, Some(512)));
        let mut queue = driver.open(1, 64);
        for (lba, count) in [(0, 1), (7, 8), (100, 9), (1000, 16), (5000, 256), ((2 << 20) - 1, 1)] {
            let data = pattern(lba, count as usize * 512);
            write_data(&driver, &mut queue, write(lba, count), &data).unwrap();
            assert_eq!(read_data(&driver, &mut queue, read(lba, count), data.len()).unwrap(), data);
        }
        driver.close(queue);
        let emu = driver.shut_down();
        emu.assert_clean();
        assert_eq!(emu.live_mappings(), 0);
    });
}

#[test]
fn every_page_size_and_doorbell_stride_works() {
    for (mpsmin, mpsmax, page, dstrd) in [(0, 0, 0, 0), (0, 4, 4, 1), (1, 8, 2, 3), (8, 8, 8, 8)] {
        for mqes_z in [1, 63, 298, 1023, 65535] {
            let config = EmuConfig { mpsmin, mpsmax, dstrd, mqes_z, ..EmuConfig::default() }.stepped();
            let emu = ugds_hal::emu::Emu::new(config).unwrap();
            let mut driver = Driver::on(&emu, PageSize::from_exponent(page).unwrap());
            let entries = (u32::from(mqes_z) + 1).min(32768);
            let entries = 1_u16 << entries.ilog2();
            let mut queue = driver.open(8, entries);
            let data = pattern(9, 64 << 10);
            for lap in 0..6 {
                write_data(&driver, &mut queue, write(lap, 128), &data).unwrap();
                assert_eq!(read_data(&driver, &mut queue, read(lap, 128), data.len()).unwrap(), data);
            }
            driver.close(queue);
            driver.shut_down().assert_clean();
        }
    }
}
