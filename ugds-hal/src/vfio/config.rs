//! Configuration space: class, memory decoding, bus mastering.

use super::device::{Region, VfioDevice};
use super::error::VfioError;
use std::io;
use std::os::unix::fs::FileExt;
use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;

/// The device's configuration space.
#[derive(Debug)]
pub(super) struct ConfigSpace {
    region: Region,
}

/// Whether the device may access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BusMaster {
    On,
    Off,
}

impl ConfigSpace {
    pub(super) fn of(device: &VfioDevice) -> Result<Self, VfioError> {
        Ok(Self { region: device.region(VFIO_PCI_CONFIG_REGION_INDEX)? })
    }

    /// The class code: base class, sub class, interface.
    pub(super) fn class(&self, device: &VfioDevice) -> Result<u32, VfioError> {
        Ok(self.read_u32(device, REVISION_AND_CLASS)? >> 8)
    }

    /// Lets the device answer to its addresses, and access memory or not. Returns what the device then says about
    /// the latter; a device that is gone says yes.
    pub(super) fn set_bus_master(&self, device: &VfioDevice, wanted: BusMaster) -> Result<bool, VfioError> {
        let before = self.read_u16(device, COMMAND)?;
        let command = match wanted {
            BusMaster::On => before | MEMORY | BUS_MASTER,
            BusMaster::Off => before & !BUS_MASTER,
        };
        device
            .file
            .write_all_at(&command.to_le_bytes(), self.region.offset + COMMAND)
            .map_err(|source| failed("a write of configuration space", source))?;
        Ok(self.read_u16(device, COMMAND)? & BUS_MASTER != 0)
    }

    /// Whether no transaction of the device is pending (PCI Express capability, Device Status). One without that
    /// capability can't say, and counts as not quiet.
    pub(super) fn is_quiet(&self, device: &VfioDevice) -> Result<bool, VfioError> {
        let Some(capability) = self.capability(device, PCI_EXPRESS)? else { return Ok(false) };
        let status = self.read_u16(device, capability + DEVICE_STATUS)?;
        Ok(status != u16::MAX && status & TRANSACTIONS_PENDING == 0)
    }

    /// Where the capability with this identifier is. The chain ends after as many steps as fit, whatever it says.
    fn capability(&self, device: &VfioDevice, id: u8) -> Result<Option<u64>, VfioError> {
        let mut at = u64::from(self.read_u16(device, CAPABILITIES)? as u8 & !3);
        for _ in 0..MAX_CAPABILITIES {
            if at == 0 {
                return Ok(None);
            }
            let [found, next] = self.read_u16(device, at)?.to_le_bytes();
            if found == id {
                return Ok(Some(at));
            }
            at = u64::from(next & !3);
        }
        Ok(None)
    }

    fn read_u16(&self, device: &VfioDevice, at: u64) -> Result<u16, VfioError> {
        let mut bytes = [0; 2];
        self.read(device, at, &mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }

    fn read_u32(&self, device: &VfioDevice, at: u64) -> Result<u32, VfioError> {
        let mut bytes = [0; 4];
        self.read(device, at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn read(&self, device: &VfioDevice, at: u64, to: &mut [u8]) -> Result<(), VfioError> {
        device
            .file
            .read_exact_at(to, self.region.offset + at)
            .map_err(|source| failed("a read of configuration space", source))
    }
}

fn failed(call: &'static str, source: io::Error) -> VfioError {
    VfioError::Call { call, source }
}

const COMMAND: u64 = 0x04;
const MEMORY: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;
const REVISION_AND_CLASS: u64 = 0x08;
const CAPABILITIES: u64 = 0x34;
const PCI_EXPRESS: u8 = 0x10;
const DEVICE_STATUS: u64 = 0x0a;
const TRANSACTIONS_PENDING: u16 = 1 << 5;
/// 256 bytes hold no more.
const MAX_CAPABILITIES: usize = 48;
