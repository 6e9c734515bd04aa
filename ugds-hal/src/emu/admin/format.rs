//! Format NVM and Sanitize.

use super::Context;
use crate::emu::namespace::Namespace;
use crate::emu::store::MediumError;
use crate::emu::subsystem;
use nvme_proto::admin::{FormatNvm, Sanitize, SanitizeAction, SecureErase};
use nvme_proto::status::{command, generic};
use nvme_proto::{Nsid, Status};
use std::sync::Arc;

impl Context<'_> {
    pub(super) fn format(&self) -> Result<(), Status> {
        if self.core.subsystem.is_sanitizing(|| self.core.now()) {
            return Err(generic::SANITIZE_IN_PROGRESS);
        }
        let format = FormatNvm::from_sqe(self.sqe);
        if format.secure_erase.0 > SecureErase::CRYPTOGRAPHIC.0 {
            return Err(generic::INVALID_FIELD);
        }
        let targets: Vec<&Arc<Namespace>> = match format.nsid {
            Nsid::ALL => self.core.namespaces.iter().collect(),
            nsid => self.core.namespaces.get(nsid).into_iter().collect(),
        };
        if targets.is_empty() {
            return Err(generic::INVALID_NAMESPACE_OR_FORMAT);
        }
        targets.iter().try_for_each(|namespace| check_format(namespace, &format))?;
        targets.iter().try_for_each(|namespace| self.format_one(namespace, &format))
    }

    /// Whatever was asked to be erased, the old data is gone: its blocks have other borders now.
    fn format_one(&self, namespace: &Namespace, format: &FormatNvm) -> Result<(), Status> {
        let mut state = namespace.write();
        self.erase(namespace)?;
        state.format = format.lba_format;
        state.extended_lba = format.extended_lba;
        state.uncorrectable.clear();
        Ok(())
    }

    pub(super) fn sanitize(&self) -> Result<(), Status> {
        let now = self.core.now();
        if self.core.subsystem.is_sanitizing(|| now) {
            return Err(generic::SANITIZE_IN_PROGRESS);
        }
        match Sanitize::from_sqe(self.sqe).action {
            // Nothing ever failed.
            SanitizeAction::EXIT_FAILURE_MODE => return Ok(()),
            SanitizeAction::BLOCK_ERASE | SanitizeAction::OVERWRITE | SanitizeAction::CRYPTO_ERASE => {}
            _ => return Err(generic::INVALID_FIELD),
        }
        self.core.subsystem.set_sanitize(subsystem::Sanitize {
            cdw10: self.sqe.cdw10.get(),
            started_at: now,
            until: self.core.later(self.core.config.sanitize_time),
        });
        for namespace in self.core.namespaces.iter() {
            let mut state = namespace.write();
            state.uncorrectable.clear();
            self.erase(namespace)?;
        }
        Ok(())
    }

    /// The caller holds the namespace.
    fn erase(&self, namespace: &Namespace) -> Result<(), Status> {
        namespace.metadata.zero(0, u64::MAX / 2);
        let len = namespace.config.size_bytes;
        self.core.namespaces.store().zero(namespace.base, len).map_err(MediumError::status)
    }
}

fn check_format(namespace: &Namespace, format: &FormatNvm) -> Result<(), Status> {
    let state = namespace.read();
    let Some(wanted) = state.formats.get(usize::from(format.lba_format)) else {
        return Err(command::INVALID_FORMAT);
    };
    // There is no end-to-end protection, and no extended block without metadata.
    if format.protection_type != 0 || (format.extended_lba && wanted.metadata_bytes == 0) {
        return Err(command::INVALID_FORMAT);
    }
    if state.write_protected {
        return Err(generic::NAMESPACE_WRITE_PROTECTED);
    }
    Ok(())
}
