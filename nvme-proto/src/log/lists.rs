//! Firmware slots, LID 03h, and changed namespaces, LID 04h.

use crate::identify::{Ascii, NamespaceList};
use crate::types::Nsid;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Firmware slot information, 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FirmwareSlots {
    /// AFI: see [`active_slot`](Self::active_slot) and [`next_slot`](Self::next_slot).
    pub afi: u8,
    /// Reserved.
    pub reserved1: [u8; 7],
    /// FRS1 to FRS7: the revision in each slot; zeroes for an empty one.
    pub revisions: [Ascii<8>; 7],
    /// Reserved.
    pub reserved64: [u8; 448],
}

static_assertions::const_assert_eq!(size_of::<FirmwareSlots>(), 512);
static_assertions::const_assert_eq!(core::mem::offset_of!(FirmwareSlots, revisions), 8);

impl FirmwareSlots {
    /// The slot that runs: 1 to 7.
    #[must_use]
    pub const fn active_slot(&self) -> u8 {
        self.afi & 0b111
    }

    /// The slot that runs after the next reset. `None` where it is not reported.
    #[must_use]
    pub const fn next_slot(&self) -> Option<u8> {
        match self.afi >> 4 & 0b111 {
            0 => None,
            slot => Some(slot),
        }
    }

    /// The revision in `slot`, 1 to 7. `None` for an empty slot and for one that cannot be.
    #[must_use]
    pub fn revision(&self, slot: u8) -> Option<&Ascii<8>> {
        let revision = self.revisions.get(usize::from(slot).wrapping_sub(1))?;
        (revision.0 != [0; 8]).then_some(revision)
    }
}

/// The namespaces that changed since the log was last read, 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct ChangedNamespaces {
    /// The identifiers; FFFFFFFFh in the first place when there are more than 1024.
    pub list: NamespaceList,
}

/// What a [`ChangedNamespaces`] says.
#[derive(Debug)]
pub enum Changes<I> {
    /// More than the list can hold: look at every namespace.
    TooMany,
    /// These.
    These(I),
}

impl ChangedNamespaces {
    /// Which namespaces changed.
    #[must_use]
    pub fn changes(&self) -> Changes<impl Iterator<Item = Nsid> + '_> {
        if self.list.entries[0].get() == Nsid::ALL.0 {
            Changes::TooMany
        } else {
            Changes::These(self.list.iter())
        }
    }

    /// The log that says that there are too many.
    #[must_use]
    pub const fn too_many() -> Self {
        let mut entries = [U32::ZERO; 1024];
        entries[0] = U32::new(Nsid::ALL.0);
        Self { list: NamespaceList { entries } }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn firmware_slots_by_the_figure() {
        let mut bytes = [0; 512];
        bytes[0] = 0x21;
        bytes[16..24].copy_from_slice(b"GXA7301Q");
        let slots = FirmwareSlots::read_from_bytes(&bytes).unwrap();
        assert_eq!((slots.active_slot(), slots.next_slot()), (1, Some(2)));
        assert_eq!(slots.revision(2).unwrap().as_str(), "GXA7301Q");
        assert_eq!([0, 1, 7, 8, 255].map(|slot| slots.revision(slot)), [None; 5]);
        assert_eq!(FirmwareSlots { afi: 1, ..slots }.next_slot(), None);
    }

    /// SPDK took the overflow mark for a namespace (#2647).
    #[test]
    fn an_overflow_is_not_a_namespace() {
        assert!(matches!(ChangedNamespaces::too_many().changes(), Changes::TooMany));
        let mut some = ChangedNamespaces { list: NamespaceList { entries: [U32::ZERO; 1024] } };
        let nsids = |log: &ChangedNamespaces| match log.changes() {
            Changes::These(nsids) => nsids.map(|nsid| nsid.0).collect::<Vec<_>>(),
            Changes::TooMany => panic!("{log:?}"),
        };
        assert_eq!(nsids(&some), []);
        some.list.entries[..2].copy_from_slice(&[3.into(), 8.into()]);
        assert_eq!(nsids(&some), [3, 8]);
    }
}
