//! Identify.

use super::{ACL_Z, Context};
use crate::emu::events::AERL_Z;
use crate::emu::namespace::{Namespace as Model, NamespaceState};
use crate::emu::nvm::{MCL, MSRC_Z, MSSRL};
use crate::emu::state::OVER_TEMPERATURE;
use crate::emu::subsystem::ELPE_Z;
use nvme_proto::admin::{Cns, Identify};
use nvme_proto::identify::{
    Ascii, Controller, ControllerList, ControllerType, Ctratt, EntrySizes, FlushAll, Fna, Frmw, LbaFormat,
    Lpa, Namespace, NamespaceDescriptors, NamespaceList, Nsfeat, NvmController, NvmNamespace, Oacs, Oaes,
    Oncs, Sanicap, Sgls, Vwc,
};
use nvme_proto::register::Vs;
use nvme_proto::status::generic;
use nvme_proto::{Csi, Nsid, Status};
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

impl Context<'_> {
    pub(super) fn identify(&self) -> Result<(), Status> {
        let identify = Identify::from_sqe(self.sqe);
        let nvm = identify.csi == Csi::NVM;
        match identify.cns {
            Cns::NAMESPACE => self.write_data(self.namespace(identify.nsid, Model::is_attached)?.as_bytes()),
            Cns::CONTROLLER => self.write_data(self.controller().as_bytes()),
            Cns::ACTIVE_NAMESPACES => {
                self.write_data(self.list(identify.nsid, Model::is_attached)?.as_bytes())
            }
            Cns::NAMESPACE_DESCRIPTORS => self.write_data(self.descriptors(identify.nsid)?.as_bytes()),
            Cns::CSI_NAMESPACE if nvm => {
                self.attached(identify.nsid)?;
                self.write_data(NvmNamespace::new_zeroed().as_bytes())
            }
            Cns::CSI_CONTROLLER if nvm => self.write_data(NvmController::new_zeroed().as_bytes()),
            Cns::CSI_ACTIVE_NAMESPACES if nvm => {
                self.write_data(self.list(identify.nsid, Model::is_attached)?.as_bytes())
            }
            Cns::COMMON_NAMESPACE => self.write_data(&self.common(identify.nsid)?),
            Cns::ALLOCATED_NAMESPACES => self.write_data(self.list(identify.nsid, |_| true)?.as_bytes()),
            Cns::ALLOCATED_NAMESPACE => self.write_data(self.namespace(identify.nsid, |_| true)?.as_bytes()),
            Cns::NAMESPACE_CONTROLLERS => {
                let attached =
                    self.core.namespaces.get(identify.nsid).is_some_and(|found| found.is_attached());
                self.write_data(controllers(attached && identify.cntid == CNTLID).as_bytes())
            }
            Cns::CONTROLLERS => self.write_data(controllers(identify.cntid == CNTLID).as_bytes()),
            _ => Err(generic::INVALID_FIELD),
        }
    }

    fn controller(&self) -> Controller {
        let config = &self.core.config;
        let serial = self.core.serial();
        let mut controller = Controller::new_zeroed();
        controller.vid = VENDOR.into();
        controller.ssvid = VENDOR.into();
        controller.sn = Ascii::from_text(&format!("EMU{serial:016X}"));
        controller.mn = Ascii::from_text("uGDS NVMe controller model");
        controller.fr = Ascii::from_text(FIRMWARE);
        controller.mdts = config.mdts;
        controller.cntlid = CNTLID.into();
        controller.ver = Vs::of(2, 0, 0).into_bits().into();
        controller.rtd3e_us = 1_000_000.into();
        controller.oaes = Oaes::NAMESPACE_CHANGED.bits().into();
        controller.ctratt = self.attributes().bits().into();
        controller.cntrltype = ControllerType::IO.0;
        controller.oacs = (Oacs::FORMAT | self.optional(config.dbbuf, Oacs::DOORBELL_BUFFER)).bits().into();
        controller.acl_z = ACL_Z;
        controller.aerl_z = AERL_Z;
        controller.frmw = Frmw::new().with_slots(1).with_slot1_read_only(true).into_bits();
        controller.lpa = (Lpa::EFFECTS | Lpa::EXTENDED_DATA).bits();
        controller.elpe_z = ELPE_Z;
        controller.wctemp = OVER_TEMPERATURE.into();
        controller.cctemp = (OVER_TEMPERATURE + 10).into();
        controller.tnvmcap = u128::from(config.size_bytes()).into();
        controller.sanicap =
            (Sanicap::CRYPTO_ERASE | Sanicap::BLOCK_ERASE | Sanicap::OVERWRITE).bits().into();
        controller.sqes = EntrySizes::new().with_min(6).with_max(6).into_bits();
        controller.cqes = EntrySizes::new().with_min(4).with_max(4).into_bits();
        controller.nn = self.core.namespaces.max_nsid().into();
        controller.mnan = (config.namespaces.len() as u32).into();
        controller.oncs = ONCS.bits().into();
        controller.fna = Fna::CRYPTO_ERASE.bits();
        controller.vwc = self.write_cache().into_bits();
        controller.cdfs = 1.into();
        controller.sgls = self.sgls().into_bits().into();
        controller.subnqn.0 = [0; 256];
        let nqn = format!(
            "nqn.2014-08.org.nvmexpress:uuid:75676473-0000-4000-8000-{:012x}",
            serial & 0xffff_ffff_ffff
        );
        controller.subnqn.0[..nqn.len()].copy_from_slice(nqn.as_bytes());
        controller.psd[0].mp = 2500.into();
        controller
    }

    fn attributes(&self) -> Ctratt {
        let more_formats = self.core.namespaces.iter().any(|namespace| namespace.read().formats.len() > 16);
        if more_formats { Ctratt::EXTENDED_LBA_FORMATS } else { Ctratt::empty() }
    }

    fn optional(&self, present: bool, flag: Oacs) -> Oacs {
        if present { flag } else { Oacs::empty() }
    }

    fn write_cache(&self) -> Vwc {
        let none = Vwc::new();
        if self.core.config.vwc { none.with_present(true).with_flush_all(FlushAll::SUPPORTED) } else { none }
    }

    fn sgls(&self) -> Sgls {
        let none = Sgls::new();
        if self.core.config.sgl { none.with_support(1).with_bit_bucket(true) } else { none }
    }

    /// A namespace that is shown; one that could be but is not reads as zeroes.
    fn namespace(&self, nsid: Nsid, shown: impl Fn(&Model) -> bool) -> Result<Namespace, Status> {
        if !nsid.is_single() || nsid.0 > self.core.namespaces.max_nsid() {
            return Err(generic::INVALID_NAMESPACE_OR_FORMAT);
        }
        let found = self.core.namespaces.get(nsid).filter(|namespace| shown(namespace));
        Ok(found
            .map_or_else(Namespace::new_zeroed, |found| describe(found, &found.read(), self.core.serial())))
    }

    fn attached(&self, nsid: Nsid) -> Result<&Arc<Model>, Status> {
        let found = self.core.namespaces.get(nsid).filter(|namespace| namespace.is_attached());
        found.ok_or(generic::INVALID_NAMESPACE_OR_FORMAT)
    }

    fn list(&self, after: Nsid, shown: impl Fn(&Model) -> bool) -> Result<NamespaceList, Status> {
        if after.0 >= Nsid::ALL.0 - 1 {
            return Err(generic::INVALID_NAMESPACE_OR_FORMAT);
        }
        let mut list = NamespaceList::new_zeroed();
        let shown = self.core.namespaces.iter().filter(|model| model.id > after && shown(model));
        list.entries.iter_mut().zip(shown).for_each(|(entry, model)| *entry = model.id.0.into());
        Ok(list)
    }

    fn descriptors(&self, nsid: Nsid) -> Result<NamespaceDescriptors, Status> {
        let namespace = self.attached(nsid)?;
        let described = describe(namespace, &namespace.read(), self.core.serial());
        let mut descriptors = NamespaceDescriptors::new_zeroed();
        let mut at = 0;
        let entries: [(u8, &[u8]); 3] = [(1, &described.eui64), (2, &described.nguid), (4, &[Csi::NVM.0])];
        for (kind, id) in entries {
            descriptors.bytes[at] = kind;
            descriptors.bytes[at + 1] = id.len() as u8;
            descriptors.bytes[at + 4..][..id.len()].copy_from_slice(id);
            at += 4 + id.len();
        }
        Ok(descriptors)
    }

    /// What does not depend on the command set.
    fn common(&self, nsid: Nsid) -> Result<[u8; 4096], Status> {
        let namespace = self.attached(nsid)?;
        let mut bytes = [0; 4096];
        bytes[NSATTR] = u8::from(namespace.read().write_protected);
        bytes[NSTAT] = NAMESPACE_READY;
        Ok(bytes)
    }
}

