//! Has a child drop a PCI device that its parent drives by VFIO, and shows that the parent's I/O goes on: the kernel's
//! descriptors, and so the mappings of the IOMMU, are shared by both.
//!
//! Usage: `vfio-fork PCI-ADDRESS`. It overwrites the first blocks of the first namespace.
//!
//! UNSAFETY: forks.

#![allow(unsafe_code)]

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use std::error::Error;
use ugds::nvme::Lba;
use ugds::vfio::{Vfio, VfioOptions};
use ugds::{Device, Namespace, Options, Region};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: vfio-fork PCI-ADDRESS")?;
    let vfio = Vfio::open(&address, VfioOptions::default())?;
    let device = Device::with_vfio(vfio, Options::default(), None)?;
    let (namespace, region) = (device.namespace()?.clone(), device.alloc(LEN)?);
    compare(&namespace, &region, 1)?;
    let mut held = Some((device, namespace, region));
    fork_and_drop(&mut held)?;
    let (device, namespace, region) = held.ok_or("the parent has lost its own")?;
    compare(&namespace, &region, 2)?;
    drop((namespace, region));
    device.close()?;
    println!("the parent's device is unmoved");
    Ok(())
}

/// Writes a pattern and reads it back, through every queue.
fn compare(namespace: &Namespace, region: &Region, seed: u8) -> Result<(), Box<dyn Error>> {
    for round in 0..32u8 {
        let expected: Vec<u8> = (0..LEN).map(|at| (at / 7) as u8 ^ seed ^ round).collect();
        region.copy_in(0, &expected)?;
        namespace.write(region, 0..LEN, Lba(0))?;
        region.copy_in(0, &vec![0; LEN])?;
        namespace.read(region, 0..LEN, Lba(0))?;
        let mut found = vec![0; LEN];
        region.copy_out(0, &mut found)?;
        if found != expected {
            return Err("other data came back than were written".into());
        }
    }
    Ok(())
}

type Held = (Device, Namespace, Region);

/// Forks a child that drops all handles that there are.
fn fork_and_drop(held: &mut Option<Held>) -> Result<(), Box<dyn Error>> {
    // SAFETY: the process has one thread.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            other => Err(format!("the child ended with {other:?}").into()),
        },
        ForkResult::Child => {
            alarm::set(10);
            drop(held.take());
            std::process::exit(0);
        }
    }
}

const LEN: usize = 256 << 10;
