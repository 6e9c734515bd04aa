//! The smaller admin commands: Abort, events, doorbell buffers, firmware, namespaces, self-test, keep-alive.

use super::Opcode;
use crate::cqe::Cqe;
use crate::sqe::{DataPointer, Sqe};
use crate::types::{BusAddr, Cid, Csi, Nsid, Qid};

/// Abort. At most ACL + 1 may be outstanding; the aborted command still completes on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort {
    /// SQID of the command to abort.
    pub sqid: Qid,
    /// CID of the command to abort.
    pub cid: Cid,
}

impl Abort {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let target = u32::from(self.cid.0) << 16 | u32::from(self.sqid.0);
        Sqe::new(Opcode::ABORT.0, Nsid::NONE).with_cdw10(target)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let target = sqe.cdw10.get();
        Self { sqid: Qid(target as u16), cid: Cid((target >> 16) as u16) }
    }

    /// Whether the completion of an Abort says that its target was aborted (DW0 bit 0 clear).
    #[must_use]
    pub fn was_aborted(completion: &Cqe) -> bool {
        completion.status().is_success() && completion.result() & 1 == 0
    }
}

/// Asynchronous Event Request, which completes when something happens: possibly never.
///
/// Its result is an [`event::Event`](crate::event::Event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEventRequest;

impl AsyncEventRequest {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::ASYNC_EVENT_REQUEST.0, Nsid::NONE)
    }
}

/// Keep Alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive;

impl KeepAlive {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::KEEP_ALIVE.0, Nsid::NONE)
    }
}

/// Doorbell Buffer Config. Both buffers are one page and zero; they count until the next controller reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellBufferConfig {
    /// The shadow doorbell buffer, which the host writes.
    pub shadow: BusAddr,
    /// The EventIdx buffer, which the controller writes.
    pub event_idx: BusAddr,
}

impl DoorbellBufferConfig {
    /// The command, data pointer included.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::DOORBELL_BUFFER_CONFIG.0, Nsid::NONE)
            .with_data_pointer(DataPointer::prp(self.shadow, self.event_idx))
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self { shadow: sqe.prp1(), event_idx: sqe.prp2() }
    }
}

/// Firmware Commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareCommit {
    /// FS: the slot, 1 to 7, or 0 for the controller's choice.
    pub slot: u8,
    /// CA: what to do.
    pub action: CommitAction,
    /// BPID: the boot partition, 0 or 1, for the actions on one.
    pub boot_partition: u8,
}

open_enum! {
    /// CA, what Firmware Commit does with a downloaded image.
    CommitAction(u8) {
        STORE = 0, "store in slot";
        STORE_AND_ACTIVATE_AT_RESET = 1, "store in slot, activate at reset";
        ACTIVATE_AT_RESET = 2, "activate slot at reset";
        ACTIVATE_NOW = 3, "activate slot now";
        STORE_BOOT_PARTITION = 6, "store as boot partition";
        ACTIVATE_BOOT_PARTITION = 7, "activate boot partition";
    }
}

impl FirmwareCommit {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let action = u32::from(self.action.0 & 0b111) << 3 | u32::from(self.slot & 0b111);
        Sqe::new(Opcode::FIRMWARE_COMMIT.0, Nsid::NONE)
            .with_cdw10(u32::from(self.boot_partition & 1) << 31 | action)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let cdw10 = sqe.cdw10.get();
        Self {
            slot: cdw10 as u8 & 0b111,
            action: CommitAction((cdw10 >> 3) as u8 & 0b111),
            boot_partition: (cdw10 >> 31) as u8,
        }
    }
}

/// Firmware Image Download of one piece of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareDownload {
    /// NUMD: the length of the piece in dwords, 0's based.
    pub numd_z: u32,
    /// OFST: the place of the piece in the image, in dwords.
    pub offset_dwords: u32,
}

impl FirmwareDownload {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::FIRMWARE_DOWNLOAD.0, Nsid::NONE)
            .with_cdw10(self.numd_z)
            .with_cdw11(self.offset_dwords)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self { numd_z: sqe.cdw10.get(), offset_dwords: sqe.cdw11.get() }
    }

    /// The length of the piece in bytes.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        (self.numd_z as u64 + 1) * 4
    }
}

/// Namespace Management. The data of a creation is an [`identify::Namespace`](crate::identify::Namespace).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceManagement {
    /// NSID: the namespace to delete. A creation has [`Nsid::NONE`] and returns the identifier in its result.
    pub nsid: Nsid,
    /// SEL: what to do.
    pub action: NamespaceManagementAction,
    /// CSI: the command set of a new namespace.
    pub csi: Csi,
}