impl Model {
    pub(in crate::emu) fn is_attached(&self) -> bool {
        self.read().attached
    }
}

fn describe(model: &Model, state: &NamespaceState, serial: u64) -> Namespace {
    let config = &model.config;
    let mut namespace = Namespace::new_zeroed();
    namespace.nsze = state.blocks().into();
    namespace.ncap = state.blocks().into();
    namespace.nuse = state.blocks().into();
    namespace.nlbaf_z = (state.formats.len() - 1) as u8;
    namespace.flbas = state.format & 0xf | (state.format >> 4) << 5 | u8::from(state.extended_lba) << 4;
    namespace.mc = 0b11;
    // A deallocated block reads as zeroes.
    namespace.dlfeat = 1;
    namespace.noiob = config.noiob.into();
    namespace.nvmcap = u128::from(state.size_bytes).into();
    if let Some(granularity_z) = config.npwg.checked_sub(1) {
        namespace.nsfeat |= Nsfeat::OPTPERF.bits() & 1 << 4;
        namespace.npwg_z = granularity_z.into();
        namespace.npwa_z = granularity_z.into();
        namespace.nows_z = granularity_z.into();
    }
    namespace.mssrl = MSSRL.into();
    namespace.mcl = MCL.into();
    namespace.msrc_z = MSRC_Z;
    namespace.nsattr = u8::from(state.write_protected);
    let eui64 = serial.wrapping_mul(0x1_0001).wrapping_add(config.nsid.into());
    namespace.eui64 = eui64.to_be_bytes();
    namespace.nguid[..8].copy_from_slice(&serial.to_be_bytes());
    namespace.nguid[8..].copy_from_slice(&eui64.to_be_bytes());
    for (entry, format) in namespace.lbaf.iter_mut().zip(&state.formats) {
        *entry = LbaFormat { ms: format.metadata_bytes.into(), lbads: format.data_shift, rp: 0 };
    }
    namespace
}

fn controllers(present: bool) -> ControllerList {
    if present { ControllerList::of_one(CNTLID) } else { ControllerList::new_zeroed() }
}

const ONCS: Oncs = Oncs::COMPARE
    .union(Oncs::WRITE_UNCORRECTABLE)
    .union(Oncs::DATASET_MANAGEMENT)
    .union(Oncs::WRITE_ZEROES)
    .union(Oncs::SAVE_SELECT)
    .union(Oncs::VERIFY)
    .union(Oncs::COPY);

/// "uG" in ASCII. It is nobody's.
const VENDOR: u16 = 0x4775;
const CNTLID: u16 = 0;
pub(super) const FIRMWARE: &str = "1.0";
/// Offsets in the structure that does not depend on the command set, CNS 08h.
const NSATTR: usize = 8;
const NSTAT: usize = 14;
const NAMESPACE_READY: u8 = 1;
