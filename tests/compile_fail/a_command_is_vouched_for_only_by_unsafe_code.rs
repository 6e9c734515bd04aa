//! Addresses that nobody checked do not reach a queue from safe code.

use ugds_hal::Command;

fn main() {
    let _ = Command::new_unchecked(nvme_proto::Sqe::default());
}
