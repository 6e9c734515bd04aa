//! The capability fields of Identify Controller.

use bitfield_struct::bitfield;

bitflags::bitflags! {
    /// CMIC: how the NVM subsystem is shared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Cmic: u8 {
        /// The subsystem may have more than one port.
        const MULTI_PORT = 1 << 0;
        /// The subsystem may have more than one controller.
        const MULTI_CONTROLLER = 1 << 1;
        /// The controller belongs to a virtual function.
        const VIRTUAL_FUNCTION = 1 << 2;
        /// Asymmetric namespace access is reported.
        const ANA = 1 << 3;
    }
}

bitflags::bitflags! {
    /// OAES: the optional asynchronous events, bits as in feature 0Bh.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Oaes: u32 {
        /// Changed namespaces.
        const NAMESPACE_CHANGED = 1 << 8;
        /// Firmware activation.
        const FIRMWARE_ACTIVATION = 1 << 9;
        /// Asymmetric namespace access changes.
        const ANA_CHANGE = 1 << 11;
        /// Predictable latency event aggregate log changes.
        const PREDICTABLE_LATENCY = 1 << 12;
        /// LBA status information alerts.
        const LBA_STATUS = 1 << 13;
        /// Endurance group event aggregate log changes.
        const ENDURANCE_GROUP = 1 << 14;
        /// Normal NVM subsystem shutdown.
        const SUBSYSTEM_SHUTDOWN = 1 << 15;
        /// Zone descriptor changes.
        const ZONE_DESCRIPTOR_CHANGED = 1 << 27;
    }
}

bitflags::bitflags! {
    /// CTRATT: attributes of the controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Ctratt: u32 {
        /// 128-bit host identifiers.
        const HOST_ID_128 = 1 << 0;
        /// Non-operational power state permissive mode.
        const NON_OPERATIONAL_PERMISSIVE = 1 << 1;
        /// NVM sets.
        const NVM_SETS = 1 << 2;
        /// Read recovery levels.
        const READ_RECOVERY_LEVELS = 1 << 3;
        /// Endurance groups.
        const ENDURANCE_GROUPS = 1 << 4;
        /// Predictable latency mode.
        const PREDICTABLE_LATENCY = 1 << 5;
        /// Any command counts as a Keep Alive (traffic based).
        const TRAFFIC_BASED_KEEP_ALIVE = 1 << 6;
        /// The namespace granularity list.
        const NAMESPACE_GRANULARITY = 1 << 7;
        /// Submission queue associations.
        const SQ_ASSOCIATIONS = 1 << 8;
        /// The UUID list.
        const UUID_LIST = 1 << 9;
        /// Multiple domains.
        const MULTI_DOMAIN = 1 << 10;
        /// Extended LBA formats: more than 16 formats, wider guards and storage tags.
        const EXTENDED_LBA_FORMATS = 1 << 15;
        /// MDTS and the size limits count data without interleaved metadata.
        const MDTS_EXCLUDES_METADATA = 1 << 16;
        /// Flexible data placement.
        const FLEXIBLE_DATA_PLACEMENT = 1 << 19;
    }
}

open_enum! {
    /// CNTRLTYPE, what kind of controller it is.
    ControllerType(u8) {
        NOT_REPORTED = 0, "not reported";
        IO = 1, "I/O controller";
        DISCOVERY = 2, "discovery controller";
        ADMINISTRATIVE = 3, "administrative controller";
    }
}

bitflags::bitflags! {
    /// OACS: the optional admin commands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Oacs: u16 {
        /// Security Send and Receive.
        const SECURITY = 1 << 0;
        /// Format NVM.
        const FORMAT = 1 << 1;
        /// Firmware Commit and Download.
        const FIRMWARE = 1 << 2;
        /// Namespace Management and Attachment.
        const NAMESPACE_MANAGEMENT = 1 << 3;
        /// Device Self-test.
        const SELF_TEST = 1 << 4;
        /// Directives.
        const DIRECTIVES = 1 << 5;
        /// NVMe-MI Send and Receive.
        const MANAGEMENT_INTERFACE = 1 << 6;
        /// Virtualization Management.
        const VIRTUALIZATION = 1 << 7;
        /// Doorbell Buffer Config.
        const DOORBELL_BUFFER = 1 << 8;
        /// Get LBA Status.
        const GET_LBA_STATUS = 1 << 9;
        /// Command and Feature Lockdown.
        const LOCKDOWN = 1 << 10;
    }
}

/// FRMW: firmware slots.
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Frmw {
    /// Slot 1 is read-only.
    pub slot1_read_only: bool,
    /// The number of slots: 1 to 7.
    #[bits(3)]
    pub slots: u8,
    /// An image can be activated without a reset.
    pub activate_without_reset: bool,
    /// Overlapping downloads are detected.
    pub detects_overlap: bool,
    #[bits(2)]
    __: u8,
}

bitflags::bitflags! {
    /// LPA: what log pages can do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Lpa: u8 {
        /// SMART for single namespaces.
        const SMART_PER_NAMESPACE = 1 << 0;
        /// The commands supported and effects log.
        const EFFECTS = 1 << 1;
        /// Extended data: 32-bit lengths and offsets.
        const EXTENDED_DATA = 1 << 2;
        /// The telemetry logs.
        const TELEMETRY = 1 << 3;
        /// The persistent event log.
        const PERSISTENT_EVENT = 1 << 4;
        /// The supported log pages log.
        const SUPPORTED_LOGS = 1 << 5;
        /// Telemetry data area 4.
        const TELEMETRY_AREA_4 = 1 << 6;
    }
}

