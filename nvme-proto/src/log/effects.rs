//! The commands supported and effects log, LID 05h.

use bitfield_struct::bitfield;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Commands supported and effects, 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Effects {
    /// ACS0 to ACS255: the admin commands, by opcode.
    pub admin: [U32; 256],
    /// IOCS0 to IOCS255: the I/O commands of the command set that was asked for, by opcode.
    pub io: [U32; 256],
    /// Reserved.
    pub reserved2048: [u8; 2048],
}

static_assertions::const_assert_eq!(size_of::<Effects>(), 4096);
static_assertions::const_assert_eq!(core::mem::offset_of!(Effects, io), 1024);

impl Effects {
    /// What an admin command does.
    #[must_use]
    pub const fn admin(&self, opcode: u8) -> CommandEffects {
        CommandEffects::from_bits(self.admin[opcode as usize].get())
    }

    /// What an I/O command does.
    #[must_use]
    pub const fn io(&self, opcode: u8) -> CommandEffects {
        CommandEffects::from_bits(self.io[opcode as usize].get())
    }
}

/// What a command does (figure "Commands Supported and Effects Data Structure").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CommandEffects {
    /// CSUPP: it is supported.
    pub csupp: bool,
    /// LBCC: it may change the contents of blocks.
    pub lbcc: bool,
    /// NCC: it may change the capabilities of a namespace.
    pub ncc: bool,
    /// NIC: it may change how many namespaces there are.
    pub nic: bool,
    /// CCC: it may change the capabilities of the controller.
    pub ccc: bool,
    #[bits(9)]
    __: u16,
    /// CSER: how it is to be kept apart from other commands while it runs, where that is relaxed.
    #[bits(2)]
    pub cser: u8,
    /// CSE: how it is to be kept apart: 0 not at all, 1 on its namespace, 2 on all namespaces.
    #[bits(3)]
    pub cse: u8,
    /// It takes a UUID index.
    pub uuid: bool,
    /// CSP: its scope, one bit for each kind.
    #[bits(12)]
    pub csp: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_by_the_figure() {
        let mut bytes = [0; 4096];
        bytes[0x80 * 4..][..4].copy_from_slice(&0x0002_0003_u32.to_le_bytes());
        bytes[1024 + 4..][..4].copy_from_slice(&0x0018_0001_u32.to_le_bytes());
        let log = Effects::read_from_bytes(&bytes).unwrap();
        let format = log.admin(0x80);
        assert_eq!((format.csupp(), format.lbcc(), format.ncc(), format.cse()), (true, true, false, 2));
        let write = log.io(1);
        assert_eq!((write.csupp(), write.uuid(), write.csp()), (true, true, 1));
        assert!(!log.io(0xff).csupp());
    }
}
