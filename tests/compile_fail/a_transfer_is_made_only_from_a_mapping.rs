//! A data pointer of one's own making is no transfer.

use ugds_mem::Transfer;

fn main() {
    let _ = Transfer { len_bytes: 4096 };
}