bitflags::bitflags! {
    /// SANICAP: what Sanitize can do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Sanicap: u32 {
        /// Crypto erase.
        const CRYPTO_ERASE = 1 << 0;
        /// Block erase.
        const BLOCK_ERASE = 1 << 1;
        /// Overwrite.
        const OVERWRITE = 1 << 2;
        /// "No deallocate after sanitize" is refused.
        const NO_DEALLOCATE_INHIBITED = 1 << 29;
    }
}

/// SQES or CQES: the sizes of queue entries as powers of 2.
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct EntrySizes {
    /// The size that is required, `2^n` bytes.
    #[bits(4)]
    pub min: u8,
    /// The largest size, `2^n` bytes.
    #[bits(4)]
    pub max: u8,
}

bitflags::bitflags! {
    /// ONCS: the optional I/O commands and features.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Oncs: u16 {
        /// Compare.
        const COMPARE = 1 << 0;
        /// Write Uncorrectable.
        const WRITE_UNCORRECTABLE = 1 << 1;
        /// Dataset Management.
        const DATASET_MANAGEMENT = 1 << 2;
        /// Write Zeroes.
        const WRITE_ZEROES = 1 << 3;
        /// Save and Select of the feature commands.
        const SAVE_SELECT = 1 << 4;
        /// Reservations.
        const RESERVATIONS = 1 << 5;
        /// The timestamp feature.
        const TIMESTAMP = 1 << 6;
        /// Verify.
        const VERIFY = 1 << 7;
        /// Copy.
        const COPY = 1 << 8;
    }
}

bitflags::bitflags! {
    /// FNA: what Format NVM acts on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Fna: u8 {
        /// A format applies to all namespaces.
        const FORMAT_ALL = 1 << 0;
        /// A secure erase applies to all namespaces.
        const ERASE_ALL = 1 << 1;
        /// Cryptographic erase is supported.
        const CRYPTO_ERASE = 1 << 2;
        /// Format does not take the broadcast NSID.
        const NO_BROADCAST = 1 << 3;
    }
}

/// VWC: the volatile write cache.
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Vwc {
    /// There is one, so data is safe only after a Flush or with FUA.
    pub present: bool,
    /// What a Flush with the broadcast NSID does.
    #[bits(2)]
    pub flush_all: FlushAll,
    #[bits(5)]
    __: u8,
}

open_enum! {
    /// Bits 2:1 of VWC, what a Flush of [`Nsid::ALL`](crate::Nsid::ALL) does.
    FlushAll(u8) {
        NOT_INDICATED = 0, "not indicated";
        UNSUPPORTED = 2, "fails";
        SUPPORTED = 3, "flushes all namespaces";
    }
}

/// SGLS: what SGLs the controller takes, in I/O commands.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Sgls {
    /// 0 for no SGLs, 1 for any alignment, 2 for data blocks at and in dwords.
    #[bits(2)]
    pub support: u8,
    /// Keyed data blocks are supported.
    pub keyed: bool,
    #[bits(5)]
    __: u8,
    /// SDT: the largest number of data blocks that is recommended, 0 for not reported.
    pub sdt: u8,
    /// Bit buckets are supported.
    pub bit_bucket: bool,
    /// A byte-aligned contiguous metadata buffer is supported (MPTR as address).
    pub mptr_byte_aligned: bool,
    /// An SGL may be longer than its data.
    pub larger_than_data: bool,
    /// MPTR may hold an SGL segment's address.
    pub mptr_sgl: bool,
    /// SAOS: addresses may be offsets.
    pub address_as_offset: bool,
    /// TSDBD: the transport SGL data block is supported.
    pub transport_data_block: bool,
    #[bits(10)]
    __: u16,
}

impl Sgls {
    /// The alignment of data blocks in bytes, 1 or 4. `None` where SGLs are not supported.
    #[must_use]
    pub const fn align_bytes(&self) -> Option<u32> {
        match self.support() {
            1 => Some(1),
            2 => Some(4),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_flush_needs_both_bits() {
        assert_eq!(Vwc::from_bits(0b111).flush_all(), FlushAll::SUPPORTED);
        assert_eq!(Vwc::from_bits(0b101).flush_all(), FlushAll::UNSUPPORTED);
        assert_eq!(Vwc::from_bits(0b001).flush_all(), FlushAll::NOT_INDICATED);
        assert!(Vwc::from_bits(0b001).present() && !Vwc::from_bits(0b110).present());
    }

    #[test]
    fn sgls_by_the_figure() {
        let sgls = Sgls::from_bits(1 | 1 << 16 | 1 << 18 | 1 << 20);
        assert_eq!(sgls.align_bytes(), Some(1));
        assert!(sgls.bit_bucket() && sgls.larger_than_data() && sgls.address_as_offset());
        assert!(!sgls.mptr_byte_aligned() && !sgls.mptr_sgl() && !sgls.transport_data_block());
        assert_eq!(Sgls::from_bits(2).align_bytes(), Some(4));
        assert_eq!((Sgls::from_bits(0).align_bytes(), Sgls::from_bits(3).align_bytes()), (None, None));
    }

    #[test]
    fn sizes_and_slots_by_the_figures() {
        assert_eq!((EntrySizes::from_bits(0x66).min(), EntrySizes::from_bits(0x74).max()), (6, 7));
        let frmw = Frmw::from_bits(0b1_0111);
        assert_eq!((frmw.slot1_read_only(), frmw.slots(), frmw.activate_without_reset()), (true, 3, true));
    }
}
