//! MSI-X vectors as event descriptors.
//!
//! UNSAFETY: passes VFIO a structure that is followed by descriptor numbers.

#![allow(unsafe_code)]

use super::device::VfioDevice;
use super::error::VfioError;
use super::ioctl;
use crate::Event;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_MSIX_IRQ_INDEX, vfio_irq_set,
};

/// The device's interrupt vectors. They are set up together, the first time that one is asked for: not every kernel
/// can add one later.
#[derive(Debug)]
pub(super) struct Interrupts {
    count: u16,
    events: Mutex<Vec<Event>>,
}

impl Interrupts {
    pub(super) fn new(count: u16) -> Self {
        Self { count: count.min(MOST), events: Mutex::default() }
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// The event of `vector`. `None` when there is no such vector.
    pub(super) fn event(&self, device: &VfioDevice, vector: u16) -> Result<Option<Event>, VfioError> {
        if vector >= self.count {
            return Ok(None);
        }
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.is_empty() {
            *events = enable(device, self.count)?;
        }
        Ok(events.get(usize::from(vector)).cloned())
    }
}

fn enable(device: &VfioDevice, count: u16) -> Result<Vec<Event>, VfioError> {
    let made: Result<Vec<Event>, _> = (0..count).map(|_| Event::new()).collect();
    let events = made.map_err(|source| VfioError::Call { call: "eventfd", source })?;
    // The structure's five words, then the descriptors.
    let mut request = vec![
        0,
        VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
        VFIO_PCI_MSIX_IRQ_INDEX,
        0,
        u32::from(count),
    ];
    request.extend(events.iter().map(|event| event.as_fd().as_raw_fd() as u32));
    request[0] = (request.len() * size_of::<u32>()) as u32;
    // SAFETY: the buffer is aligned for the structure, and as long as its first word says.
    unsafe { ioctl::device_set_irqs(device.file.as_raw_fd(), request.as_ptr().cast::<vfio_irq_set>()) }
        .map_err(VfioError::call("VFIO_DEVICE_SET_IRQS"))?;
    Ok(events)
}

/// More vectors than queues that a host has processors for.
const MOST: u16 = 256;
