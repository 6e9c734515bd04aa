//! The commands that destroy: Format NVM and Sanitize.

use super::Opcode;
use crate::sqe::Sqe;
use crate::types::Nsid;

/// Format NVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatNvm {
    /// NSID; [`Nsid::ALL`] for every namespace.
    pub nsid: Nsid,
    /// LBAF: the index of the new format, 0 to 63, in bits 3:0 and 13:12.
    pub lba_format: u8,
    /// MSET: metadata travels in one block with the data (extended LBA), not in a buffer of its own.
    pub extended_lba: bool,
    /// PI: the type of the end-to-end protection, 0 for none, 1 to 3.
    pub protection_type: u8,
    /// PIL: where protection information lies in the metadata.
    pub protection_location: ProtectionLocation,
    /// SES: what becomes of the data that was there.
    pub secure_erase: SecureErase,
}

open_enum! {
    /// PIL, where protection information lies in the metadata.
    ProtectionLocation(u8) {
        LAST = 0, "last bytes of the metadata";
        FIRST = 1, "first bytes of the metadata";
    }
}

open_enum! {
    /// SES, what Format NVM does with the data that was there.
    SecureErase(u8) {
        NONE = 0, "no secure erase";
        USER_DATA = 1, "user data erase";
        CRYPTOGRAPHIC = 2, "cryptographic erase";
    }
}

impl FormatNvm {
    /// Formats `nsid` to the format at index `lba_format`, without metadata options or secure erase.
    #[must_use]
    pub const fn new(nsid: Nsid, lba_format: u8) -> Self {
        Self {
            nsid,
            lba_format,
            extended_lba: false,
            protection_type: 0,
            protection_location: ProtectionLocation::LAST,
            secure_erase: SecureErase::NONE,
        }
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let index = u32::from(self.lba_format & 0x3f);
        let protection =
            u32::from(self.protection_type & 7) << 5 | u32::from(self.protection_location.0 & 1) << 8;
        Sqe::new(Opcode::FORMAT_NVM.0, self.nsid).with_cdw10(
            index & 0xf
                | (index >> 4) << 12
                | u32::from(self.extended_lba) << 4
                | protection
                | u32::from(self.secure_erase.0 & 7) << 9,
        )
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let cdw10 = sqe.cdw10.get();
        Self {
            nsid: sqe.nsid(),
            lba_format: (cdw10 & 0xf | (cdw10 >> 12 & 0b11) << 4) as u8,
            extended_lba: cdw10 & 1 << 4 != 0,
            protection_type: (cdw10 >> 5) as u8 & 7,
            protection_location: ProtectionLocation((cdw10 >> 8) as u8 & 1),
            secure_erase: SecureErase((cdw10 >> 9) as u8 & 7),
        }
    }
}

/// Sanitize, which acts on the whole NVM subsystem and goes on after its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sanitize {
    /// SANACT: what to do.
    pub action: SanitizeAction,
    /// AUSE: a failed sanitize may be left without a successful one.
    pub allow_unrestricted_exit: bool,
    /// OWPASS: the number of overwrite passes, 1 to 15, or 0 for 16.
    pub overwrite_passes: u8,
    /// OIPBP: the pattern is inverted between passes.
    pub invert_between_passes: bool,
    /// NDAS: blocks are not deallocated afterwards.
    pub no_deallocate: bool,
    /// OVRPAT: the overwrite pattern.
    pub overwrite_pattern: u32,
}

open_enum! {
    /// SANACT, what Sanitize does.
    SanitizeAction(u8) {
        EXIT_FAILURE_MODE = 1, "exit failure mode";
        BLOCK_ERASE = 2, "block erase";
        OVERWRITE = 3, "overwrite";
        CRYPTO_ERASE = 4, "crypto erase";
        EXIT_MEDIA_VERIFICATION = 5, "exit media verification state";
    }
}

impl Sanitize {
    /// The plain `action`, with all options off.
    #[must_use]
    pub const fn new(action: SanitizeAction) -> Self {
        Self {
            action,
            allow_unrestricted_exit: false,
            overwrite_passes: 0,
            invert_between_passes: false,
            no_deallocate: false,
            overwrite_pattern: 0,
        }
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::SANITIZE.0, Nsid::NONE)
            .with_cdw10(
                u32::from(self.action.0 & 7)
                    | u32::from(self.allow_unrestricted_exit) << 3
                    | u32::from(self.overwrite_passes & 0xf) << 4
                    | u32::from(self.invert_between_passes) << 8
                    | u32::from(self.no_deallocate) << 9,
            )
            .with_cdw11(self.overwrite_pattern)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let cdw10 = sqe.cdw10.get();
        Self {
            action: SanitizeAction(cdw10 as u8 & 7),
            allow_unrestricted_exit: cdw10 & 1 << 3 != 0,
            overwrite_passes: (cdw10 >> 4) as u8 & 0xf,
            invert_between_passes: cdw10 & 1 << 8 != 0,
            no_deallocate: cdw10 & 1 << 9 != 0,
            overwrite_pattern: sqe.cdw11.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_by_the_figure() {
        let plain = FormatNvm::new(Nsid(1), 0x2d).to_sqe();
        assert_eq!((plain.opcode, plain.cdw10.get()), (0x80, 0x200d));
        let all = FormatNvm {
            extended_lba: true,
            protection_type: 3,
            protection_location: ProtectionLocation::FIRST,
            secure_erase: SecureErase::CRYPTOGRAPHIC,
            ..FormatNvm::new(Nsid::ALL, 1)
        };
        assert_eq!(all.to_sqe().cdw10.get(), 1 | 1 << 4 | 3 << 5 | 1 << 8 | 2 << 9);
    }

    #[test]
    fn sanitize_by_the_figure() {
        let overwrite = Sanitize {
            allow_unrestricted_exit: true,
            overwrite_passes: 5,
            invert_between_passes: true,
            no_deallocate: true,
            overwrite_pattern: 0xdead_beef,
            ..Sanitize::new(SanitizeAction::OVERWRITE)
        };
        let sqe = overwrite.to_sqe();
        assert_eq!((sqe.opcode, sqe.cdw10.get(), sqe.cdw11.get()), (0x84, 0x35b, 0xdead_beef));
    }
}