open_enum! {
    /// SEL of Namespace Management.
    NamespaceManagementAction(u8) {
        CREATE = 0, "create";
        DELETE = 1, "delete";
    }
}

impl NamespaceManagement {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::NAMESPACE_MANAGEMENT.0, self.nsid)
            .with_cdw10(u32::from(self.action.0 & 0xf))
            .with_cdw11(u32::from(self.csi.0) << 24)
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self {
            nsid: sqe.nsid(),
            action: NamespaceManagementAction(sqe.cdw10.get() as u8 & 0xf),
            csi: Csi((sqe.cdw11.get() >> 24) as u8),
        }
    }
}

/// Namespace Attachment. The data is an [`identify::ControllerList`](crate::identify::ControllerList).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceAttachment {
    /// NSID.
    pub nsid: Nsid,
    /// SEL: what to do.
    pub action: AttachmentAction,
}

open_enum! {
    /// SEL of Namespace Attachment.
    AttachmentAction(u8) {
        ATTACH = 0, "attach";
        DETACH = 1, "detach";
    }
}

impl NamespaceAttachment {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::NAMESPACE_ATTACHMENT.0, self.nsid).with_cdw10(u32::from(self.action.0 & 0xf))
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self { nsid: sqe.nsid(), action: AttachmentAction(sqe.cdw10.get() as u8 & 0xf) }
    }
}

/// Device Self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSelfTest {
    /// NSID: [`Nsid::NONE`] for the controller alone, [`Nsid::ALL`] for its namespaces too.
    pub nsid: Nsid,
    /// STC: which test.
    pub code: SelfTestCode,
}

open_enum! {
    /// STC, the self-test to start or to end.
    SelfTestCode(u8) {
        SHORT = 0x1, "short";
        EXTENDED = 0x2, "extended";
        VENDOR = 0xe, "vendor specific";
        ABORT = 0xf, "abort";
    }
}

impl DeviceSelfTest {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::DEVICE_SELF_TEST.0, self.nsid).with_cdw10(u32::from(self.code.0 & 0xf))
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self { nsid: sqe.nsid(), code: SelfTestCode(sqe.cdw10.get() as u8 & 0xf) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_by_the_figures() {
        let abort = Abort { sqid: Qid(3), cid: Cid(0x1234) }.to_sqe();
        assert_eq!((abort.opcode, abort.cdw10.get()), (8, 0x1234_0003));
        let buffers = DoorbellBufferConfig { shadow: BusAddr(0x1000), event_idx: BusAddr(0x2000) }.to_sqe();
        assert_eq!((buffers.opcode, buffers.prp1().0, buffers.prp2().0), (0x7c, 0x1000, 0x2000));
        let commit = FirmwareCommit { slot: 2, action: CommitAction::ACTIVATE_NOW, boot_partition: 1 };
        assert_eq!((commit.to_sqe().opcode, commit.to_sqe().cdw10.get()), (0x10, 0x8000_001a));
        let piece = FirmwareDownload { numd_z: 1023, offset_dwords: 1024 };
        assert_eq!((piece.len_bytes(), piece.to_sqe().cdw11.get()), (4096, 1024));
        let detach = NamespaceAttachment { nsid: Nsid(2), action: AttachmentAction::DETACH }.to_sqe();
        assert_eq!((detach.opcode, detach.nsid().0, detach.cdw10.get()), (0x15, 2, 1));
        let test = DeviceSelfTest { nsid: Nsid::ALL, code: SelfTestCode::ABORT }.to_sqe();
        assert_eq!((test.opcode, test.cdw10.get()), (0x14, 0xf));
        assert_eq!((AsyncEventRequest.to_sqe().opcode, KeepAlive.to_sqe().opcode), (0x0c, 0x18));
    }

    #[test]
    fn an_abort_succeeds_only_with_bit_0_clear() {
        use crate::status::command;
        let completion =
            |dw0: u32, status: u16| Cqe { dw0: dw0.into(), status: status.into(), ..Cqe::default() };
        assert!(Abort::was_aborted(&completion(0, 1)));
        assert!(!Abort::was_aborted(&completion(1, 1)));
        assert!(!Abort::was_aborted(&completion(0, command::ABORT_LIMIT_EXCEEDED.to_field(true))));
    }
}
