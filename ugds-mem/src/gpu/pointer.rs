//! What a driver says about an address.

use core::fmt;
use std::string::String;

/// What a driver says about an address, once.
///
/// It is a snapshot: memory that is freed, and given out again at the same address, has another
/// [`buffer_id`](Self::buffer_id).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pointer {
    /// The address that was asked about.
    pub address: u64,
    /// What memory it is.
    pub kind: Kind,
    /// Where its allocation begins; the address itself when the driver does not know.
    pub base: u64,
    /// The allocation's length in bytes, from `base` on; 0 when the driver does not know.
    pub len_bytes: u64,
    /// The GPU's number in this process.
    pub ordinal: i32,
    /// Where the GPU is.
    pub pci: Option<PciAddress>,
    /// The number of the allocation, which no later one has. 0 when the driver has none.
    pub buffer_id: u64,
    /// Whether a peer device may reach it, as the driver says; `None` when it does not say.
    pub rdma_capable: Option<bool>,
    /// How the allocation may be handed to others, as the driver's bits (`CUmemAllocationHandleType`).
    pub handle_types: u64,
    /// The context that it was allocated in, as a number; 0 for memory that belongs to none.
    pub context: usize,
}

impl Pointer {
    /// Nothing but an address, of no known memory.
    pub(crate) fn unknown(address: u64) -> Self {
        Self {
            address,
            kind: Kind::Unknown,
            base: address,
            len_bytes: 0,
            ordinal: -1,
            pci: None,
            buffer_id: 0,
            rdma_capable: None,
            handle_types: 0,
            context: 0,
        }
    }

    /// Whether `len_bytes` from the address on lie within the allocation.
    #[must_use]
    pub fn holds(&self, len_bytes: u64) -> bool {
        let lead = self.address.checked_sub(self.base);
        lead.and_then(|lead| lead.checked_add(len_bytes)).is_some_and(|end| end <= self.len_bytes)
    }
}

/// What kind of memory a driver knows at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// GPU memory of an ordinary allocation (`cuMemAlloc`, `hipMalloc`).
    Device,
    /// GPU memory from a pool (`cuMemAllocAsync`).
    Pool,
    /// GPU memory mapped by the virtual memory functions (`cuMemMap`).
    Virtual,
    /// Managed memory, which moves between host and GPU.
    Managed,
    /// Host memory that the driver allocated or pinned (`cuMemHostAlloc`, `cuMemHostRegister`).
    Host,
    /// Nothing that the driver knows: ordinary host memory, or none at all.
    Unknown,
    /// A kind that this crate does not know, by the driver's number.
    Other(u32),
}

impl Kind {
    /// Whether it is memory of a GPU, which copies and registrations take.
    #[must_use]
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::Device | Self::Pool | Self::Virtual | Self::Managed)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => f.write_str("GPU memory"),
            Self::Pool => f.write_str("GPU memory of a pool"),
            Self::Virtual => f.write_str("GPU memory of a virtual mapping"),
            Self::Managed => f.write_str("managed memory"),
            Self::Host => f.write_str("pinned host memory"),
            Self::Unknown => f.write_str("nothing that the driver knows"),
            Self::Other(number) => write!(f, "memory of the unknown type {number}"),
        }
    }
}

/// Where a device is on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PciAddress {
    /// The domain.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device, below 32.
    pub device: u8,
    /// The function, below 8.
    pub function: u8,
}

impl PciAddress {
    /// Reads `DOMAIN:BUS:DEVICE.FUNCTION`, hexadecimal, as drivers write it. `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (place, function) = text.split_once('.')?;
        let mut parts = place.split(':').map(|part| hex(part, 8));
        let (domain, bus, device) = (parts.next()??, parts.next()??, parts.next()??);
        let function = hex(function, 1)?;
        if parts.next().is_some() || device > 31 || function > 7 {
            return None;
        }
        let [bus, device, function] = [bus, device, function].map(u8::try_from);
        Some(Self { domain, bus: bus.ok()?, device: device.ok()?, function: function.ok()? })
    }
}

/// Up to `most` hexadecimal digits, and nothing else; `from_str_radix` would take a sign.
fn hex(text: &str, most: usize) -> Option<u32> {
    let fits = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

/// Text that a library wrote into `bytes`: up to the first zero, whatever it is.
pub(crate) fn text(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn pci_addresses_are_read_as_drivers_write_them() {
        let address = PciAddress { domain: 0, bus: 0x3b, device: 0x1f, function: 7 };
        assert_eq!(PciAddress::parse("0000:3B:1F.7"), Some(address));
        assert_eq!(PciAddress::parse("00000000:3b:1f.7"), Some(address));
        assert_eq!(address.to_string(), "0000:3b:1f.7");
        for wrong in [
            "",
            "3b:1f.7",
            "0:3b:20.7",
            "0:3b:1f.8",
            "0:100:1f.7",
            "0:3b:1f",
            "0:+b:1f.7",
            "1:0:3b:1f.7",
            "::.",
        ] {
            assert_eq!(PciAddress::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_range_lies_within_its_allocation_or_not() {
        let pointer = Pointer { base: 100, len_bytes: 50, ..Pointer::unknown(120) };
        assert!(pointer.holds(30));
        assert!(!pointer.holds(31));
        assert!(!pointer.holds(u64::MAX));
        assert!(!Pointer { base: 130, ..pointer }.holds(1));
    }

    #[test]
    fn text_ends_at_the_first_zero_or_at_the_end() {
        assert_eq!(text(b"ab\0c"), "ab");
        assert_eq!(text(b"abc"), "abc");
    }
}
