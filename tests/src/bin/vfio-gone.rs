//! Opens a PCI device by VFIO and takes its registers away while they are mapped: what a surprise removal looks like
//! to the process. It succeeds when every access then ends in an error that says so, and no signal ends the process.
//!
//! Usage: `vfio-gone PCI-ADDRESS`
//!
//! UNSAFETY: borrows, by its number, the descriptor that VFIO gave this process.

#![allow(unsafe_code)]

use std::error::Error;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use ugds::vfio::{Vfio, VfioOptions};
use ugds::{Device, Options, nvme::Lba};
use ugds_hal::Backend;

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: vfio-gone PCI-ADDRESS")?;
    registers_read_as_ones(&address)?;
    a_device_in_use_fails_with_the_reason(&address)?;
    println!("gone is told, and nothing crashed");
    Ok(())
}

fn registers_read_as_ones(address: &str) -> Result<(), Box<dyn Error>> {
    let vfio = Vfio::open(address, VfioOptions::default())?;
    let version = ugds::nvme::register::Property::VS;
    assert_ne!(vfio.property_read(version)?, u64::from(u32::MAX), "the device answers at first");
    stop_decoding()?;
    assert_eq!(vfio.property_read(version)?, u64::from(u32::MAX), "and reads as ones afterwards");
    Ok(())
}

fn a_device_in_use_fails_with_the_reason(address: &str) -> Result<(), Box<dyn Error>> {
    let vfio = Vfio::open(address, VfioOptions::default())?;
    let device = Device::with_vfio(vfio, Options::default(), None)?;
    let namespace = device.namespace()?.clone();
    let region = device.alloc(4096)?;
    namespace.read(&region, 0..4096, Lba(0))?;
    stop_decoding()?;
    drop(region);
    drop(namespace);
    let error = device.close().expect_err("a device that is gone can't be shut down");
    assert!(error.to_string().contains("gone"), "{error}");
    Ok(())
}

/// Clears the memory enable bit in configuration space, through the descriptor that VFIO gave this process.
fn stop_decoding() -> Result<(), Box<dyn Error>> {
    const CONFIG: u64 = 7 << 40;
    const COMMAND: u64 = CONFIG + 4;
    device_descriptor()?.write_all_at(&[0, 0], COMMAND)?;
    Ok(())
}

fn device_descriptor() -> Result<File, Box<dyn Error>> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let is_device =
            std::fs::read_link(&path).is_ok_and(|link| link.to_string_lossy().contains("vfio-device"));
        let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        if let (true, Some(number)) = (is_device, number) {
            // SAFETY: the descriptor is open: it was just listed, and the device that owns it is alive in the caller.
            let device = unsafe { BorrowedFd::borrow_raw(number) };
            return Ok(device.try_clone_to_owned()?.into());
        }
    }
    Err("no descriptor of a VFIO device is open".into())
}
