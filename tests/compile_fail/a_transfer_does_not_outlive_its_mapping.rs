//! A transfer borrows the mapping, so the mapping can't go first.

use std::sync::Arc;
use ugds_hal::Direction;
use ugds_mem::{Mapped, Transfer};

fn keep(mapped: Arc<Mapped>) -> Transfer<'static> {
    mapped.transfer(0, 4096, Direction::DeviceReads).unwrap()
}

fn main() {
    let _ = keep;
}
