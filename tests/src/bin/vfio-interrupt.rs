//! Waits for commands by interrupts instead of looking, on a PCI device by VFIO, and says whether the rings lie on
//! huge pages.
//!
//! Usage: `vfio-interrupt PCI-ADDRESS`

use nvme_proto::Nsid;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ugds::vfio::{Vfio, VfioOptions};
use ugds_hal::{Backend, Completion};
use ugds_mem::Io;
use ugds_queue::controller::{Controller, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: vfio-interrupt PCI-ADDRESS")?;
    let free_before = free_huge_pages()?;
    let vfio = Arc::new(Vfio::open(&address, VfioOptions::default())?);
    let event = vfio.event(VECTOR)?;
    let mut controller = Controller::bring_up(Arc::clone(&vfio), Options::default())?;
    let mut queue = controller.open_queue_with(Completion::Interrupt(VECTOR))?;
    println!("huge pages: {}", if free_huge_pages()? < free_before { "yes" } else { "no" });
    event.clear()?;
    for round in 0..ROUNDS {
        let _ticket = queue.submit(&Io::flush(Nsid(1)), round)?;
        queue.ring();
        event.wait(Duration::from_secs(5))?.then_some(()).ok_or("no interrupt within 5 s")?;
        event.clear()?;
        // The completion was there before the interrupt was raised.
        let count = queue.reap(|done| assert_eq!(done.cookie, round))?;
        assert_eq!(count, 1, "one completion per interrupt");
    }
    let quiet = Instant::now();
    assert!(!event.wait(Duration::from_millis(200))?, "no interrupt without a completion");
    assert!(quiet.elapsed() >= Duration::from_millis(200));
    println!("interrupts: {ROUNDS}");
    Ok(controller.shut_down(vec![queue])?)
}

/// Huge pages that nobody uses, as the kernel counts them.
fn free_huge_pages() -> Result<u64, Box<dyn Error>> {
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    Ok(line.unwrap_or("0").trim().parse()?)
}

const ROUNDS: u64 = 8;
/// Not the admin queue's.
const VECTOR: u16 = 1;
