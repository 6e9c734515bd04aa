//! The controller's registers in BAR 0, and its doorbells (Base specification, "Controller Properties").
//!
//! [`Property`] names a register by offset and width; the types beside it are what the registers hold.

mod capability;
mod control;
mod doorbell;
mod memory;

pub use capability::{Cap, CommandSets, Crto, Vs};
pub use control::{Aqa, Cc, CommandSetSelect, Csts, NSSR_RESET, ShutdownNotification, ShutdownStatus};
pub use doorbell::{
    DOORBELLS, DoorbellKind, decode_doorbell, doorbell_offset, doorbell_space_bytes, doorbell_stride, max_qid,
};
pub use memory::{Cmbloc, Cmbmsc, Cmbsts, Cmbsz, Pmrcap, Pmrsts};

use core::fmt;

/// A register: where it stands in BAR 0 and how wide it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Property {
    offset: u32,
    width: Width,
}

/// The width of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 32 bits.
    Bits32,
    /// 64 bits, which may also be accessed as two halves, the low one first.
    Bits64,
}

impl Width {
    /// The width in bytes: 4 or 8.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}

impl Property {
    /// The offset in BAR 0, in bytes.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.offset
    }

    /// The width.
    #[inline]
    #[must_use]
    pub const fn width(self) -> Width {
        self.width
    }

    /// The register that `offset` lies in, at its start or (a half of a 64-bit one) in its middle. `None` for
    /// doorbells and reserved space.
    #[must_use]
    pub fn at(offset: u32) -> Option<Self> {
        Self::NAMED.iter().map(|(property, _)| *property).find(|property| {
            offset.checked_sub(property.offset).is_some_and(|distance| distance < property.width.bytes())
        })
    }

    /// The specification's name, in capitals. `None` for a register that this crate does not know.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(property, _)| *property == self).map(|(_, name)| *name)
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "register {:#x}", self.offset),
        }
    }
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({:#x}, {:?})", self.offset, self.width)
    }
}

macro_rules! properties {
    ($($name:ident = $offset:literal, $width:ident, $text:literal;)*) => {
        impl Property {
            $(
                #[doc = concat!("Stands at `", stringify!($offset), "`: ", $text, ".")]
                pub const $name: Self = Self { offset: $offset, width: Width::$width };
            )*

            /// Every register that has a name here, by offset.
            pub const NAMED: &'static [(Self, &'static str)] = &[$((Self::$name, stringify!($name))),*];
        }
    };
}

properties! {
    CAP = 0x00, Bits64, "controller capabilities";
    VS = 0x08, Bits32, "version";
    INTMS = 0x0c, Bits32, "interrupt mask set";
    INTMC = 0x10, Bits32, "interrupt mask clear";
    CC = 0x14, Bits32, "controller configuration";
    CSTS = 0x1c, Bits32, "controller status";
    NSSR = 0x20, Bits32, "NVM subsystem reset";
    AQA = 0x24, Bits32, "admin queue attributes";
    ASQ = 0x28, Bits64, "admin submission queue base address";
    ACQ = 0x30, Bits64, "admin completion queue base address";
    CMBLOC = 0x38, Bits32, "controller memory buffer location";
    CMBSZ = 0x3c, Bits32, "controller memory buffer size";
    BPINFO = 0x40, Bits32, "boot partition information";
    BPRSEL = 0x44, Bits32, "boot partition read select";
    BPMBL = 0x48, Bits64, "boot partition memory buffer location";
    CMBMSC = 0x50, Bits64, "controller memory buffer memory space control";
    CMBSTS = 0x58, Bits32, "controller memory buffer status";
    CMBEBS = 0x5c, Bits32, "controller memory buffer elasticity buffer size";
    CMBSWTP = 0x60, Bits32, "controller memory buffer sustained write throughput";
    NSSD = 0x64, Bits32, "NVM subsystem shutdown";
    CRTO = 0x68, Bits32, "controller ready timeouts";
    PMRCAP = 0xe00, Bits32, "persistent memory region capabilities";
    PMRCTL = 0xe04, Bits32, "persistent memory region control";
    PMRSTS = 0xe08, Bits32, "persistent memory region status";
    PMREBS = 0xe0c, Bits32, "persistent memory region elasticity buffer size";
    PMRSWTP = 0xe10, Bits32, "persistent memory region sustained write throughput";
    PMRMSCL = 0xe14, Bits32, "persistent memory region memory space control, lower half";
    PMRMSCU = 0xe18, Bits32, "persistent memory region memory space control, upper half";
}

/// What a 32-bit register reads as once the device is gone.
pub const GONE_32: u32 = u32::MAX;

/// What a 64-bit register reads as once the device is gone.
pub const GONE_64: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn registers_stand_apart_in_ascending_order() {
        for pair in Property::NAMED.windows(2) {
            let [(before, _), (after, _)] = pair else { unreachable!() };
            assert!(before.offset() + before.width().bytes() <= after.offset(), "{before} {after}");
        }
    }

    #[test]
    fn an_offset_finds_its_register() {
        let cases = [
            (0x00, Some(Property::CAP)),
            (0x04, Some(Property::CAP)),
            (0x08, Some(Property::VS)),
            (0x18, None),
            (0x2c, Some(Property::ASQ)),
            (0x68, Some(Property::CRTO)),
            (0x6c, None),
            (0xe18, Some(Property::PMRMSCU)),
            (0x1000, None),
            (u32::MAX, None),
        ];
        for (offset, property) in cases {
            assert_eq!(Property::at(offset), property, "{offset:#x}");
        }
        assert_eq!(Property::CSTS.to_string(), "CSTS");
    }
}
