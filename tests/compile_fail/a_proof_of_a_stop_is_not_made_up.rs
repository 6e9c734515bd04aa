//! That a device stopped is claimed only by unsafe code, which says how it knows.

use ugds_hal::{Era, Stopped};

fn claim(era: Era) -> Stopped {
    Stopped::claim(era)
}

fn main() {}
