//! Stops a PCI device by VFIO in every way there is, while it has work, and proves each time that it comes back.
//!
//! Usage: `vfio-stop PCI-ADDRESS`

use nvme_proto::{Lba, Nsid};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use ugds::vfio::{Vfio, VfioOptions};
use ugds_hal::{Backend, Direction, Stop};
use ugds_mem::Io;
use ugds_queue::controller::{Controller, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: vfio-stop PCI-ADDRESS")?;
    let limit = Duration::from_secs(5);
    for how in [Stop::Disable(limit), Stop::FunctionReset, Stop::BusMasterOff(limit)] {
        stop_at_work(&address, how)?;
        println!("stopped, with proof: {how:?}");
    }
    Ok(())
}

fn stop_at_work(address: &str, how: Stop) -> Result<(), Box<dyn Error>> {
    let vfio = Arc::new(Vfio::open(address, VfioOptions::default())?);
    let mut controller = Controller::bring_up(Arc::clone(&vfio), Options::default())?;
    let namespace = controller.scan()?.namespaces.remove(0);
    let region = ugds_mem::host::allocate(3 << 20)?;
    let mapped = region.attach(controller.domain())?;
    let mut queue = controller.open_queue()?;
    for offset in (0..3u64 << 20).step_by(64 << 10) {
        let transfer = mapped.transfer(offset, 64 << 10, Direction::DeviceWrites)?;
        let read = Io::read(Nsid(namespace.nsid().0), namespace.format(), Lba(offset >> 12), transfer)?;
        let _ticket = queue.submit(&read, offset)?;
    }
    queue.ring();
    let proof = vfio.stop(how)?;
    let outstanding = queue.outstanding();
    let port = queue.abandon(&proof).map_err(|_| "the proof does not cover the queue")?;
    println!("{outstanding} commands were given up");
    vfio.close_port(port, None).map_err(|_| "the port was not closed")?;
    drop((mapped, region));
    // Its admin queue stopped, too; this proves it once more and frees it.
    controller.stop(vec![])?;
    drop(vfio);
    let vfio = Arc::new(Vfio::open(address, VfioOptions::default())?);
    Controller::bring_up(vfio, Options::default())?.shut_down(vec![])?;
    Ok(())
}
