//! The registers of the null device and its admin queue: enough for a driver to bring it up.
//!
//! UNSAFETY: plays the device, which reads commands and writes data and completions by address.

#![allow(unsafe_code)]

use super::device::{NullQueue, complete, submitted};
use nvme_proto::PageSize;
use nvme_proto::admin::Opcode;
use nvme_proto::register::{Cc, Property};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use ugds_hal::HalError;

/// The registers that are not the same for ever.
#[derive(Debug)]
pub(super) struct Registers {
    configuration: AtomicU32,
}

impl Default for Registers {
    /// Enabled from the start, for those who want a queue and no controller.
    fn default() -> Self {
        Self { configuration: AtomicU32::new(Cc::for_page(PageSize::MIN).with_en(true).into_bits()) }
    }
}

impl Registers {
    pub(super) fn read(&self, property: Property) -> Result<u64, HalError> {
        let configuration = self.configuration.load(Ordering::Relaxed);
        match property {
            Property::CAP => Ok(CAPABILITIES),
            Property::VS => Ok(0x0001_0400),
            Property::CC => Ok(configuration.into()),
            // Ready when enabled, and shut down when told so.
            Property::CSTS => Ok(u64::from(configuration & 1 | u32::from(configuration >> 14 & 3 != 0) << 3)),
            other => Err(HalError::Register { offset: other.offset(), reason: "the null device has none" }),
        }
    }

    pub(super) fn write(&self, property: Property, value: u64, admin: &NullQueue) {
        match property {
            Property::CC => self.configuration.store(value as u32, Ordering::Relaxed),
            Property::AQA => admin.reset((value as u16 & 0xfff) + 1),
            Property::ASQ => admin.0.submission.store(value, Ordering::Relaxed),
            Property::ACQ => admin.0.completion.store(value, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// Executes every admin command up to `tail`.
#[inline(never)]
pub(super) fn null_device_admin(queue: &NullQueue, tail: u16) {
    while let Some(command) = submitted(queue, tail) {
        // SAFETY: an entry of the submission ring has sixteen words.
        let word = |at: usize| unsafe { command.add(at).read_volatile() };
        let data = u64::from(word(6)) | u64::from(word(7)) << 32;
        let result = match Opcode(word(0) as u8) {
            // It is told when something happens; nothing does.
            Opcode::ASYNC_EVENT_REQUEST => continue,
            Opcode::IDENTIFY => {
                identify(data, word(10) & 0xff);
                0
            }
            // As many queues as were asked for.
            Opcode::SET_FEATURES => word(11),
            _ => 0,
        };
        complete(queue, word(0) >> 16, result);
    }
}

/// Writes an Identify structure, which is zero but for a few bytes.
fn identify(data: u64, structure: u32) {
    let bytes: &[(usize, u8)] = match structure {
        NAMESPACE => &[(2, 0x10), (10, 0x10), (130, 12)],
        CONTROLLER => &[(77, 5), (512, 0x66), (513, 0x44), (516, 1)],
        ACTIVE_NAMESPACES => &[(0, 1)],
        _ => &[],
    };
    for &(at, byte) in bytes {
        // SAFETY: the driver gives a buffer of 4096 bytes at its own address, zeroed, which both sides reach by
        // relaxed accesses.
        unsafe { (data as usize as *mut u8).add(at).write_volatile(byte) };
    }
}

/// 1024 entries, contiguous queues, ready within half a second, the NVM command set.
const CAPABILITIES: u64 = 1023 | 1 << 16 | 1 << 24 | 1 << 37;
const NAMESPACE: u32 = 0;
const CONTROLLER: u32 = 1;
const ACTIVE_NAMESPACES: u32 = 2;

/// Doorbells that were written since the program began.
pub(super) static DOORBELLS: AtomicU64 = AtomicU64::new(0);
