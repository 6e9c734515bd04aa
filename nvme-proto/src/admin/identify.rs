//! Identify: asking for one of the structures in [`identify`](crate::identify).

use super::Opcode;
use crate::sqe::Sqe;
use crate::types::{Csi, Nsid};

open_enum! {
    /// CNS, the structure that Identify returns (figure "CNS Values").
    Cns(u8) {
        NAMESPACE = 0x00, "namespace";
        CONTROLLER = 0x01, "controller";
        ACTIVE_NAMESPACES = 0x02, "active namespace list";
        NAMESPACE_DESCRIPTORS = 0x03, "namespace identification descriptor list";
        NVM_SET_LIST = 0x04, "NVM set list";
        CSI_NAMESPACE = 0x05, "command set specific namespace";
        CSI_CONTROLLER = 0x06, "command set specific controller";
        CSI_ACTIVE_NAMESPACES = 0x07, "command set specific active namespace list";
        COMMON_NAMESPACE = 0x08, "command set independent namespace";
        ALLOCATED_NAMESPACES = 0x10, "allocated namespace list";
        ALLOCATED_NAMESPACE = 0x11, "allocated namespace";
        NAMESPACE_CONTROLLERS = 0x12, "controllers attached to a namespace";
        CONTROLLERS = 0x13, "controller list";
        PRIMARY_CONTROLLER = 0x14, "primary controller capabilities";
        SECONDARY_CONTROLLERS = 0x15, "secondary controller list";
        NAMESPACE_GRANULARITIES = 0x16, "namespace granularity list";
        UUIDS = 0x17, "UUID list";
        COMMAND_SETS = 0x1c, "I/O command set combinations";
    }
}

/// Identify: returns 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identify {
    /// NSID: the namespace, or for lists the one to start after.
    pub nsid: Nsid,
    /// CNS: the structure wanted.
    pub cns: Cns,
    /// CNTID: the controller, or for lists the one to start at.
    pub cntid: u16,
    /// CNSSID: a further identifier, such as that of an NVM set.
    pub cnssid: u16,
    /// CSI: the command set, for the structures that depend on one.
    pub csi: Csi,
    /// The UUID index, 0 for none (bits 6:0).
    pub uuid_index: u8,
}

impl Identify {
    /// Asks for `cns` of `nsid`, with all else zero.
    #[must_use]
    pub const fn new(cns: Cns, nsid: Nsid) -> Self {
        Self { nsid, cns, cntid: 0, cnssid: 0, csi: Csi::NVM, uuid_index: 0 }
    }

    /// Asks for [`identify::Controller`](crate::identify::Controller).
    #[must_use]
    pub const fn controller() -> Self {
        Self::new(Cns::CONTROLLER, Nsid::NONE)
    }

    /// Asks for [`identify::Namespace`](crate::identify::Namespace). [`Nsid::ALL`] asks for what all have in common.
    #[must_use]
    pub const fn namespace(nsid: Nsid) -> Self {
        Self::new(Cns::NAMESPACE, nsid)
    }

    /// Asks for the first 1024 active namespaces with a greater identifier than `after`, as an
    /// [`identify::NamespaceList`](crate::identify::NamespaceList).
    #[must_use]
    pub const fn active_namespaces(after: Nsid) -> Self {
        Self::new(Cns::ACTIVE_NAMESPACES, after)
    }

    /// Asks for [`identify::NamespaceDescriptors`](crate::identify::NamespaceDescriptors).
    #[must_use]
    pub const fn namespace_descriptors(nsid: Nsid) -> Self {
        Self::new(Cns::NAMESPACE_DESCRIPTORS, nsid)
    }

    /// Asks for the namespace structure of a command set: for NVM
    /// [`identify::NvmNamespace`](crate::identify::NvmNamespace).
    #[must_use]
    pub const fn csi_namespace(nsid: Nsid, csi: Csi) -> Self {
        Self::new(Cns::CSI_NAMESPACE, nsid).for_command_set(csi)
    }

    /// Asks for the controller structure of a command set: for NVM
    /// [`identify::NvmController`](crate::identify::NvmController).
    #[must_use]
    pub const fn csi_controller(csi: Csi) -> Self {
        Self::new(Cns::CSI_CONTROLLER, Nsid::NONE).for_command_set(csi)
    }

    /// Asks for the controllers with identifiers from `first_cntid` on that `nsid` is attached to, as an
    /// [`identify::ControllerList`](crate::identify::ControllerList).
    #[must_use]
    pub const fn namespace_controllers(nsid: Nsid, first_cntid: u16) -> Self {
        Self { cntid: first_cntid, ..Self::new(Cns::NAMESPACE_CONTROLLERS, nsid) }
    }

    /// This for the command set `csi`.
    #[must_use]
    pub const fn for_command_set(self, csi: Csi) -> Self {
        Self { csi, ..self }
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::IDENTIFY.0, self.nsid)
            .with_cdw10(u32::from(self.cntid) << 16 | u32::from(self.cns.0))
            .with_cdw11(u32::from(self.csi.0) << 24 | u32::from(self.cnssid))
            .with_cdw14(u32::from(self.uuid_index & 0x7f))
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let (cdw10, cdw11) = (sqe.cdw10.get(), sqe.cdw11.get());
        Self {
            nsid: sqe.nsid(),
            cns: Cns(cdw10 as u8),
            cntid: (cdw10 >> 16) as u16,
            cnssid: cdw11 as u16,
            csi: Csi((cdw11 >> 24) as u8),
            uuid_index: sqe.cdw14.get() as u8 & 0x7f,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identify_by_the_figure() {
        let cases = [
            (Identify::controller(), 0, 0x01, 0),
            (Identify::namespace(Nsid(5)), 5, 0x00, 0),
            (Identify::active_namespaces(Nsid::NONE), 0, 0x02, 0),
            (Identify::namespace_descriptors(Nsid(5)), 5, 0x03, 0),
            (Identify::csi_namespace(Nsid(5), Csi::ZONED), 5, 0x05, 0x0200_0000),
            (Identify::csi_controller(Csi::NVM), 0, 0x06, 0),
            (Identify::namespace_controllers(Nsid(5), 0x12), 5, 0x0012_0012, 0),
        ];
        for (identify, nsid, cdw10, cdw11) in cases {
            let sqe = identify.to_sqe();
            assert_eq!((sqe.opcode, sqe.nsid().0), (6, nsid));
            assert_eq!((sqe.cdw10.get(), sqe.cdw11.get()), (cdw10, cdw11), "{}", identify.cns);
        }
    }
}
