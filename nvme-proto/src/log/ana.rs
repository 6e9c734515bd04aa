//! The asymmetric namespace access log, LID 0Ch: a header, then groups of varying length.

use crate::types::Nsid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Ref};

/// The header, 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AnaHeader {
    /// CHGCNT: how often the log changed.
    pub chgcnt: U64,
    /// NAGD: the number of groups that follow.
    pub nagd: U16,
    /// Reserved.
    pub reserved10: [u8; 6],
}

static_assertions::const_assert_eq!(size_of::<AnaHeader>(), 16);
static_assertions::const_assert_eq!(core::mem::offset_of!(AnaHeader, nagd), 8);

/// The fixed part of a group, 32 bytes; its namespaces follow, 4 bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AnaGroup {
    /// AGID: the group's identifier.
    pub agid: U32,
    /// NNSV: the number of namespaces that follow.
    pub nnsv: U32,
    /// CHGCNT: how often this entry changed.
    pub chgcnt: U64,
    /// The state in bits 3:0.
    pub state: u8,
    /// Reserved.
    pub reserved17: [u8; 15],
}

static_assertions::const_assert_eq!(size_of::<AnaGroup>(), 32);
static_assertions::const_assert_eq!(core::mem::offset_of!(AnaGroup, state), 16);

impl AnaHeader {
    /// The header of a log and an iterator over its groups with their namespaces. The groups end at the number that
    /// the header tells, or where the next one would pass the end of `log`. `None` when not even the header fits.
    #[must_use]
    pub fn parse(log: &[u8]) -> Option<(Self, impl Iterator<Item = (AnaGroup, impl Iterator<Item = Nsid>)>)> {
        let (header, mut rest) = Self::read_from_prefix(log).ok()?;
        let groups = core::iter::from_fn(move || {
            let (group, nsids, behind) = split_group(rest)?;
            rest = behind;
            Some((group, nsids.iter().map(|nsid| Nsid(nsid.get()))))
        });
        Some((header, groups.take(header.nagd.get().into())))
    }
}

fn split_group(bytes: &[u8]) -> Option<(AnaGroup, &[U32], &[u8])> {
    let (group, behind) = AnaGroup::read_from_prefix(bytes).ok()?;
    let count = usize::try_from(group.nnsv.get()).ok()?;
    let (nsids, rest) = Ref::<_, [U32]>::from_prefix_with_elems(behind, count).ok()?;
    Some((group, Ref::into_ref(nsids), rest))
}

impl AnaGroup {
    /// The state of the group as this controller sees it.
    #[must_use]
    pub const fn state(&self) -> AnaState {
        AnaState(self.state & 0xf)
    }
}

open_enum! {
    /// The state of an ANA group.
    AnaState(u8) {
        OPTIMIZED = 0x1, "optimized";
        NON_OPTIMIZED = 0x2, "non-optimized";
        INACCESSIBLE = 0x3, "inaccessible";
        PERSISTENT_LOSS = 0x4, "persistent loss";
        CHANGE = 0xf, "change";
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn log(nagd: u16, groups: &[(u32, &[u32])]) -> Vec<u8> {
        let mut log = AnaHeader { nagd: nagd.into(), ..AnaHeader::default() }.as_bytes().to_vec();
        for (nnsv, nsids) in groups {
            let group = AnaGroup { agid: 1.into(), nnsv: (*nnsv).into(), state: 0xf2, ..AnaGroup::default() };
            log.extend(group.as_bytes());
            nsids.iter().for_each(|nsid| log.extend(nsid.to_le_bytes()));
        }
        log
    }

    fn nsids(log: &[u8]) -> Vec<Vec<u32>> {
        let (_, groups) = AnaHeader::parse(log).unwrap();
        groups.map(|(_, nsids)| nsids.map(|nsid| nsid.0).collect()).collect()
    }

    #[test]
    fn groups_end_where_the_log_does() {
        let two: [(u32, &[u32]); 2] = [(2, &[1, 2]), (1, &[7])];
        assert_eq!(nsids(&log(2, &two)), [[1, 2].to_vec(), [7].to_vec()]);
        assert_eq!(nsids(&log(1, &two)).len(), 1);
        assert_eq!(nsids(&log(u16::MAX, &two)).len(), 2);
        assert_eq!(nsids(&log(2, &[(2, &[1, 2]), (u32::MAX, &[7])])), [[1, 2]]);
        assert!(AnaHeader::parse(&[0; 15]).is_none());
    }

    #[test]
    fn a_state_is_four_bits() {
        let log = log(1, &[(0, &[])]);
        let (header, mut groups) = AnaHeader::parse(&log).unwrap();
        assert_eq!((header.nagd.get(), groups.next().unwrap().0.state()), (1, AnaState::NON_OPTIMIZED));
    }
}
