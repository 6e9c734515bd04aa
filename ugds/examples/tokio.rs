//! Many tasks read at once under tokio: one task looks when the device interrupts, the others await.
//!
//! `cargo run --release --example tokio -- 'emu:?size=64M'`, or with any other device that may be read.

use std::error::Error;
use std::time::Instant;
use tokio::io::unix::AsyncFd;
use ugds::{AsyncQueue, Completions, Device, Options, nvme::Lba};

const TASKS: u64 = 64;
const READS: u64 = 200;
const LEN: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "emu:?size=64M".into());
    let mut options = Options::default();
    options.completions = Completions::Interrupt;
    let device = Device::open_with(&uri, options)?;
    println!("{uri}: {}; {} interrupt", device.info().path, device.info().interrupts);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(read_all(device))
}

async fn read_all(device: Device) -> Result<(), Box<dyn Error>> {
    let queue = device.async_queue(TASKS as usize)?;
    let driver = tokio::spawn(drive(queue.clone()));
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (device, queue) = (device.clone(), queue.clone());
            tokio::spawn(async move {
                let (namespace, region) = (device.namespace()?, device.alloc(LEN)?);
                let per_read = LEN as u64 / u64::from(namespace.lba_bytes());
                let places = namespace.blocks() / per_read;
                for read in 0..READS {
                    let place = (task * READS + read) * 7919 % places.max(1);
                    queue.read(namespace, &region, 0..LEN, Lba(place * per_read)).await?;
                }
                Ok::<(), ugds::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let (count, took) = (TASKS * READS, start.elapsed());
    println!("{count} reads of {LEN} bytes by {TASKS} tasks in {took:.2?}");
    driver.abort();
    Ok(())
}

/// Wakes the futures. Without this task nobody would look when the device interrupts.
async fn drive(queue: AsyncQueue) -> std::io::Result<()> {
    // The safe way to register; what it is deprecated for, a descriptor that changes, a queue does not do.
    #[allow(deprecated)]
    let readable = AsyncFd::new(queue)?;
    loop {
        let mut ready = readable.readable().await?;
        if readable.get_ref().drive().is_err() {
            // The futures were told.
            return Ok(());
        }
        ready.clear_ready();
    }
}
