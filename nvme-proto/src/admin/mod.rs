//! The admin command set (Base specification, "Admin Command Set").
//!
//! There is a structure for each command. `to_sqe` makes the command of it, with everything but the command
//! identifier and the data pointer; `from_sqe` is the controller's way back. `from_sqe` reads the fields and
//! looks at neither the opcode nor reserved bits.

mod feature;
mod format;
mod identify;
mod log;
mod management;
mod queue;

pub use feature::{
    ApstEntry, ApstTable, Arbitration, AsyncEventConfig, AutonomousPowerState, ErrorRecovery, Feature,
    FeatureId, GetFeatures, HostBehaviorSupport, HostControlledThermal, HostMemoryBuffer,
    InterruptCoalescing, InterruptVectorConfig, KeepAliveTimer, NumberOfQueues, PowerManagement, Select,
    SetFeatures, TemperatureThreshold, Timestamp, VolatileWriteCache, WriteAtomicity,
};
pub use format::{FormatNvm, ProtectionLocation, Sanitize, SanitizeAction, SecureErase};
pub use identify::{Cns, Identify};
pub use log::{GetLogPage, LengthError, LogId};
pub use management::{
    Abort, AsyncEventRequest, AttachmentAction, CommitAction, DeviceSelfTest, DoorbellBufferConfig,
    FirmwareCommit, FirmwareDownload, KeepAlive, NamespaceAttachment, NamespaceManagement,
    NamespaceManagementAction, SelfTestCode,
};
pub use queue::{CreateCq, CreateSq, DeleteCq, DeleteSq, Priority};

open_enum! {
    /// The opcode of an admin command (figure "Opcodes for Admin Commands").
    Opcode(u8) {
        DELETE_SQ = 0x00, "Delete I/O Submission Queue";
        CREATE_SQ = 0x01, "Create I/O Submission Queue";
        GET_LOG_PAGE = 0x02, "Get Log Page";
        DELETE_CQ = 0x04, "Delete I/O Completion Queue";
        CREATE_CQ = 0x05, "Create I/O Completion Queue";
        IDENTIFY = 0x06, "Identify";
        ABORT = 0x08, "Abort";
        SET_FEATURES = 0x09, "Set Features";
        GET_FEATURES = 0x0a, "Get Features";
        ASYNC_EVENT_REQUEST = 0x0c, "Asynchronous Event Request";
        NAMESPACE_MANAGEMENT = 0x0d, "Namespace Management";
        FIRMWARE_COMMIT = 0x10, "Firmware Commit";
        FIRMWARE_DOWNLOAD = 0x11, "Firmware Image Download";
        DEVICE_SELF_TEST = 0x14, "Device Self-test";
        NAMESPACE_ATTACHMENT = 0x15, "Namespace Attachment";
        KEEP_ALIVE = 0x18, "Keep Alive";
        DIRECTIVE_SEND = 0x19, "Directive Send";
        DIRECTIVE_RECEIVE = 0x1a, "Directive Receive";
        VIRTUALIZATION_MANAGEMENT = 0x1c, "Virtualization Management";
        MI_SEND = 0x1d, "NVMe-MI Send";
        MI_RECEIVE = 0x1e, "NVMe-MI Receive";
        DOORBELL_BUFFER_CONFIG = 0x7c, "Doorbell Buffer Config";
        FORMAT_NVM = 0x80, "Format NVM";
        SECURITY_SEND = 0x81, "Security Send";
        SECURITY_RECEIVE = 0x82, "Security Receive";
        SANITIZE = 0x84, "Sanitize";
        GET_LBA_STATUS = 0x86, "Get LBA Status";
    }
}
