//! The first program: over the bus and back.

use ugds::Device;
use ugds::nvme::Lba;

fn main() -> Result<(), ugds::Error> {
    // A complete NVMe controller in software, over memory: no hardware, no root.
    let device = Device::open("emu:?size=64M")?;
    let namespace = device.namespace()?;

    // Memory that the device reaches by itself. It is never borrowed: bytes are copied in and out.
    let region = device.alloc(8192)?;
    region.copy_in(0, b"hello, namespace")?;
    namespace.write(&region, 0..4096, Lba(7))?;
    namespace.flush()?;

    namespace.read(&region, 4096..8192, Lba(7))?;
    let mut back = [0; 16];
    region.copy_out(4096, &mut back)?;
    assert_eq!(&back, b"hello, namespace");
    println!("data took this way: {}, {}", device.info().path, region.path());
    Ok(())
}
