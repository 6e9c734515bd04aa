//! Staging consumes the permit.

use ugds_hal::Port;
use ugds_mem::Io;
use ugds_queue::Permit;

fn stage<P: Port>(permit: Permit<'_, P>, io: &Io<'_>) {
    let _ = permit.stage(io, 1);
    let _ = permit.stage(io, 2);
}

fn main() {}
