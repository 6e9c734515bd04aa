//! Has a device read and write memory that is not mapped for it, to prove that the kernel's log tells: a device may
//! answer such a command with success.
//!
//! Usage: `vfio-stray PCI-ADDRESS`
//!
//! UNSAFETY: builds the wrong command. The IOMMU keeps it from doing harm.

#![allow(unsafe_code)]

use nvme_proto::nvm::ReadWrite;
use nvme_proto::{BusAddr, Count16, DataPointer, Lba, Nsid};
use std::error::Error;
use std::sync::Arc;
use ugds::vfio::{Vfio, VfioOptions};
use ugds_hal::{Backend, Clock};
use ugds_mem::Io;
use ugds_queue::controller::{Controller, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: vfio-stray PCI-ADDRESS")?;
    let vfio = Arc::new(Vfio::open(&address, VfioOptions::default())?);
    let mut controller = Controller::bring_up(Arc::clone(&vfio), Options::default())?;
    let mut queue = controller.open_queue()?;
    let stray = DataPointer::prp(BusAddr(STRAY), BusAddr(0));
    let read = ReadWrite::read(Nsid(1), Lba(0), Count16::ONE).to_sqe().with_data_pointer(stray);
    // SAFETY: not kept, on purpose: no memory is mapped at that address, so the IOMMU refuses the access.
    let _ticket = queue.submit(&unsafe { Io::raw(&read, None) }, 0)?;
    queue.ring();
    let deadline = vfio.clock().now().after(std::time::Duration::from_secs(10));
    while vfio.clock().now() < deadline {
        if queue.reap(|done| println!("the device answered: {}", done.status()))? != 0 {
            controller.shut_down(vec![queue])?;
            return Ok(());
        }
        vfio.clock().relax(0);
    }
    Err("no answer within 10 s".into())
}

/// Far from anything that was mapped.
const STRAY: u64 = 0x50_0000_0000;
