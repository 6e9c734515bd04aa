//! What a device may still write to is not reached without the proof.

use ugds_hal::Quarantine;

fn open(quarantine: Quarantine<Vec<u8>>) -> usize {
    quarantine.len()
}

fn main() {}
