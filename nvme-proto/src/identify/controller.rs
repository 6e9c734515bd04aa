//! Identify Controller, CNS 01h.

use super::ascii::Ascii;
use super::flags::{
    Cmic, ControllerType, Ctratt, EntrySizes, Fna, Frmw, Lpa, Oacs, Oaes, Oncs, Sanicap, Sgls, Vwc,
};
use super::power::PowerState;
use crate::register::Vs;
use crate::types::PageSize;
use static_assertions::const_assert_eq;
use zerocopy::little_endian::{U16, U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Identify Controller, 4096 bytes (figure "Identify Controller Data Structure, I/O Command Set Independent").
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Controller {
    /// VID: the PCI vendor.
    pub vid: U16,
    /// SSVID: the PCI subsystem vendor.
    pub ssvid: U16,
    /// SN: the serial number.
    pub sn: Ascii<20>,
    /// MN: the model number.
    pub mn: Ascii<40>,
    /// FR: the firmware revision.
    pub fr: Ascii<8>,
    /// RAB: the recommended arbitration burst, `2^n` commands.
    pub rab: u8,
    /// IEEE: the vendor's OUI, least significant byte first.
    pub ieee: [u8; 3],
    /// CMIC: see [`cmic`](Self::cmic).
    pub cmic: u8,
    /// MDTS: see [`max_transfer_bytes`](Self::max_transfer_bytes).
    pub mdts: u8,
    /// CNTLID: the controller's identifier in its subsystem.
    pub cntlid: U16,
    /// VER: see [`version`](Self::version).
    pub ver: U32,
    /// RTD3R: the usual time to resume from runtime D3, in µs.
    pub rtd3r_us: U32,
    /// RTD3E: the usual time to enter runtime D3, in µs, and the time that a shutdown may take. 0 for not reported.
    pub rtd3e_us: U32,
    /// OAES: see [`oaes`](Self::oaes).
    pub oaes: U32,
    /// CTRATT: see [`ctratt`](Self::ctratt).
    pub ctratt: U32,
    /// RRLS: the read recovery levels that are supported, one bit each.
    pub rrls: U16,
    /// BPCAP: the boot partition capabilities.
    pub bpcap: u8,
    /// Reserved.
    pub reserved103: u8,
    /// NSSL: the longest NVM subsystem shutdown, in µs.
    pub nssl_us: U32,
    /// Reserved.
    pub reserved108: [u8; 2],
    /// PLSI: how power loss is signalled.
    pub plsi: u8,
    /// CNTRLTYPE: see [`controller_type`](Self::controller_type).
    pub cntrltype: u8,
    /// FGUID: the globally unique identifier of the FRU.
    pub fguid: [u8; 16],
    /// CRDT1 to CRDT3: the retry delays that CRD names, in units of 100 ms. See [`retry_delay_ms`](Self::retry_delay_ms).
    pub crdt: [U16; 3],
    /// CRCAP: the controller reachability capabilities.
    pub crcap: u8,
    /// Reserved.
    pub reserved135: [u8; 118],
    /// NVMSR: whether it is a storage device or an enclosure.
    pub nvmsr: u8,
    /// VWCI: how much of its vital product data may still be written.
    pub vwci: u8,
    /// MEC: the management endpoint capabilities.
    pub mec: u8,
    /// OACS: see [`oacs`](Self::oacs).
    pub oacs: U16,
    /// ACL: the number of Aborts that may be outstanding, 0's based.
    pub acl_z: u8,
    /// AERL: the number of Asynchronous Event Requests that may be outstanding, 0's based.
    pub aerl_z: u8,
    /// FRMW: see [`frmw`](Self::frmw).
    pub frmw: u8,
    /// LPA: see [`lpa`](Self::lpa).
    pub lpa: u8,
    /// ELPE: the entries of the error log, 0's based.
    pub elpe_z: u8,
    /// NPSS: the number of power states, 0's based.
    pub npss_z: u8,
    /// AVSCC: bit 0, vendor admin commands have the common format.
    pub avscc: u8,
    /// APSTA: bit 0, autonomous power state transitions are supported.
    pub apsta: u8,
    /// WCTEMP: the composite temperature from which on it warns, in kelvins.
    pub wctemp: U16,
    /// CCTEMP: the critical composite temperature, in kelvins.
    pub cctemp: U16,
    /// MTFA: the longest firmware activation, in units of 100 ms.
    pub mtfa: U16,
    /// HMPRE: the host memory buffer that it prefers, in units of 4 KiB.
    pub hmpre: U32,
    /// HMMIN: the host memory buffer that it needs at least, in units of 4 KiB.
    pub hmmin: U32,
    /// TNVMCAP: the total capacity in bytes.
    pub tnvmcap: U128,
    /// UNVMCAP: the capacity not given to a namespace, in bytes.
    pub unvmcap: U128,
    /// RPMBS: the replay protected memory blocks.
    pub rpmbs: U32,
    /// EDSTT: the time of an extended self-test, in minutes.
    pub edstt: U16,
    /// DSTO: the self-test options.
    pub dsto: u8,
    /// FWUG: the granularity of firmware pieces, in units of 4 KiB; FFh for none.
    pub fwug: u8,
    /// KAS: the granularity of the keep-alive timer, in units of 100 ms; 0 for no support.
    pub kas: U16,
    /// HCTMA: bit 0, host controlled thermal management is supported.
    pub hctma: U16,
    /// MNTMT: the lowest thermal management temperature, in kelvins.
    pub mntmt: U16,
    /// MXTMT: the highest thermal management temperature, in kelvins.
    pub mxtmt: U16,
    /// SANICAP: see [`sanicap`](Self::sanicap).
    pub sanicap: U32,
    /// HMMINDS: the smallest host memory buffer descriptor, in units of 4 KiB.
    pub hmminds: U32,
    /// HMMAXD: the largest number of host memory buffer descriptors.
    pub hmmaxd: U16,
    /// NSETIDMAX: the highest NVM set identifier.
    pub nsetidmax: U16,
    /// ENDGIDMAX: the highest endurance group identifier.
    pub endgidmax: U16,
    /// ANATT: the longest ANA transition, in seconds.
    pub anatt_s: u8,
    /// ANACAP: the asymmetric namespace access capabilities.
    pub anacap: u8,
    /// ANAGRPMAX: the highest ANA group identifier.
    pub anagrpmax: U32,
    /// NANAGRPID: the number of ANA groups.
    pub nanagrpid: U32,
    /// PELS: the size of the persistent event log, in units of 64 KiB.
    pub pels: U32,
    /// DOMID: the domain that the controller belongs to.
    pub domid: U16,
    /// KPIOC: the key per I/O capabilities.
    pub kpioc: u8,
    /// Reserved.
    pub reserved359: u8,
    /// MPTFAWR: the longest firmware activation without reset, in units of 100 ms.
    pub mptfawr: U16,
    /// Reserved.
    pub reserved362: [u8; 6],
    /// MEGCAP: the largest endurance group, in bytes.
    pub megcap: U128,
    /// TMPTHHA: the temperature threshold hysteresis attributes.
    pub tmpthha: u8,
    /// Reserved.
    pub reserved385: u8,
    /// CQT: the command quiesce time, in ms.
    pub cqt_ms: U16,
    /// Reserved.
    pub reserved388: [u8; 124],
    /// SQES: see [`sqes`](Self::sqes).
    pub sqes: u8,
    /// CQES: see [`cqes`](Self::cqes).
    pub cqes: u8,
    /// MAXCMD: the most commands outstanding on a queue, 0 for not reported.
    pub maxcmd: U16,
    /// NN: the highest namespace identifier. Identifiers may be sparse: list them with CNS 02h.
    pub nn: U32,
    /// ONCS: see [`oncs`](Self::oncs).
    pub oncs: U16,
    /// FUSES: bit 0, fused Compare and Write is supported.
    pub fuses: U16,
    /// FNA: see [`fna`](Self::fna).
    pub fna: u8,
    /// VWC: see [`vwc`](Self::vwc).
    pub vwc: u8,
    /// AWUN: the size of an atomic write in blocks, 0's based.
    pub awun_z: U16,
    /// AWUPF: the size of a write that is atomic across a power failure in blocks, 0's based.
    pub awupf_z: U16,
    /// ICSVSCC: bit 0, vendor I/O commands have the common format.
    pub icsvscc: u8,
    /// NWPC: the namespace write protection capabilities.
    pub nwpc: u8,
    /// ACWU: the size of an atomic Compare and Write in blocks, 0's based.
    pub acwu_z: U16,
    /// CDFS (once OCFS): the formats of Copy that are supported, one bit each.
    pub cdfs: U16,
    /// SGLS: see [`sgls`](Self::sgls).
    pub sgls: U32,
    /// MNAN: the largest number of namespaces, 0 for NN.
    pub mnan: U32,
    /// MAXDNA: the largest number of namespaces attached to the I/O controllers of the domain.
    pub maxdna: U128,
    /// MAXCNA: the largest number of namespaces attached to this controller.
    pub maxcna: U32,
    /// OAQD: the optimal aggregated depth of the queues.
    pub oaqd: U32,
    /// Reserved.
    pub reserved568: [u8; 200],
    /// SUBNQN: the qualified name of the NVM subsystem, padded with zeroes.
    pub subnqn: Ascii<256>,
    /// Reserved.
    pub reserved1024: [u8; 768],
    /// What concerns fabrics only.
    pub fabrics: [u8; 256],
    /// PSD0 to PSD31: see [`power_states`](Self::power_states).
    pub psd: [PowerState; 32],
    /// What the vendor puts there.
    pub vendor: [u8; 1024],
}

const_assert_eq!(size_of::<Controller>(), 4096);

macro_rules! offsets {
    ($($field:ident = $offset:literal),* $(,)?) => {
        $(const_assert_eq!(core::mem::offset_of!(Controller, $field), $offset);)*
    };
}

offsets! {
    vid = 0, ssvid = 2, sn = 4, mn = 24, fr = 64, rab = 72, ieee = 73, cmic = 76, mdts = 77, cntlid = 78, ver = 80,
    rtd3r_us = 84, rtd3e_us = 88, oaes = 92, ctratt = 96, cntrltype = 111, crdt = 128, oacs = 256, acl_z = 258,
    aerl_z = 259, frmw = 260, lpa = 261, elpe_z = 262, npss_z = 263, apsta = 265, wctemp = 266, hmpre = 272,
    hmmin = 276, tnvmcap = 280, kas = 320, sanicap = 328, anagrpmax = 344, megcap = 368, sqes = 512, cqes = 513,
    maxcmd = 514, nn = 516, oncs = 520, fuses = 522, fna = 524, vwc = 525, awun_z = 526, awupf_z = 528, acwu_z = 532,
    cdfs = 534, sgls = 536, mnan = 540, subnqn = 768, fabrics = 1792, psd = 2048, vendor = 3072,
}

impl Controller {
    /// The longest data transfer in bytes, with `min_page` from `Cap::min_page`: MDTS counts in the smallest page,
    /// not in the page that is set. `None` for no limit: MDTS of 0, or a limit that does not fit 64 bits.
    ///
    /// It includes interleaved metadata unless [`Ctratt::MDTS_EXCLUDES_METADATA`] is set.
    #[must_use]
    pub const fn max_transfer_bytes(&self, min_page: PageSize) -> Option<u64> {
        units_to_bytes(self.mdts, min_page)
    }

    /// The retry delay that CRD of a status names, in ms: 0 for CRD of 0 (and above 3, which no status has).
    #[must_use]
    pub fn retry_delay_ms(&self, crd: u8) -> u32 {
        let index = usize::from(crd).wrapping_sub(1);
        self.crdt.get(index).map_or(0, |units| u32::from(units.get()) * 100)
    }

    /// The power states that there are: 1 to 32.
    #[must_use]
    pub fn power_states(&self) -> &[PowerState] {
        let count = (usize::from(self.npss_z) + 1).min(self.psd.len());
        &self.psd[..count]
    }

    /// The version of the Base specification that the controller follows; 0.0.0 before 1.2.
    #[must_use]
    pub fn version(&self) -> Vs {
        Vs::from_bits(self.ver.get())
    }

    /// CMIC: how the NVM subsystem is shared.
    #[must_use]
    pub const fn cmic(&self) -> Cmic {
        Cmic::from_bits_retain(self.cmic)
    }

    /// OAES: the optional asynchronous events.
    #[must_use]
    pub fn oaes(&self) -> Oaes {
        Oaes::from_bits_retain(self.oaes.get())
    }

    /// CTRATT: attributes of the controller.
    #[must_use]
    pub fn ctratt(&self) -> Ctratt {
        Ctratt::from_bits_retain(self.ctratt.get())
    }

    /// CNTRLTYPE: what kind of controller it is.
    #[must_use]
    pub const fn controller_type(&self) -> ControllerType {
        ControllerType(self.cntrltype)
    }

    /// OACS: the optional admin commands.
    #[must_use]
    pub fn oacs(&self) -> Oacs {
        Oacs::from_bits_retain(self.oacs.get())
    }

    /// The number of Aborts that may be outstanding: 1 to 256.
    #[must_use]
    pub const fn abort_limit(&self) -> u32 {
        self.acl_z as u32 + 1
    }

    /// The number of Asynchronous Event Requests that may be outstanding: 1 to 256.
    #[must_use]
    pub const fn event_request_limit(&self) -> u32 {
        self.aerl_z as u32 + 1
    }

    /// The number of entries of the error log: 1 to 256.
    #[must_use]
    pub const fn error_log_entries(&self) -> u32 {
        self.elpe_z as u32 + 1
    }

    /// FRMW: firmware slots.
    #[must_use]
    pub const fn frmw(&self) -> Frmw {
        Frmw::from_bits(self.frmw)
    }

    /// LPA: what log pages can do.
    #[must_use]
    pub const fn lpa(&self) -> Lpa {
        Lpa::from_bits_retain(self.lpa)
    }

    /// SANICAP: what Sanitize can do.
    #[must_use]
    pub fn sanicap(&self) -> Sanicap {
        Sanicap::from_bits_retain(self.sanicap.get())
    }

    /// SQES: the sizes of submission queue entries.
    #[must_use]
    pub const fn sqes(&self) -> EntrySizes {
        EntrySizes::from_bits(self.sqes)
    }

    /// CQES: the sizes of completion queue entries.
    #[must_use]
    pub const fn cqes(&self) -> EntrySizes {
        EntrySizes::from_bits(self.cqes)
    }

    /// ONCS: the optional I/O commands and features.
    #[must_use]
    pub fn oncs(&self) -> Oncs {
        Oncs::from_bits_retain(self.oncs.get())
    }

    /// FNA: what Format NVM acts on.
    #[must_use]
    pub const fn fna(&self) -> Fna {
        Fna::from_bits_retain(self.fna)
    }

    /// VWC: the volatile write cache.
    #[must_use]
    pub const fn vwc(&self) -> Vwc {
        Vwc::from_bits(self.vwc)
    }

    /// SGLS: what SGLs the controller takes in I/O commands. Admin commands on PCIe take PRPs only.
    #[must_use]
    pub fn sgls(&self) -> Sgls {
        Sgls::from_bits(self.sgls.get())
    }
}

/// `2^n` smallest pages in bytes, as MDTS and its like count. `None` for 0, no limit, and for what does not fit.
pub(super) const fn units_to_bytes(n: u8, min_page: PageSize) -> Option<u64> {
    if n == 0 { None } else { 1_u64.checked_shl(n as u32 + min_page.shift()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identify::flags::FlushAll;
    use zerocopy::FromZeros;

    /// The uGDS C++ code took MDTS of 0 for 4 KiB, and shifted by 52 and more.
    #[test]
    fn mdts_by_table() {
        let kib8 = PageSize::from_exponent(1).unwrap();
        let cases = [
            (0, PageSize::MIN, None),
            (1, PageSize::MIN, Some(8192)),
            (5, PageSize::MIN, Some(128 << 10)),
            (5, kib8, Some(256 << 10)),
            (51, PageSize::MIN, Some(1 << 63)),
            (51, kib8, None),
            (52, PageSize::MIN, None),
            (255, PageSize::from_exponent(15).unwrap(), None),
        ];
        for (mdts, page, bytes) in cases {
            let controller = Controller { mdts, ..Controller::new_zeroed() };
            assert_eq!(controller.max_transfer_bytes(page), bytes, "{mdts} {page}");
        }
    }

    #[test]
    fn fields_are_read_from_their_bytes() {
        let mut bytes = [0; 4096];
        bytes[4..24].copy_from_slice(b"S4EWNX0R            ");
        bytes[80..84].copy_from_slice(&[0, 3, 1, 0]);
        bytes[88..92].copy_from_slice(&8_000_000_u32.to_le_bytes());
        bytes[130..132].copy_from_slice(&5_u16.to_le_bytes());
        bytes[256..258].copy_from_slice(&0x0116_u16.to_le_bytes());
        bytes[258..260].copy_from_slice(&[3, 7]);
        bytes[520..522].copy_from_slice(&0x0104_u16.to_le_bytes());
        bytes[525] = 7;
        bytes[2048..2050].copy_from_slice(&850_u16.to_le_bytes());
        let controller = Controller::read_from_bytes(&bytes).unwrap();
        assert_eq!(controller.sn.as_str(), "S4EWNX0R");
        assert_eq!((controller.version(), controller.rtd3e_us.get()), (Vs::of(1, 3, 0), 8_000_000));
        let oacs = Oacs::FORMAT | Oacs::FIRMWARE | Oacs::SELF_TEST | Oacs::DOORBELL_BUFFER;
        assert_eq!((controller.oacs(), controller.oncs()), (oacs, Oncs::DATASET_MANAGEMENT | Oncs::COPY));
        assert_eq!((controller.abort_limit(), controller.event_request_limit()), (4, 8));
        assert_eq!((controller.vwc().present(), controller.vwc().flush_all()), (true, FlushAll::SUPPORTED));
        assert_eq!(controller.power_states()[0].max_power_uw(), 8_500_000);
        assert_eq!([0, 1, 2, 3, 4, 255].map(|crd| controller.retry_delay_ms(crd)), [0, 0, 500, 0, 0, 0]);
    }

    #[test]
    fn a_device_cannot_claim_more_power_states_than_there_are() {
        let controller = Controller { npss_z: 255, ..Controller::new_zeroed() };
        assert_eq!(controller.power_states().len(), 32);
    }
}
