//! A command of the caller's own making could hold any address.

use ugds_mem::Io;

fn main() {
    let _ = Io::raw(&nvme_proto::Sqe::default(), None);
}
