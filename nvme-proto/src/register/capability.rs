//! What a controller can do: CAP, VS and CRTO.

use crate::types::PageSize;
use bitfield_struct::bitfield;
use core::fmt;

/// CAP, the controller capabilities (figure "Offset 0h: CAP – Controller Capabilities").
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Cap {
    /// MQES: the largest I/O queue in entries, 0's based.
    pub mqes_z: u16,
    /// CQR: I/O queues have to be physically contiguous.
    pub cqr: bool,
    /// AMS: bit 0 weighted round robin with urgent, bit 1 vendor specific.
    #[bits(2)]
    pub ams: u8,
    #[bits(5)]
    __: u8,
    /// TO: the worst time for `CSTS.RDY` to follow `CC.EN`, in units of 500 ms.
    pub to: u8,
    /// DSTRD: doorbells stand `4 << DSTRD` bytes apart.
    #[bits(4)]
    pub dstrd: u8,
    /// NSSRS: NVM subsystem reset is supported.
    pub nssrs: bool,
    /// CSS: the command sets, as [`command_sets`](Self::command_sets) tells them.
    pub css: u8,
    /// BPS: boot partitions are supported.
    pub bps: bool,
    /// CPS: the controller power scope.
    #[bits(2)]
    pub cps: u8,
    /// MPSMIN: the smallest page, `2^(12 + n)` bytes.
    #[bits(4)]
    pub mpsmin: u8,
    /// MPSMAX: the largest page, `2^(12 + n)` bytes.
    #[bits(4)]
    pub mpsmax: u8,
    /// PMRS: there is a persistent memory region.
    pub pmrs: bool,
    /// CMBS: there is a controller memory buffer, told by CMBLOC and CMBSZ once CMBMSC enables it.
    pub cmbs: bool,
    /// NSSS: NVM subsystem shutdown is supported.
    pub nsss: bool,
    /// CRWMS: the controller can become ready with its media, and CRTO tells how long that takes.
    pub crwms: bool,
    /// CRIMS: the controller can become ready independently of its media.
    pub crims: bool,
    #[bits(3)]
    __: u8,
}

impl Cap {
    /// The largest number of entries of an I/O queue: 1 to 65 536.
    ///
    /// The specification allows no less than 2; a device that reports 1 (MQES of 0) needs a quirk.
    #[must_use]
    pub const fn max_queue_entries(&self) -> u32 {
        self.mqes_z() as u32 + 1
    }

    /// The time to wait for `CSTS.RDY` by TO alone, in ms. TO of 0 is legal and counts as one unit of 500 ms.
    #[must_use]
    pub const fn ready_timeout_ms(&self) -> u32 {
        let units = self.to() as u32;
        if units == 0 { 500 } else { units * 500 }
    }

    /// The time to wait for `CSTS.RDY` in ms: the larger of TO and, where it counts (CRWMS), of `crto`.
    #[must_use]
    pub const fn ready_timeout_with_crto_ms(&self, crto: Crto) -> u32 {
        let (to, crwmt) = (self.ready_timeout_ms(), crto.crwmt() as u32 * 500);
        if self.crwms() && crwmt > to { crwmt } else { to }
    }

    /// The distance of two doorbells in bytes.
    #[must_use]
    pub const fn doorbell_stride(&self) -> u32 {
        super::doorbell_stride(self.dstrd())
    }

    /// The smallest page that `CC.MPS` may say, which is also the unit of MDTS.
    #[must_use]
    pub const fn min_page(&self) -> PageSize {
        page(self.mpsmin())
    }

    /// The largest page that `CC.MPS` may say.
    #[must_use]
    pub const fn max_page(&self) -> PageSize {
        page(self.mpsmax())
    }

    /// The command sets that are supported.
    #[must_use]
    pub const fn command_sets(&self) -> CommandSets {
        CommandSets::from_bits_retain(self.css())
    }

    /// Whether the register reads as all ones, so that the device is gone.
    #[inline]
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.into_bits() == super::GONE_64
    }
}

/// The page of a four-bit field, which cannot be out of range.
const fn page(exponent: u8) -> PageSize {
    match PageSize::from_exponent(exponent & 0xf) {
        Some(page) => page,
        None => PageSize::MIN,
    }
}

