//! UNSAFETY: maps memory of the tests.

#![allow(unsafe_code)]

use super::*;
use crate::Layout;
use core::ptr::NonNull;
use std::sync::Arc;

fn layout(len_bytes: usize, direction: Direction) -> Layout {
    Layout { len_bytes, align_bytes: 4096, direction }
}

#[test]
fn accesses_outside_or_the_wrong_way_are_refused_and_recorded() {
    let map = Arc::new(DmaMap::new(0, 0, None));
    let dma = allocate(&map, layout(8192, Direction::DeviceReads)).unwrap();
    let base = dma.mapping().contiguous().unwrap();
    let mut out = [1; 8];
    assert_eq!(map.read(BusAddr(base.0 + 8184), &mut out, Purpose::Data), Ok(()));
    assert_eq!(out, [0; 8]);
    assert_eq!(map.read(BusAddr(base.0 + 8185), &mut out, Purpose::Data), Err(Refused));
    assert_eq!(map.read(BusAddr(base.0 - 1), &mut out, Purpose::List), Err(Refused));
    assert_eq!(map.write(base, &out, Purpose::Data), Err(Refused));
    assert_eq!(map.load(BusAddr(base.0 + 2), Purpose::Shadow), Err(Refused));
    let found: Vec<_> = map.violations().iter().map(|v| (v.addr.0.wrapping_sub(base.0), v.reason)).collect();
    let expected = [
        (8185, Reason::Unmapped),
        (u64::MAX, Reason::Unmapped),
        (0, Reason::Direction),
        (2, Reason::Unaligned),
    ];
    assert_eq!(found, expected);
    assert_eq!(map.refused(), 4);
    drop(dma);
    assert_eq!(map.live(), 0);
    assert_eq!(map.read(base, &mut out, Purpose::Data), Err(Refused));
}

#[test]
fn addresses_are_not_used_again_and_differ_from_the_hosts() {
    let map = Arc::new(DmaMap::new(0, 3, None));
    let mut last = 0;
    for _ in 0..16 {
        let dma = allocate(&map, layout(4096, Direction::Both)).unwrap();
        let at = dma.mapping().contiguous().unwrap().0;
        assert!(at > last && at != dma.shared().as_ptr().addr().get() as u64);
        last = at;
    }
}

#[test]
fn scattered_pieces_agree_with_the_host_within_a_page_and_reach_each_byte() {
    let map = Arc::new(DmaMap::new(0, 2, Some(7)));
    let mut bytes: Vec<u8> = (0..40_000_u32).map(|i| (i % 251) as u8).collect();
    let expected = bytes.clone();
    let ptr = NonNull::from(&mut bytes[100]);
    // SAFETY: `bytes` outlives the mapping, and is touched through it alone.
    let mapping = unsafe { map_host(&map, ptr, 39_000, Direction::DeviceReads) }.unwrap();
    assert_eq!(mapping.len_bytes(), 39_000);
    let mut at = 100;
    let mut adjacent = 0;
    for pair in mapping.extents().windows(2) {
        adjacent += u32::from(pair[0].addr.0 + pair[0].len_bytes == pair[1].addr.0);
    }
    assert_eq!(adjacent, 0);
    for extent in mapping.extents() {
        assert_eq!(extent.addr.0 % 4096, (ptr.addr().get() as u64 + at - 100) % 4096);
        let mut piece = vec![0; extent.len_bytes as usize];
        map.read(extent.addr, &mut piece, Purpose::Data).unwrap();
        assert_eq!(piece, expected[at as usize..][..piece.len()]);
        assert!(map.read(BusAddr(extent.addr.0 + extent.len_bytes), &mut [0], Purpose::Data).is_err());
        at += extent.len_bytes;
    }
    assert_eq!(at, 39_100);
}
