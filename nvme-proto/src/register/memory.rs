//! Memory that a controller lends: the controller memory buffer and the persistent memory region.

use crate::types::BusAddr;
use bitfield_struct::bitfield;

/// CMBLOC, where the controller memory buffer is (figure "Offset 38h: CMBLOC").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cmbloc {
    /// BIR: the BAR that holds the buffer, which need not be BAR 0.
    #[bits(3)]
    pub bir: u8,
    /// CQMMS: queues may lie partly in the buffer.
    pub cqmms: bool,
    /// CQPDS: queues may lie anywhere in the buffer.
    pub cqpds: bool,
    /// CDPMLS: the buffer may hold pointer lists whose command lies in host memory.
    pub cdpmls: bool,
    /// CDPCILS: a command's lists may mix buffer and host memory.
    pub cdpcils: bool,
    /// CDMMMS: a command's data and metadata may mix buffer and host memory.
    pub cdmmms: bool,
    /// CQDA: queues in the buffer need dword alignment only.
    pub cqda: bool,
    #[bits(3)]
    __: u8,
    /// OFST: the distance from the start of the BAR, in the units of `CMBSZ.SZU`.
    #[bits(20)]
    pub ofst: u32,
}

impl Cmbloc {
    /// The distance of the buffer from the start of its BAR, in bytes. `None` for a reserved unit.
    ///
    /// OFST counts in the units of CMBSZ: libvfn took it for bytes.
    #[must_use]
    pub const fn offset_bytes(&self, cmbsz: Cmbsz) -> Option<u64> {
        scaled(self.ofst(), cmbsz.unit_bytes())
    }
}

/// CMBSZ, the size of the controller memory buffer and what may lie in it (figure "Offset 3Ch: CMBSZ").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cmbsz {
    /// SQS: submission queues may lie in the buffer.
    pub sqs: bool,
    /// CQS: completion queues may.
    pub cqs: bool,
    /// LISTS: PRP lists and SGL segments may.
    pub lists: bool,
    /// RDS: data that a command returns may.
    pub rds: bool,
    /// WDS: data that a command takes may.
    pub wds: bool,
    #[bits(3)]
    __: u8,
    /// SZU: the unit, `2^(12 + 4 · n)` bytes: 4 KiB to 64 GiB for 0 to 6.
    #[bits(4)]
    pub szu: u8,
    /// SZ: the size in units; 0 for no buffer.
    #[bits(20)]
    pub sz: u32,
}

impl Cmbsz {
    /// The unit of SZ and of `CMBLOC.OFST` in bytes. `None` for the reserved values above 6.
    #[must_use]
    pub const fn unit_bytes(&self) -> Option<u64> {
        if self.szu() > 6 { None } else { Some(1 << (12 + 4 * self.szu())) }
    }

    /// The size in bytes, which may be more than the BAR has left. `None` for a reserved unit.
    #[must_use]
    pub const fn size_bytes(&self) -> Option<u64> {
        scaled(self.sz(), self.unit_bytes())
    }
}

/// 20 bits times at most 2^36 do not overflow.
const fn scaled(count: u32, unit_bytes: Option<u64>) -> Option<u64> {
    match unit_bytes {
        Some(unit) => Some(count as u64 * unit),
        None => None,
    }
}

/// CMBMSC, which puts the controller memory buffer into the controller's address space (figure "Offset 50h").
///
/// It is written in two halves, the upper one first, since the lower one holds the enable bits.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Cmbmsc {
    /// CRE: CMBLOC and CMBSZ tell the truth instead of zero.
    pub cre: bool,
    /// CMSE: addresses from CBA on reach the buffer.
    pub cmse: bool,
    #[bits(10)]
    __: u16,
    /// CBA: bits 63:12 of the address.
    #[bits(52)]
    pub cba: u64,
}

impl Cmbmsc {
    /// The bus address at which the controller sees its buffer.
    #[must_use]
    pub const fn base(&self) -> BusAddr {
        BusAddr(self.cba() << 12)
    }
}

