//! The lists: namespaces, controllers, and the identifiers of a namespace.

use crate::types::{Csi, Nsid};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A list of up to 1024 namespaces, 4096 bytes (CNS 02h, 07h, 10h and 1Ah).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NamespaceList {
    /// The identifiers in ascending order, then zeroes.
    pub entries: [U32; 1024],
}

static_assertions::const_assert_eq!(size_of::<NamespaceList>(), 4096);

impl NamespaceList {
    /// The namespaces. The list ends at 0, at the end of the page, or where it stops ascending or names the
    /// broadcast value: then the device is wrong.
    pub fn iter(&self) -> impl Iterator<Item = Nsid> + '_ {
        let mut last = 0;
        self.entries.iter().map(|entry| Nsid(entry.get())).take_while(move |nsid| {
            let goes_on = nsid.is_single() && nsid.0 > last;
            last = nsid.0;
            goes_on
        })
    }

    /// The namespace to start the next list after: the last one, when the page is full. `None` when it is not, so
    /// that there are no more. Each step goes up, whatever the device says.
    #[must_use]
    pub fn next_after(&self) -> Option<Nsid> {
        self.iter().nth(self.entries.len() - 1)
    }
}

/// A list of up to 2047 controllers, 4096 bytes (CNS 12h and 13h, and the data of Namespace Attachment).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ControllerList {
    /// The number of identifiers.
    pub count: U16,
    /// The identifiers in ascending order.
    pub entries: [U16; 2047],
}

static_assertions::const_assert_eq!(size_of::<ControllerList>(), 4096);
static_assertions::const_assert_eq!(core::mem::offset_of!(ControllerList, entries), 2);

impl ControllerList {
    /// The list of the one controller `cntlid`.
    #[must_use]
    pub fn of_one(cntlid: u16) -> Self {
        let mut entries = [U16::ZERO; 2047];
        entries[0] = U16::new(cntlid);
        Self { count: U16::new(1), entries }
    }

    /// The identifiers, 2047 at most whatever the count says.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.entries.iter().take(self.count.get().into()).map(|entry| entry.get())
    }
}

/// The identifiers of a namespace, 4096 bytes (CNS 03h, figure "Namespace Identification Descriptor").
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct NamespaceDescriptors {
    /// The descriptors, one after the other: NIDT, NIDL, two reserved bytes, NID.
    pub bytes: [u8; 4096],
}

/// One identifier of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamespaceDescriptor<'a> {
    /// NIDT 1: the IEEE extended unique identifier, most significant byte first.
    Eui64([u8; 8]),
    /// NIDT 2: the globally unique identifier, most significant byte first.
    Nguid([u8; 16]),
    /// NIDT 3: the UUID, most significant byte first.
    Uuid([u8; 16]),
    /// NIDT 4: the command set.
    CommandSet(Csi),
    /// A type that this crate does not know, or one of the above with a length that it cannot have.
    Other {
        /// NIDT, the type.
        nidt: u8,
        /// NID, the identifier.
        nid: &'a [u8],
    },
}

impl NamespaceDescriptors {
    /// The descriptors. The list ends at a length or type of 0, or at a descriptor that would pass its end.
    pub fn iter(&self) -> impl Iterator<Item = NamespaceDescriptor<'_>> {
        let mut rest: &[u8] = &self.bytes;
        core::iter::from_fn(move || {
            let (descriptor, behind) = split_descriptor(rest)?;
            rest = behind;
            Some(descriptor)
        })
    }
}

fn split_descriptor(bytes: &[u8]) -> Option<(NamespaceDescriptor<'_>, &[u8])> {
    let ([nidt, nidl, _, _], behind) = bytes.split_first_chunk()?;
    let (nid, rest) = behind.split_at_checked((*nidl).into())?;
    (*nidt != 0 && *nidl != 0).then(|| (descriptor(*nidt, nid), rest))
}

