//! A file that can't grow. Alone in its process, since it limits the process.

mod support;

use nvme_proto::nvm::Flush;
use nvme_proto::status::generic;
use nvme_proto::{Nsid, PageSize};
use std::path::Path;
use std::process::Command;
use support::{Driver, assert_status, read, read_data, write, write_data};
use ugds_hal::emu::{Emu, EmuConfig};

/// The limit on the size of files makes writes beyond it fail with `EFBIG`, and sends a signal that is ignored here.
/// A shell sets both for a child, which is this test again.
#[test]
fn a_full_disk_ends_writes_with_a_status_and_no_signal() {
    if let Some(path) = std::env::var_os(CHILD) {
        return on_a_full_disk(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::write(&path, vec![0; SIZE as usize]).unwrap();
    let this = std::env::current_exe().unwrap();
    let script = format!("trap '' XFSZ; ulimit -f 2048; exec '{}' --exact {NAME}", this.display());
    let output = Command::new("sh").arg("-c").arg(script).env(CHILD, &path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn on_a_full_disk(path: &Path) {
    for vwc in [false, true] {
        let config = EmuConfig { vwc, ..EmuConfig::default() }.with_namespaces(1, SIZE, 512).with_file(path);
        let emu = Emu::new(config).unwrap();
        let mut driver = Driver::on(&emu, PageSize::MIN);
        let mut queue = driver.open(1, 8);
        write_data(&driver, &mut queue, write(0, 1), &[1; 512]).unwrap();
        let flush = Flush { nsid: Nsid(1) }.to_sqe();
        queue.run(&flush).unwrap();
        let beyond = write_data(&driver, &mut queue, write(LIMIT / 512, 1), &[2; 512]);
        if vwc {
            beyond.unwrap();
            assert_status(queue.run(&flush), generic::CAPACITY_EXCEEDED);
            // It is not lost as long as there is power, and not taken for durable.
            assert_eq!(read_data(&driver, &mut queue, read(LIMIT / 512, 1), 512).unwrap(), [2; 512]);
            assert_status(queue.run(&flush), generic::CAPACITY_EXCEEDED);
        } else {
            assert_status(beyond, generic::CAPACITY_EXCEEDED);
        }
        assert_eq!(read_data(&driver, &mut queue, read(0, 1), 512).unwrap(), [1; 512]);
        emu.assert_clean();
    }
}

const SIZE: u64 = 4 << 20;
/// `ulimit -f` counts blocks of 512 bytes, or of 1 KiB in some shells.
const LIMIT: u64 = 2 << 20;
const CHILD: &str = "EMU_FULL_DISK";
const NAME: &str = "a_full_disk_ends_writes_with_a_status_and_no_signal";
