//! How a controller is driven: CC, CSTS, AQA and NSSR.

use crate::types::PageSize;
use bitfield_struct::bitfield;

/// CC, the controller configuration (figure "Offset 14h: CC – Controller Configuration").
///
/// CSS, MPS, AMS, IOSQES and IOCQES may change only while EN is clear.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cc {
    /// EN: the controller processes commands.
    pub en: bool,
    #[bits(3)]
    __: u8,
    /// CSS: the command sets in use.
    #[bits(3)]
    pub css: CommandSetSelect,
    /// MPS: the page size, `2^(12 + n)` bytes.
    #[bits(4)]
    pub mps: u8,
    /// AMS: the arbitration mechanism, 0 for round robin, 1 for weighted round robin with urgent.
    #[bits(3)]
    pub ams: u8,
    /// SHN: the shutdown that is wanted.
    #[bits(2)]
    pub shn: ShutdownNotification,
    /// IOSQES: the size of an I/O submission queue entry, `2^n` bytes: 6.
    #[bits(4)]
    pub iosqes: u8,
    /// IOCQES: the size of an I/O completion queue entry, `2^n` bytes: 4.
    #[bits(4)]
    pub iocqes: u8,
    /// CRIME: become ready independently of the media.
    pub crime: bool,
    #[bits(7)]
    __: u8,
}

impl Cc {
    /// The configuration of every driver: `page`, the NVM command set, entries of 64 and 16 bytes, EN clear.
    #[must_use]
    pub const fn for_page(page: PageSize) -> Self {
        Self::new().with_mps(page.exponent()).with_iosqes(6).with_iocqes(4)
    }

    /// The page size.
    #[must_use]
    pub const fn page(&self) -> PageSize {
        match PageSize::from_exponent(self.mps()) {
            Some(page) => page,
            None => PageSize::MIN,
        }
    }
}

open_enum! {
    /// `CC.CSS`, the I/O command sets in use.
    CommandSetSelect(u8) {
        NVM = 0, "NVM command set";
        ALL = 6, "all supported I/O command sets";
        ADMIN_ONLY = 7, "admin command set only";
    }
}

open_enum! {
    /// `CC.SHN`, the shutdown that is wanted.
    ShutdownNotification(u8) {
        NONE = 0, "no shutdown";
        NORMAL = 1, "normal shutdown";
        ABRUPT = 2, "abrupt shutdown";
    }
}

/// CSTS, the controller status (figure "Offset 1Ch: CSTS – Controller Status").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Csts {
    /// RDY: the controller takes commands.
    pub rdy: bool,
    /// CFS: the controller met a fatal error and needs a reset.
    pub cfs: bool,
    /// SHST: how far a shutdown has come.
    #[bits(2)]
    pub shst: ShutdownStatus,
    /// NSSRO: an NVM subsystem reset occurred while power was on; cleared by writing 1.
    pub nssro: bool,
    /// PP: command processing is paused.
    pub pp: bool,
    /// ST: the shutdown that SHST tells of is one of the NVM subsystem, not of this controller alone.
    pub st: bool,
    #[bits(25)]
    __: u32,
}

impl Csts {
    /// Whether the register reads as all ones, so that the device is gone. It must end every wait.
    #[inline]
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.into_bits() == super::GONE_32
    }
}

open_enum! {
    /// `CSTS.SHST`, how far a shutdown has come.
    ShutdownStatus(u8) {
        NONE = 0, "normal operation";
        IN_PROGRESS = 1, "shutdown in progress";
        COMPLETE = 2, "shutdown complete";
    }
}

/// AQA, the sizes of the admin queues (figure "Offset 24h: AQA – Admin Queue Attributes").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Aqa {
    /// ASQS: the entries of the admin submission queue, 0's based.
    #[bits(12)]
    pub asqs_z: u16,
    #[bits(4)]
    __: u8,
    /// ACQS: the entries of the admin completion queue, 0's based.
    #[bits(12)]
    pub acqs_z: u16,
    #[bits(4)]
    __: u8,
}

impl Aqa {
    /// The register for queues of so many entries. `None` outside 2 to 4096.
    #[must_use]
    pub const fn for_entries(asq_entries: u32, acq_entries: u32) -> Option<Self> {
        if !is_admin_size(asq_entries) || !is_admin_size(acq_entries) {
            return None;
        }
        Some(Self::new().with_asqs_z((asq_entries - 1) as u16).with_acqs_z((acq_entries - 1) as u16))
    }

    /// The number of entries of the admin submission queue.
    #[must_use]
    pub const fn asq_entries(&self) -> u32 {
        self.asqs_z() as u32 + 1
    }

    /// The number of entries of the admin completion queue.
    #[must_use]
    pub const fn acq_entries(&self) -> u32 {
        self.acqs_z() as u32 + 1
    }
}

const fn is_admin_size(entries: u32) -> bool {
    entries >= 2 && entries <= 4096
}

/// What resets the NVM subsystem when written to NSSR: "NVMe" in ASCII.
pub const NSSR_RESET: u32 = 0x4e56_4d65;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_fields_stand_where_the_figure_has_them() {
        let fields = [
            (Cc::new().with_en(true), 1),
            (Cc::new().with_css(CommandSetSelect::ADMIN_ONLY), 7 << 4),
            (Cc::new().with_mps(0xf), 0xf << 7),
            (Cc::new().with_ams(7), 7 << 11),
            (Cc::new().with_shn(ShutdownNotification::ABRUPT), 2 << 14),
            (Cc::new().with_iosqes(0xf), 0xf << 16),
            (Cc::new().with_iocqes(0xf), 0xf << 20),
            (Cc::new().with_crime(true), 1 << 24),
        ];
        for (cc, bits) in fields {
            assert_eq!(cc.into_bits(), bits, "{cc:?}");
        }
        assert_eq!(Cc::for_page(PageSize::MIN).into_bits(), 0x0046_0000);
        let kib16 = PageSize::from_exponent(2).unwrap();
        assert_eq!(Cc::for_page(kib16).page(), kib16);
    }

    #[test]
    fn status_fields_stand_where_the_figure_has_them() {
        let csts = Csts::from_bits(0b0001_1011);
        assert!(csts.rdy() && csts.cfs() && csts.nssro() && !csts.pp() && !csts.st());
        assert_eq!(csts.shst(), ShutdownStatus::COMPLETE);
        assert_eq!(Csts::new().with_pp(true).with_st(true).into_bits(), 0b0110_0000);
        assert!(Csts::from_bits(u32::MAX).is_gone());
        assert!(!Csts::from_bits(u32::MAX - 1).is_gone());
    }

    /// QEMU's first driver wrote 128 for 128 entries.
    #[test]
    fn admin_queue_sizes_are_zero_based() {
        assert_eq!(Aqa::for_entries(128, 2).unwrap().into_bits(), 1 << 16 | 127);
        let largest = Aqa::for_entries(4096, 4096).unwrap();
        assert_eq!(largest.into_bits(), 0x0fff_0fff);
        assert_eq!((largest.asq_entries(), largest.acq_entries()), (4096, 4096));
        for (asq, acq) in [(1, 2), (2, 1), (0, 2), (4097, 2), (2, 4097), (u32::MAX, 2)] {
            assert_eq!(Aqa::for_entries(asq, acq), None);
        }
    }
}
