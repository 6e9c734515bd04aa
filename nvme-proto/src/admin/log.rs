//! Get Log Page: asking for one of the structures in [`log`](crate::log).

use super::Opcode;
use crate::sqe::Sqe;
use crate::types::{Csi, Nsid};

open_enum! {
    /// LID, the log page identifier (figure "Get Log Page – Log Page Identifiers").
    LogId(u8) {
        SUPPORTED = 0x00, "supported log pages";
        ERROR = 0x01, "error information";
        SMART = 0x02, "SMART / health information";
        FIRMWARE_SLOTS = 0x03, "firmware slot information";
        CHANGED_NAMESPACES = 0x04, "changed attached namespace list";
        EFFECTS = 0x05, "commands supported and effects";
        SELF_TEST = 0x06, "device self-test";
        TELEMETRY_HOST = 0x07, "telemetry host-initiated";
        TELEMETRY_CONTROLLER = 0x08, "telemetry controller-initiated";
        ENDURANCE_GROUP = 0x09, "endurance group information";
        ANA = 0x0c, "asymmetric namespace access";
        PERSISTENT_EVENT = 0x0d, "persistent event log";
        LBA_STATUS = 0x0e, "LBA status information";
        RESERVATION = 0x80, "reservation notification";
        SANITIZE = 0x81, "sanitize status";
        CHANGED_ZONES = 0xbf, "changed zone list";
    }
}

/// Get Log Page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLogPage {
    /// NSID: [`Nsid::ALL`] for the whole controller.
    pub nsid: Nsid,
    /// LID: the log wanted.
    pub lid: LogId,
    /// NUMD: the length in dwords, 0's based. [`new`](Self::new) and [`len_bytes`](Self::len_bytes) convert it.
    pub numd_z: u32,
    /// LPO: the offset in the log, in bytes (in entries when `offset_is_index`). Needs LPA bit 2 unless 0.
    pub offset: u64,
    /// OT: the offset counts entries.
    pub offset_is_index: bool,
    /// RAE: the event that the log belongs to stays masked. Clear reads the log and lets the next event come.
    pub retain_event: bool,
    /// LSP: what the log page makes of it (bits 6:0).
    pub lsp: u8,
    /// LSI: what the log page makes of it.
    pub lsi: u16,
    /// CSI: the command set, for logs that depend on one.
    pub csi: Csi,
    /// The UUID index, 0 for none (bits 6:0).
    pub uuid_index: u8,
}

/// A length that Get Log Page cannot ask for: 0, no multiple of 4 bytes, or above 16 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len_bytes} bytes are not 1 to 2^32 whole dwords")]
pub struct LengthError {
    /// The length in bytes.
    pub len_bytes: u64,
}

impl GetLogPage {
    /// Asks for the first `len_bytes` of the controller's log `lid`, which clears its event.
    ///
    /// # Errors
    ///
    /// [`LengthError`] unless the length is a number of dwords.
    pub const fn new(lid: LogId, len_bytes: u64) -> Result<Self, LengthError> {
        let dwords = len_bytes / 4;
        if len_bytes == 0 || !len_bytes.is_multiple_of(4) || dwords > 1 << 32 {
            return Err(LengthError { len_bytes });
        }
        Ok(Self {
            nsid: Nsid::ALL,
            lid,
            numd_z: (dwords - 1) as u32,
            offset: 0,
            offset_is_index: false,
            retain_event: false,
            lsp: 0,
            lsi: 0,
            csi: Csi::NVM,
            uuid_index: 0,
        })
    }

    /// The length in bytes: 4 up to 16 GiB.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        (self.numd_z as u64 + 1) * 4
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let retain = u32::from(self.retain_event) << 15;
        let selector = u32::from(self.lsp & 0x7f) << 8 | u32::from(self.lid.0);
        let offset_type = u32::from(self.offset_is_index) << 23;
        Sqe::new(Opcode::GET_LOG_PAGE.0, self.nsid)
            .with_cdw10(self.numd_z << 16 | retain | selector)
            .with_cdw11(u32::from(self.lsi) << 16 | self.numd_z >> 16)
            .with_cdw12(self.offset as u32)
            .with_cdw13((self.offset >> 32) as u32)
            .with_cdw14(u32::from(self.csi.0) << 24 | offset_type | u32::from(self.uuid_index & 0x7f))
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let (cdw10, cdw11, cdw14) = (sqe.cdw10.get(), sqe.cdw11.get(), sqe.cdw14.get());
        Self {
            nsid: sqe.nsid(),
            lid: LogId(cdw10 as u8),
            numd_z: cdw11 << 16 | cdw10 >> 16,
            offset: u64::from(sqe.cdw13.get()) << 32 | u64::from(sqe.cdw12.get()),
            offset_is_index: cdw14 & 1 << 23 != 0,
            retain_event: cdw10 & 1 << 15 != 0,
            lsp: (cdw10 >> 8) as u8 & 0x7f,
            lsi: (cdw11 >> 16) as u16,
            csi: Csi((cdw14 >> 24) as u8),
            uuid_index: cdw14 as u8 & 0x7f,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The uGDS C++ code sent `1024 << 16` for a 4-KiB page: 1025 dwords, 4 bytes past its buffer.
    #[test]
    fn a_page_of_4096_bytes_is_numd_1023() {
        let sqe = GetLogPage::new(LogId::ERROR, 4096).unwrap().to_sqe();
        assert_eq!(sqe.cdw10.get(), 1023 << 16 | 0x01);
        assert_eq!((sqe.opcode, sqe.nsid(), sqe.cdw11.get()), (2, Nsid::ALL, 0));
    }

    #[test]
    fn long_logs_use_both_halves() {
        let log = GetLogPage::new(LogId::TELEMETRY_HOST, 1 << 20).unwrap();
        let log = GetLogPage { lsp: 1, retain_event: true, offset: 0x1_0000_0200, lsi: 9, ..log };
        let sqe = log.to_sqe();
        assert_eq!(sqe.cdw10.get(), 0xffff_8107);
        assert_eq!((sqe.cdw11.get(), sqe.cdw12.get(), sqe.cdw13.get()), (0x0009_0003, 0x200, 1));
        assert_eq!(GetLogPage::from_sqe(&sqe).len_bytes(), 1 << 20);
    }

    #[test]
    fn lengths_are_checked() {
        for len_bytes in [0, 1, 511, (16 << 30) + 4] {
            assert_eq!(GetLogPage::new(LogId::SMART, len_bytes), Err(LengthError { len_bytes }));
        }
        assert_eq!(GetLogPage::new(LogId::SMART, 16 << 30).unwrap().numd_z, u32::MAX);
    }
}
