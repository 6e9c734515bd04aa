//! The NVM command set (NVM Command Set specification, "I/O Commands").
//!
//! As in [`admin`](crate::admin), each command has a structure with `to_sqe` and `from_sqe`.

mod copy;
mod dsm;
mod io;

pub use copy::{Copy, CopyRange, CopyRangeExtended};
pub use dsm::{DatasetManagement, DsmAttributes, DsmRange};
pub use io::{Flush, IoFlags, ReadWrite};

open_enum! {
    /// The opcode of an I/O command (figure "Opcodes for NVM Commands", with those of the zoned command set).
    Opcode(u8) {
        FLUSH = 0x00, "Flush";
        WRITE = 0x01, "Write";
        READ = 0x02, "Read";
        WRITE_UNCORRECTABLE = 0x04, "Write Uncorrectable";
        COMPARE = 0x05, "Compare";
        WRITE_ZEROES = 0x08, "Write Zeroes";
        DATASET_MANAGEMENT = 0x09, "Dataset Management";
        VERIFY = 0x0c, "Verify";
        RESERVATION_REGISTER = 0x0d, "Reservation Register";
        RESERVATION_REPORT = 0x0e, "Reservation Report";
        RESERVATION_ACQUIRE = 0x11, "Reservation Acquire";
        RESERVATION_RELEASE = 0x15, "Reservation Release";
        COPY = 0x19, "Copy";
        ZONE_MANAGEMENT_SEND = 0x79, "Zone Management Send";
        ZONE_MANAGEMENT_RECEIVE = 0x7a, "Zone Management Receive";
        ZONE_APPEND = 0x7d, "Zone Append";
    }
}

impl Opcode {
    /// Whether data goes from the host to the controller (bits 1:0 of the opcode are 01).
    #[inline]
    #[must_use]
    pub const fn is_from_host(self) -> bool {
        self.0 & 0b11 == 0b01
    }

    /// Whether data goes from the controller to the host (bits 1:0 of the opcode are 10).
    #[inline]
    #[must_use]
    pub const fn is_to_host(self) -> bool {
        self.0 & 0b11 == 0b10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opcode_tells_the_direction() {
        let directions = |opcode: Opcode| (opcode.is_from_host(), opcode.is_to_host());
        for opcode in [Opcode::WRITE, Opcode::COMPARE, Opcode::DATASET_MANAGEMENT, Opcode::COPY] {
            assert_eq!(directions(opcode), (true, false), "{opcode}");
        }
        assert_eq!(directions(Opcode::READ), (false, true));
        for opcode in [Opcode::FLUSH, Opcode::WRITE_ZEROES, Opcode::VERIFY, Opcode::WRITE_UNCORRECTABLE] {
            assert_eq!(directions(opcode), (false, false), "{opcode}");
        }
    }
}
