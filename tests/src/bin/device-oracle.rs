//! Random reads and writes on a device of the caller's, against byte arrays. It destroys the start of each namespace.
//!
//! Usage: `device-oracle URI [OPERATIONS [SEED]]`

use std::error::Error;
use ugds::Device;
use ugds_tests::oracle::{Random, Twin};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: device-oracle URI [OPERATIONS [SEED]]";
    let uri = words.first().ok_or(usage)?;
    let operations: u64 = words.get(1).map_or(Ok(1_000), |word| word.parse())?;
    let seed: u64 = words.get(2).map_or(Ok(1), |word| word.parse())?;
    let device = Device::open(uri)?;
    run(&device, operations, seed)?;
    let stats = device.stats();
    assert_eq!(stats.total(|queue| queue.outstanding.into()), 0, "commands left over");
    assert_eq!(stats.total(|queue| queue.failed), 0, "commands failed");
    println!(
        "{operations} operations, {} commands, {} bytes: all right",
        stats.total(|queue| queue.completed),
        stats.total(|queue| queue.bytes)
    );
    Ok(device.close()?)
}

fn run(device: &Device, operations: u64, seed: u64) -> Result<(), ugds::Error> {
    let mut twins = Vec::new();
    for namespace in device.namespaces() {
        let bytes = namespace.len_bytes().min(NAMESPACE_BYTES) as usize;
        twins.push(Twin::new(device, namespace, bytes)?);
    }
    let mut random = Random::new(seed);
    for _ in 0..operations {
        let twin = random.below(twins.len() as u64) as usize;
        twins[twin].step(&mut random)?;
    }
    twins.iter_mut().try_for_each(Twin::compare)
}

/// As much of each namespace as is used.
const NAMESPACE_BYTES: u64 = 4 << 20;
