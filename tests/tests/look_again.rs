//! A command that ends between the last look and the look at the clock.

mod hooked;

use hooked::late::Late;
use ugds::emu::{Emu, EmuConfig};
use ugds::faulty::{FaultPlan, Faulty};
use ugds::nvme::Lba;
use ugds::{Device, Options};
use ugds_hal::Backend;

/// Whoever was stopped in between, by a debugger or by a busy machine, finds the clock late and the command done.
#[test]
fn what_ended_while_the_clock_was_read_is_not_aborted() {
    let emu = Emu::new(EmuConfig::default().with_namespaces(1, 16 << 20, 512).stepped()).unwrap();
    let options = Options::default();
    // The Abort, were one sent, would be refused, and that would count.
    let plan: FaultPlan = "fail:opcode=0x08,qid=0,status=0/06".parse().unwrap();
    let faulty = Faulty::new(Late::new(&emu, options.io_timeout), plan).unwrap();
    let clock = faulty.clock().clone();
    let device = Device::with_backend(faulty.clone(), options, None).unwrap();
    let region = device.alloc(4096).unwrap();
    clock.wind();
    device.namespace().unwrap().read(&region, 0..4096, Lba(0)).unwrap();
    assert_eq!(faulty.fired(), 0, "nothing was aborted");
    assert!(device.wedged().is_none());
    drop(region);
    device.close().unwrap();
    emu.assert_clean();
}