fn descriptor(nidt: u8, nid: &[u8]) -> NamespaceDescriptor<'_> {
    let known = match nidt {
        1 => nid.try_into().ok().map(NamespaceDescriptor::Eui64),
        2 => nid.try_into().ok().map(NamespaceDescriptor::Nguid),
        3 => nid.try_into().ok().map(NamespaceDescriptor::Uuid),
        4 => nid.try_into().ok().map(|[csi]: [u8; 1]| NamespaceDescriptor::CommandSet(Csi(csi))),
        _ => None,
    };
    known.unwrap_or(NamespaceDescriptor::Other { nidt, nid })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn list(nsids: impl IntoIterator<Item = u32>) -> NamespaceList {
        let mut list = NamespaceList { entries: [U32::ZERO; 1024] };
        list.entries.iter_mut().zip(nsids).for_each(|(to, from)| *to = from.into());
        list
    }

    fn nsids(list: &NamespaceList) -> Vec<u32> {
        list.iter().map(|nsid| nsid.0).collect()
    }

    #[test]
    fn lists_end_at_zero_and_where_they_are_wrong() {
        assert_eq!(nsids(&list([])), []);
        assert_eq!(nsids(&list([1, 5, 0xffff_fffe])), [1, 5, 0xffff_fffe]);
        assert_eq!(nsids(&list([1, 0, 7])), [1]);
        assert_eq!(nsids(&list([3, 3, 4])), [3]);
        assert_eq!(nsids(&list([3, 2])), [3]);
        assert_eq!(nsids(&list([3, 0xffff_ffff])), [3]);
    }

    /// SPDK ran over the end of a full list (c7888feebc, 3067ecaa0c).
    #[test]
    fn a_full_list_ends_with_its_page_and_says_where_to_go_on() {
        let full = list(1..=1024);
        assert_eq!(full.iter().count(), 1024);
        assert_eq!(full.next_after(), Some(Nsid(1024)));
        assert_eq!(list(1..=1023).next_after(), None);
        // A device that repeats itself does not keep a driver asking for ever.
        assert_eq!(list(core::iter::repeat_n(7, 1024)).next_after(), None);
    }

    #[test]
    fn a_controller_list_is_no_longer_than_its_page() {
        let one = ControllerList::of_one(9);
        assert_eq!(one.iter().collect::<Vec<_>>(), [9]);
        assert_eq!(ControllerList { count: u16::MAX.into(), ..one }.iter().count(), 2047);
        assert_eq!(ControllerList { count: 0.into(), ..one }.iter().count(), 0);
    }

    fn descriptors(parts: &[&[u8]]) -> NamespaceDescriptors {
        let mut bytes = [0; 4096];
        let joined = parts.concat();
        bytes[..joined.len()].copy_from_slice(&joined);
        NamespaceDescriptors { bytes }
    }

    #[test]
    fn descriptors_by_the_figure() {
        let parts: [&[u8]; 4] = [
            &[4, 1, 0, 0, 2],
            &[1, 8, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            &[9, 1, 0, 0, 5],
            &[2, 3, 0, 0, 1, 2, 3],
        ];
        let list = descriptors(&parts);
        let expected = [
            NamespaceDescriptor::CommandSet(Csi::ZONED),
            NamespaceDescriptor::Eui64([1, 2, 3, 4, 5, 6, 7, 8]),
            NamespaceDescriptor::Other { nidt: 9, nid: &[5] },
            NamespaceDescriptor::Other { nidt: 2, nid: &[1, 2, 3] },
        ];
        assert_eq!(list.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn bad_lengths_end_the_list() {
        assert_eq!(descriptors(&[&[1, 0, 0, 0], &[4, 1, 0, 0, 0]]).iter().count(), 0);
        let mut full = descriptors(&[]);
        full.bytes = [0xff; 4096];
        // 15 of 259 bytes fit; the rest is too short for one more.
        assert_eq!(full.iter().count(), 15);
    }
}
