//! Every command's structure and its 64 bytes say the same.

use nvme_proto::{Sqe, admin, nvm};
use proptest::prelude::*;
use zerocopy::FromBytes;

/// What any 64 bytes decode to, encodes to a command that decodes to the same.
macro_rules! round_trips {
    ($($test:ident: $command:ty;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $test(bytes in proptest::array::uniform32(any::<u16>())) {
                    let sqe = Sqe::read_from_bytes(zerocopy::IntoBytes::as_bytes(&bytes)).unwrap();
                    let command = <$command>::from_sqe(&sqe);
                    prop_assert_eq!(<$command>::from_sqe(&command.to_sqe()), command);
                }
            )*
        }
    };
}

round_trips! {
    abort: admin::Abort;
    create_cq: admin::CreateCq;
    create_sq: admin::CreateSq;
    delete_cq: admin::DeleteCq;
    delete_sq: admin::DeleteSq;
    device_self_test: admin::DeviceSelfTest;
    doorbell_buffer_config: admin::DoorbellBufferConfig;
    firmware_commit: admin::FirmwareCommit;
    firmware_download: admin::FirmwareDownload;
    format_nvm: admin::FormatNvm;
    get_features: admin::GetFeatures;
    get_log_page: admin::GetLogPage;
    identify: admin::Identify;
    namespace_attachment: admin::NamespaceAttachment;
    namespace_management: admin::NamespaceManagement;
    sanitize: admin::Sanitize;
    set_features: admin::SetFeatures;
    copy: nvm::Copy;
    dataset_management: nvm::DatasetManagement;
    flush: nvm::Flush;
    read_write: nvm::ReadWrite;
}
