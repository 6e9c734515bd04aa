//! The named statuses, a module for each status code type, with the words that `Display` uses.

macro_rules! codes {
    (
        $(#[$meta:meta])*
        $module:ident, $sct:literal {
            $($constant:ident = $sc:literal, $text:literal;)*
        }
    ) => {
        $(#[$meta])*
        pub mod $module {
            use crate::status::Status;

            $(
                #[doc = concat!("Status `", stringify!($sct), "`, code `", stringify!($sc), "`: ", $text, ".")]
                pub const $constant: Status = Status::new($sct, $sc);
            )*

            /// Every status of this type that has a name here.
            pub const NAMED: &[Status] = &[$($constant),*];

            pub(in crate::status) const fn text(sc: u8) -> Option<&'static str> {
                match sc {
                    $($sc => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Generic command status, SCT 0h (figure "Generic Command Status Values", with those of the NVM command set).
    generic, 0x0 {
        SUCCESS = 0x00, "success";
        INVALID_OPCODE = 0x01, "invalid command opcode";
        INVALID_FIELD = 0x02, "invalid field in command";
        COMMAND_ID_CONFLICT = 0x03, "command id conflict";
        DATA_TRANSFER_ERROR = 0x04, "data transfer error";
        ABORTED_POWER_LOSS = 0x05, "commands aborted due to power loss notification";
        INTERNAL_ERROR = 0x06, "internal error";
        ABORT_REQUESTED = 0x07, "command abort requested";
        ABORTED_SQ_DELETED = 0x08, "command aborted due to submission queue deletion";
        ABORTED_FAILED_FUSED = 0x09, "command aborted due to failed fused command";
        ABORTED_MISSING_FUSED = 0x0a, "command aborted due to missing fused command";
        INVALID_NAMESPACE_OR_FORMAT = 0x0b, "invalid namespace or format";
        COMMAND_SEQUENCE_ERROR = 0x0c, "command sequence error";
        INVALID_SGL_SEGMENT_DESCRIPTOR = 0x0d, "invalid SGL segment descriptor";
        INVALID_SGL_DESCRIPTOR_COUNT = 0x0e, "invalid number of SGL descriptors";
        DATA_SGL_LENGTH_INVALID = 0x0f, "data SGL length invalid";
        METADATA_SGL_LENGTH_INVALID = 0x10, "metadata SGL length invalid";
        SGL_DESCRIPTOR_TYPE_INVALID = 0x11, "SGL descriptor type invalid";
        INVALID_USE_OF_CMB = 0x12, "invalid use of controller memory buffer";
        PRP_OFFSET_INVALID = 0x13, "PRP offset invalid";
        ATOMIC_WRITE_UNIT_EXCEEDED = 0x14, "atomic write unit exceeded";
        OPERATION_DENIED = 0x15, "operation denied";
        SGL_OFFSET_INVALID = 0x16, "SGL offset invalid";
        HOST_ID_INCONSISTENT_FORMAT = 0x18, "host identifier inconsistent format";
        KEEP_ALIVE_EXPIRED = 0x19, "keep alive timer expired";
        KEEP_ALIVE_TIMEOUT_INVALID = 0x1a, "keep alive timeout invalid";
        ABORTED_PREEMPT = 0x1b, "command aborted due to preempt and abort";
        SANITIZE_FAILED = 0x1c, "sanitize failed";
        SANITIZE_IN_PROGRESS = 0x1d, "sanitize in progress";
        SGL_GRANULARITY_INVALID = 0x1e, "SGL data block granularity invalid";
        COMMAND_NOT_SUPPORTED_IN_CMB = 0x1f, "command not supported for queue in controller memory buffer";
        NAMESPACE_WRITE_PROTECTED = 0x20, "namespace is write protected";
        COMMAND_INTERRUPTED = 0x21, "command interrupted";
        TRANSIENT_TRANSPORT_ERROR = 0x22, "transient transport error";
        COMMAND_PROHIBITED = 0x23, "command prohibited by command and feature lockdown";
        ADMIN_MEDIA_NOT_READY = 0x24, "admin command media not ready";
        LBA_OUT_OF_RANGE = 0x80, "LBA out of range";
        CAPACITY_EXCEEDED = 0x81, "capacity exceeded";
        NAMESPACE_NOT_READY = 0x82, "namespace not ready";
        RESERVATION_CONFLICT = 0x83, "reservation conflict";
        FORMAT_IN_PROGRESS = 0x84, "format in progress";
    }
}

codes! {
    /// Command specific status, SCT 1h (figure "Command Specific Status Values").
    ///
    /// Codes from 80h mean what the command set of the command says: here the NVM and the zoned command set.
    command, 0x1 {
        CQ_INVALID = 0x00, "completion queue invalid";
        INVALID_QUEUE_ID = 0x01, "invalid queue identifier";
        INVALID_QUEUE_SIZE = 0x02, "invalid queue size";
        ABORT_LIMIT_EXCEEDED = 0x03, "abort command limit exceeded";
        AER_LIMIT_EXCEEDED = 0x05, "asynchronous event request limit exceeded";
        INVALID_FIRMWARE_SLOT = 0x06, "invalid firmware slot";
        INVALID_FIRMWARE_IMAGE = 0x07, "invalid firmware image";
        INVALID_INTERRUPT_VECTOR = 0x08, "invalid interrupt vector";
        INVALID_LOG_PAGE = 0x09, "invalid log page";
        INVALID_FORMAT = 0x0a, "invalid format";
        FIRMWARE_NEEDS_CONVENTIONAL_RESET = 0x0b, "firmware activation requires conventional reset";
        INVALID_QUEUE_DELETION = 0x0c, "invalid queue deletion";
        FEATURE_NOT_SAVEABLE = 0x0d, "feature identifier not saveable";
        FEATURE_NOT_CHANGEABLE = 0x0e, "feature not changeable";
        FEATURE_NOT_NAMESPACE_SPECIFIC = 0x0f, "feature not namespace specific";
        FIRMWARE_NEEDS_SUBSYSTEM_RESET = 0x10, "firmware activation requires NVM subsystem reset";
        FIRMWARE_NEEDS_CONTROLLER_RESET = 0x11, "firmware activation requires controller level reset";
        FIRMWARE_NEEDS_MAXIMUM_TIME = 0x12, "firmware activation requires maximum time violation";
        FIRMWARE_ACTIVATION_PROHIBITED = 0x13, "firmware activation prohibited";
        OVERLAPPING_RANGE = 0x14, "overlapping range";
        NAMESPACE_INSUFFICIENT_CAPACITY = 0x15, "namespace insufficient capacity";
        NAMESPACE_ID_UNAVAILABLE = 0x16, "namespace identifier unavailable";
        NAMESPACE_ALREADY_ATTACHED = 0x18, "namespace already attached";
        NAMESPACE_IS_PRIVATE = 0x19, "namespace is private";
        NAMESPACE_NOT_ATTACHED = 0x1a, "namespace not attached";
        THIN_PROVISIONING_NOT_SUPPORTED = 0x1b, "thin provisioning not supported";
        CONTROLLER_LIST_INVALID = 0x1c, "controller list invalid";
        SELF_TEST_IN_PROGRESS = 0x1d, "device self-test in progress";
        BOOT_PARTITION_WRITE_PROHIBITED = 0x1e, "boot partition write prohibited";
        INVALID_CONTROLLER_ID = 0x1f, "invalid controller identifier";
        INVALID_SECONDARY_STATE = 0x20, "invalid secondary controller state";
        INVALID_RESOURCE_COUNT = 0x21, "invalid number of controller resources";
        INVALID_RESOURCE_ID = 0x22, "invalid resource identifier";
        SANITIZE_PROHIBITED_PMR = 0x23, "sanitize prohibited while persistent memory region is enabled";
        ANA_GROUP_ID_INVALID = 0x24, "ANA group identifier invalid";
        ANA_ATTACH_FAILED = 0x25, "ANA attach failed";
        INSUFFICIENT_CAPACITY = 0x26, "insufficient capacity";
        NAMESPACE_ATTACHMENT_LIMIT = 0x27, "namespace attachment limit exceeded";
        COMMAND_SET_NOT_SUPPORTED = 0x29, "I/O command set not supported";
        COMMAND_SET_NOT_ENABLED = 0x2a, "I/O command set not enabled";
        COMMAND_SET_COMBINATION_REJECTED = 0x2b, "I/O command set combination rejected";
        INVALID_COMMAND_SET = 0x2c, "invalid I/O command set";
        CONFLICTING_ATTRIBUTES = 0x80, "conflicting attributes";
        INVALID_PROTECTION_INFORMATION = 0x81, "invalid protection information";
        WRITE_TO_READ_ONLY_RANGE = 0x82, "attempted write to read only range";
        COMMAND_SIZE_LIMIT_EXCEEDED = 0x83, "command size limit exceeded";
        ZONE_BOUNDARY_ERROR = 0xb8, "zoned boundary error";
        ZONE_IS_FULL = 0xb9, "zone is full";
        ZONE_IS_READ_ONLY = 0xba, "zone is read only";
        ZONE_IS_OFFLINE = 0xbb, "zone is offline";
        ZONE_INVALID_WRITE = 0xbc, "zone invalid write";
        TOO_MANY_ACTIVE_ZONES = 0xbd, "too many active zones";
        TOO_MANY_OPEN_ZONES = 0xbe, "too many open zones";
        INVALID_ZONE_STATE_TRANSITION = 0xbf, "invalid zone state transition";
    }
}

codes! {
    /// Media and data integrity errors, SCT 2h (figure "Media and Data Integrity Error Values").
    media, 0x2 {
        WRITE_FAULT = 0x80, "write fault";
        UNRECOVERED_READ_ERROR = 0x81, "unrecovered read error";
        GUARD_CHECK_ERROR = 0x82, "end-to-end guard check error";
        APPLICATION_TAG_CHECK_ERROR = 0x83, "end-to-end application tag check error";
        REFERENCE_TAG_CHECK_ERROR = 0x84, "end-to-end reference tag check error";
        COMPARE_FAILURE = 0x85, "compare failure";
        ACCESS_DENIED = 0x86, "access denied";
        DEALLOCATED_OR_UNWRITTEN = 0x87, "deallocated or unwritten logical block";
        STORAGE_TAG_CHECK_ERROR = 0x88, "end-to-end storage tag check error";
    }
}

codes! {
    /// Path related status, SCT 3h (figure "Path Related Status Values").
    path, 0x3 {
        INTERNAL_PATH_ERROR = 0x00, "internal path error";
        ANA_PERSISTENT_LOSS = 0x01, "asymmetric access persistent loss";
        ANA_INACCESSIBLE = 0x02, "asymmetric access inaccessible";
        ANA_TRANSITION = 0x03, "asymmetric access transition";
        CONTROLLER_PATHING_ERROR = 0x60, "controller pathing error";
        HOST_PATHING_ERROR = 0x70, "host pathing error";
        ABORTED_BY_HOST = 0x71, "command aborted by host";
    }
}