bitflags::bitflags! {
    /// `CAP.CSS`, the command sets that a controller supports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CommandSets: u8 {
        /// The NVM command set (CAP bit 37).
        const NVM = 1 << 0;
        /// One or more I/O command sets, told by Identify CNS 1Ch (CAP bit 43).
        const IO_COMMAND_SETS = 1 << 6;
        /// No I/O command set: admin commands only (CAP bit 44).
        const ADMIN_ONLY = 1 << 7;
    }
}

/// CRTO, the controller ready timeouts (figure "Offset 68h: CRTO – Controller Ready Timeouts").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Crto {
    /// CRWMT: the worst time to become ready with media, in units of 500 ms.
    pub crwmt: u16,
    /// CRIMT: the worst time to become ready independent of media, in units of 500 ms.
    pub crimt: u16,
}

/// VS, a version of the Base specification (figure "Offset 8h: VS – Version"). Also VER of Identify Controller.
#[bitfield(u32)]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Vs {
    /// TER: the tertiary version.
    pub ter: u8,
    /// MNR: the minor version.
    pub mnr: u8,
    /// MJR: the major version.
    pub mjr: u16,
}

impl Vs {
    /// The version `major.minor.tertiary`, in ascending order when compared.
    #[must_use]
    pub const fn of(major: u16, minor: u8, tertiary: u8) -> Self {
        Self::new().with_mjr(major).with_mnr(minor).with_ter(tertiary)
    }
}

impl fmt::Display for Vs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.mjr(), self.mnr(), self.ter())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn fields_stand_where_the_figure_has_them() {
        let fields = [
            (Cap::new().with_mqes_z(0xffff), 0xffff),
            (Cap::new().with_cqr(true), 1 << 16),
            (Cap::new().with_ams(0b11), 0b11 << 17),
            (Cap::new().with_to(0xff), 0xff << 24),
            (Cap::new().with_dstrd(0xf), 0xf << 32),
            (Cap::new().with_nssrs(true), 1 << 36),
            (Cap::new().with_css(CommandSets::NVM.bits()), 1 << 37),
            (Cap::new().with_css(CommandSets::IO_COMMAND_SETS.bits()), 1 << 43),
            (Cap::new().with_css(CommandSets::ADMIN_ONLY.bits()), 1 << 44),
            (Cap::new().with_bps(true), 1 << 45),
            (Cap::new().with_cps(0b11), 0b11 << 46),
            (Cap::new().with_mpsmin(0xf), 0xf << 48),
            (Cap::new().with_mpsmax(0xf), 0xf << 52),
            (Cap::new().with_pmrs(true), 1 << 56),
            (Cap::new().with_cmbs(true), 1 << 57),
            (Cap::new().with_nsss(true), 1 << 58),
            (Cap::new().with_crwms(true), 1 << 59),
            (Cap::new().with_crims(true), 1_u64 << 60),
        ];
        for (cap, bits) in fields {
            assert_eq!(cap.into_bits(), bits, "{cap:?}");
        }
    }

    #[test]
    fn extremes_convert() {
        let gone = Cap::from_bits(u64::MAX);
        assert!(gone.is_gone());
        assert_eq!(gone.max_queue_entries(), 65_536);
        assert_eq!(gone.doorbell_stride(), 4 << 15);
        assert_eq!(gone.max_page().exponent(), 15);
        let zero = Cap::new();
        assert!(!zero.is_gone());
        assert_eq!((zero.max_queue_entries(), zero.ready_timeout_ms()), (1, 500));
        assert_eq!((zero.doorbell_stride(), zero.min_page()), (4, PageSize::MIN));
    }

    #[test]
    fn crto_counts_only_when_it_is_longer_and_supported() {
        let cap = Cap::new().with_to(10);
        let with_media = cap.with_crwms(true);
        let crto = |units| Crto::new().with_crwmt(units).with_crimt(0xffff);
        assert_eq!(cap.ready_timeout_with_crto_ms(crto(20)), 5000);
        assert_eq!(with_media.ready_timeout_with_crto_ms(crto(20)), 10_000);
        assert_eq!(with_media.ready_timeout_with_crto_ms(crto(0)), 5000);
        assert_eq!(with_media.ready_timeout_with_crto_ms(crto(0xffff)), 0xffff * 500);
    }

    #[test]
    fn versions_compare_and_print() {
        assert_eq!(Vs::from_bits(0x0001_0400).to_string(), "1.4.0");
        assert!(Vs::of(1, 4, 0) < Vs::of(2, 0, 0) && Vs::of(1, 2, 1) > Vs::of(1, 2, 0));
    }
}
