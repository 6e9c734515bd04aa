//! Get Log Page.

use super::{Context, is_supported};
use crate::emu::nvm;
use crate::emu::stats;
use crate::emu::subsystem::ELPE_Z;
use core::sync::atomic::Ordering;
use nvme_proto::admin::{GetLogPage, LogId, Opcode};
use nvme_proto::identify::{Ascii, NamespaceList};
use nvme_proto::log::{
    ChangedNamespaces, CommandEffects, Effects, ErrorEntry, FirmwareSlots, SanitizeState, SanitizeStatus,
    Smart,
};
use nvme_proto::status::{command, generic};
use nvme_proto::{Nsid, Status};
use zerocopy::{FromZeros, IntoBytes};

impl Context<'_> {
    pub(super) fn get_log_page(&self) -> Result<(), Status> {
        let get = GetLogPage::from_sqe(self.sqe);
        let len_bytes = get.len_bytes();
        let log = self.log(&get)?;
        let too_long = self.core.max_transfer_bytes().is_some_and(|limit| len_bytes > limit);
        if too_long || get.offset_is_index || !get.offset.is_multiple_of(4) || get.offset > log.len() as u64 {
            return Err(generic::INVALID_FIELD);
        }
        let wanted = usize::try_from(len_bytes).map_err(|_| generic::INVALID_FIELD)?;
        // What lies behind the log's end reads as zeroes.
        let mut data = vec![0; wanted];
        let rest = &log[get.offset as usize..];
        let len = rest.len().min(wanted);
        data[..len].copy_from_slice(&rest[..len]);
        self.write_data(&data)?;
        if !get.retain_event {
            self.core.state().events.acknowledge(get.lid);
            if get.lid == LogId::CHANGED_NAMESPACES {
                self.core.state().changed_namespaces.clear();
            }
        }
        Ok(())
    }

    fn log(&self, get: &GetLogPage) -> Result<Vec<u8>, Status> {
        Ok(match get.lid {
            LogId::ERROR => self.errors(),
            LogId::SMART => {
                // There is none for single namespaces.
                if get.nsid != Nsid::ALL && get.nsid != Nsid::NONE {
                    return Err(generic::INVALID_FIELD);
                }
                self.smart().as_bytes().to_vec()
            }
            LogId::FIRMWARE_SLOTS => firmware_slots().as_bytes().to_vec(),
            LogId::CHANGED_NAMESPACES => self.changed_namespaces().as_bytes().to_vec(),
            LogId::EFFECTS => self.effects().as_bytes().to_vec(),
            LogId::SANITIZE => self.sanitize_status().as_bytes().to_vec(),
            _ => return Err(command::INVALID_LOG_PAGE),
        })
    }

    fn errors(&self) -> Vec<u8> {
        let mut entries = [ErrorEntry::new_zeroed(); ELPE_Z as usize + 1];
        let (errors, _) = self.core.subsystem.errors();
        for (entry, error) in entries.iter_mut().zip(errors) {
            *entry = ErrorEntry {
                count: error.count.into(),
                sqid: error.qid.0.into(),
                cid: error.cid.0.into(),
                status: error.status.to_field(false).into(),
                parameter: u16::MAX.into(),
                lba: error.lba.into(),
                nsid: error.nsid.0.into(),
                opcode: error.opcode,
                version: 1,
                ..ErrorEntry::default()
            };
        }
        entries.as_bytes().to_vec()
    }

    fn smart(&self) -> Smart {
        let health = *self.core.subsystem.health();
        let usage = &self.core.subsystem.usage;
        let units = |bytes| u128::from(stats::get(bytes)).div_ceil(DATA_UNIT_BYTES).into();
        let mut smart = Smart::new_zeroed();
        smart.critical_warning = health.critical_warning;
        smart.temperature_k = self.core.subsystem.temperature.load(Ordering::Relaxed).into();
        smart.available_spare = health.available_spare;
        smart.spare_threshold = health.spare_threshold;
        smart.percentage_used = health.percentage_used;
        smart.data_units_read = units(&usage.bytes_read);
        smart.data_units_written = units(&usage.bytes_written);
        smart.host_reads = u128::from(stats::get(&usage.reads)).into();
        smart.host_writes = u128::from(stats::get(&usage.writes)).into();
        smart.power_cycles = u128::from(health.power_cycles).into();
        smart.unsafe_shutdowns = u128::from(health.unsafe_shutdowns).into();
        smart.media_errors = u128::from(stats::get(&usage.media_errors)).into();
        smart.error_log_entries = u128::from(self.core.subsystem.errors().1).into();
        smart
    }

    fn changed_namespaces(&self) -> ChangedNamespaces {
        let state = self.core.state();
        if state.changed_namespaces.len() > 1024 {
            return ChangedNamespaces::too_many();
        }
        let mut list = NamespaceList::new_zeroed();
        list.entries
            .iter_mut()
            .zip(&state.changed_namespaces)
            .for_each(|(entry, nsid)| *entry = (*nsid).into());
        ChangedNamespaces { list }
    }

    fn effects(&self) -> Effects {
        let supported = CommandEffects::new().with_csupp(true);
        let mut effects = Effects::new_zeroed();
        for opcode in 0..=u8::MAX {
            if is_supported(self.core, Opcode(opcode)) {
                effects.admin[usize::from(opcode)] = supported.into_bits().into();
            }
        }
        for opcode in nvm::SUPPORTED {
            // Those that don't only look.
            let changes = !matches!(
                opcode,
                nvme_proto::nvm::Opcode::READ
                    | nvme_proto::nvm::Opcode::COMPARE
                    | nvme_proto::nvm::Opcode::VERIFY
                    | nvme_proto::nvm::Opcode::FLUSH
            );
            effects.io[usize::from(opcode.0)] = supported.with_lbcc(changes).into_bits().into();
        }
        for opcode in [Opcode::FORMAT_NVM, Opcode::SANITIZE] {
            let all = supported.with_lbcc(true).with_ncc(opcode == Opcode::FORMAT_NVM).with_cse(2);
            effects.admin[usize::from(opcode.0)] = all.into_bits().into();
        }
        effects
    }

    fn sanitize_status(&self) -> SanitizeStatus {
        let sanitize = self.core.subsystem.sanitize();
        let now = self.core.now();
        let mut status = SanitizeStatus::new_zeroed();
        let (state, progress) = if sanitize.cdw10 == 0 {
            (SanitizeState::NEVER, u16::MAX)
        } else if now < sanitize.until {
            let total = u128::from((sanitize.until - sanitize.started_at).max(1));
            let done = u128::from(now.saturating_sub(sanitize.started_at));
            (SanitizeState::IN_PROGRESS, (done * 65536 / total).min(65535) as u16)
        } else {
            (SanitizeState::COMPLETED, u16::MAX)
        };
        status.sprog = progress.into();
        status.sstat = u16::from(state.0).into();
        status.scdw10 = sanitize.cdw10.into();
        status.overwrite_s = u32::MAX.into();
        status.block_erase_s = u32::MAX.into();
        status.crypto_erase_s = u32::MAX.into();
        status
    }
}

fn firmware_slots() -> FirmwareSlots {
    let mut slots = FirmwareSlots::new_zeroed();
    slots.afi = 1;
    slots.revisions[0] = Ascii::from_text(super::identify::FIRMWARE);
    slots
}

/// Thousands of 512-byte units.
const DATA_UNIT_BYTES: u128 = 512_000;