/// CMBSTS, the status of the controller memory buffer (figure "Offset 58h: CMBSTS").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cmbsts {
    /// CBAI: `CMBMSC.CBA` is not one that the controller can use.
    pub cbai: bool,
    #[bits(31)]
    __: u32,
}

/// PMRCAP, the capabilities of the persistent memory region (figure "Offset E00h: PMRCAP").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Pmrcap {
    #[bits(3)]
    __: u8,
    /// RDS: data that a command returns may lie in the region.
    pub rds: bool,
    /// WDS: data that a command takes may.
    pub wds: bool,
    /// BIR: the BAR that holds the region.
    #[bits(3)]
    pub bir: u8,
    /// PMRTU: the unit of PMRTO, 0 for 500 ms, 1 for minutes.
    #[bits(2)]
    pub pmrtu: u8,
    /// PMRWBM: what makes writes persistent: bit 0 a read, bit 1 a read of PMRSTS.
    #[bits(4)]
    pub pmrwbm: u8,
    #[bits(2)]
    __: u8,
    /// PMRTO: the worst time for the region to become ready, in units of PMRTU.
    pub pmrto: u8,
    /// CMSS: PMRMSC is supported.
    pub cmss: bool,
    #[bits(7)]
    __: u8,
}

/// PMRSTS, the status of the persistent memory region (figure "Offset E08h: PMRSTS").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Pmrsts {
    /// ERR: 0 while all writes were persistent.
    pub err: u8,
    /// NRDY: the region is not ready.
    pub nrdy: bool,
    /// HSTS: its health, 0 for normal.
    #[bits(3)]
    pub hsts: u8,
    /// CBAI: the address in PMRMSC is not one that the controller can use.
    pub cbai: bool,
    #[bits(19)]
    __: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_scaled_by_its_unit() {
        let cmbsz = Cmbsz::from_bits(0x0001_0000 | 1 << 8 | 0b10001);
        assert!(cmbsz.sqs() && cmbsz.wds() && !cmbsz.cqs());
        assert_eq!(cmbsz.size_bytes(), Some(16 << 16));
        let cmbloc = Cmbloc::from_bits(0x0000_3002);
        assert_eq!((cmbloc.bir(), cmbloc.offset_bytes(cmbsz)), (2, Some(3 << 16)));
    }

    #[test]
    fn reserved_units_are_no_size() {
        let largest = Cmbsz::new().with_szu(6).with_sz(0xf_ffff);
        assert_eq!(largest.size_bytes(), Some(0xf_ffff << 36));
        assert_eq!(Cmbsz::new().with_szu(7).size_bytes(), None);
        assert_eq!(Cmbloc::new().offset_bytes(Cmbsz::from_bits(u32::MAX)), None);
    }

    #[test]
    fn memory_fields_stand_where_the_figures_have_them() {
        let cmbmsc = Cmbmsc::from_bits(0x1234_5678_9abc_d003);
        assert!(cmbmsc.cre() && cmbmsc.cmse());
        assert_eq!(cmbmsc.base(), BusAddr(0x1234_5678_9abc_d000));
        let pmrcap = Pmrcap::from_bits(1 << 24 | 7 << 16 | 2 << 10 | 1 << 8 | 5 << 5 | 1 << 4);
        assert_eq!((pmrcap.cmss(), pmrcap.pmrto(), pmrcap.pmrwbm()), (true, 7, 2));
        assert_eq!((pmrcap.pmrtu(), pmrcap.bir(), pmrcap.wds(), pmrcap.rds()), (1, 5, true, false));
        let pmrsts = Pmrsts::from_bits(1 << 12 | 3 << 9 | 1 << 8 | 2);
        assert_eq!((pmrsts.cbai(), pmrsts.hsts(), pmrsts.nrdy(), pmrsts.err()), (true, 3, true, 2));
    }
}
