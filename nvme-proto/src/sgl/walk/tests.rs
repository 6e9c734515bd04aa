extern crate std;
use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// Where segment `i` lies, when it is laid by [`Host`].
const fn segment_addr(i: usize) -> BusAddr {
    BusAddr(0x10_0000 + i as u64 * 0x1_0000)
}

/// Host memory with nothing but segments in it.
struct Host(Vec<Vec<SglDescriptor>>);

impl Host {
    fn read(&self, addr: BusAddr, out: &mut [u8]) -> Result<(), &'static str> {
        let index = (addr.0.checked_sub(segment_addr(0).0).ok_or("below")? / 0x1_0000) as usize;
        let from = (addr.0 - segment_addr(index).0) as usize;
        let bytes = self.0.get(index).ok_or("no such segment")?.as_bytes();
        out.copy_from_slice(bytes.get(from..from + out.len()).ok_or("past the segment")?);
        Ok(())
    }

    fn walk(&self, sgl1: SglDescriptor, len: u64, direction: Direction, rules: Rules) -> Pieces {
        walk(sgl1, len, direction, rules, |addr, out: &mut [u8]| self.read(addr, out)).collect()
    }
}

type Pieces = Result<Vec<Piece>, WalkError<&'static str>>;

fn block(addr: u64, len: u32) -> SglDescriptor {
    SglDescriptor::data_block(BusAddr(addr), len)
}

fn data(addr: u64, len_bytes: u64) -> Piece {
    Piece::Data { addr: BusAddr(addr), len_bytes }
}

fn to_host(segments: &[&[SglDescriptor]], sgl1: SglDescriptor, len: u64) -> Pieces {
    let host = Host(segments.iter().map(|segment| segment.to_vec()).collect());
    host.walk(sgl1, len, Direction::ToHost, Rules::default())
}

fn last(i: usize, n: u32) -> SglDescriptor {
    SglDescriptor::last_segment(segment_addr(i), n)
}

fn more(i: usize, n: u32) -> SglDescriptor {
    SglDescriptor::segment(segment_addr(i), n)
}

#[test]
fn well_formed_lists_by_table() {
    assert_eq!(to_host(&[], block(0x1001, 512), 512), Ok(vec![data(0x1001, 512)]));
    let two = [block(0x1000, 500), block(0x9000, 12)];
    let pieces = vec![data(0x1000, 500), data(0x9000, 12)];
    assert_eq!(to_host(&[&two], last(0, 2), 512), Ok(pieces.clone()));
    assert_eq!(to_host(&[&[two[0], last(1, 1)], &[two[1]]], more(0, 2), 512), Ok(pieces.clone()));
    assert_eq!(to_host(&[&[more(1, 1)], &[last(2, 2)], &two], more(0, 1), 512), Ok(pieces.clone()));
    let with_empty = [two[0], block(0xdead, 0), two[1], block(0, 0)];
    assert_eq!(to_host(&[&with_empty], last(0, 4), 512), Ok(pieces));
    let bucket = [two[0], SglDescriptor::bit_bucket(12)];
    let discard = Piece::Discard { len_bytes: 12 };
    assert_eq!(to_host(&[&bucket], last(0, 2), 512), Ok(vec![data(0x1000, 500), discard]));
    let long: Vec<_> = (0..100).map(|i| block(i * 8192, 4096)).collect();
    assert_eq!(to_host(&[&long], last(0, 100), 409_600).unwrap().len(), 100);
}

#[test]
fn malformed_lists_name_their_status() {
    let bad = |kind: u8| SglDescriptor { identifier: kind, ..block(0x1000, 512) };
    let one = [block(0x1000, 512)];
    let misplaced = SglDescriptor { addr: 0x10_0004.into(), ..last(0, 1) };
    let odd = SglDescriptor { len_bytes: 15.into(), ..last(0, 1) };
    let high = SglDescriptor { addr: 0xffff_ffff_ffff_fff8.into(), ..last(0, 1) };
    let cases: &[(&[&[SglDescriptor]], SglDescriptor, Status)] = &[
        (&[], bad(0x40), generic::SGL_DESCRIPTOR_TYPE_INVALID),
        (&[], bad(0x01), generic::SGL_DESCRIPTOR_TYPE_INVALID),
        (&[], bad(0xf0), generic::SGL_DESCRIPTOR_TYPE_INVALID),
        (&[], block(0x1000, 511), generic::DATA_SGL_LENGTH_INVALID),
        (&[], block(0x1000, 513), generic::DATA_SGL_LENGTH_INVALID),
        (&[], block(u64::MAX, 512), generic::SGL_OFFSET_INVALID),
        (&[], last(0, 0), generic::INVALID_SGL_SEGMENT_DESCRIPTOR),
        (&[], misplaced, generic::INVALID_SGL_SEGMENT_DESCRIPTOR),
        (&[], odd, generic::INVALID_SGL_SEGMENT_DESCRIPTOR),
        (&[], high, generic::INVALID_SGL_SEGMENT_DESCRIPTOR),
        (&[&[last(1, 1)], &one], last(0, 1), generic::INVALID_SGL_SEGMENT_DESCRIPTOR),
        (&[&one], more(0, 1), generic::INVALID_SGL_SEGMENT_DESCRIPTOR),
        (&[&[last(1, 1), block(0, 0)], &one], more(0, 2), generic::INVALID_SGL_DESCRIPTOR_COUNT),
        (&[&[more(0, 1)]], more(0, 1), generic::INVALID_SGL_DESCRIPTOR_COUNT),
        (&[&[one[0], block(0, 1)]], last(0, 2), generic::DATA_SGL_LENGTH_INVALID),
    ];
    for (segments, sgl1, status) in cases {
        let error = to_host(segments, *sgl1, 512).unwrap_err();
        assert_eq!(error.status(), status.with_do_not_retry(), "{error}");
    }
    let unread = to_host(&[], last(0, 1), 512).unwrap_err();
    assert_eq!(unread.status(), generic::DATA_TRANSFER_ERROR);
    let short: WalkError<()> = WalkError::Invalid { reason: Reason::Length, descriptor: one[0] };
    assert!(short.metadata_status().is(generic::METADATA_SGL_LENGTH_INVALID));
}

#[test]
fn the_rules_decide() {
    let host = Host(vec![vec![block(0x1002, 512), SglDescriptor::bit_bucket(512), block(0x2000, 1024)]]);
    let walk = |len, direction, rules| host.walk(last(0, 3), len, direction, rules);
    let reason = |pieces: Pieces| match pieces {
        Err(WalkError::Invalid { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let (plain, write) = (Rules::default(), Direction::FromHost);
    // A write takes nothing from a bit bucket, so the rest is one block shorter.
    let written = vec![data(0x1002, 512), data(0x2000, 1024)];
    assert_eq!(walk(1536, write, plain), Ok(written));
    assert_eq!(reason(walk(2048, write, plain)), Reason::Length);
    let excess = Rules { excess: Excess::Allowed, ..plain };
    assert_eq!(walk(600, write, excess), Ok(vec![data(0x1002, 512), data(0x2000, 88)]));
    assert_eq!(reason(walk(600, write, plain)), Reason::Length);
    assert_eq!(reason(walk(1536, write, Rules { align_bytes: 4, ..plain })), Reason::Granularity);
    assert_eq!(reason(walk(1536, write, Rules { bit_bucket: false, ..plain })), Reason::Type);
    assert_eq!(reason(walk(1536, write, Rules { max_descriptors: 3, ..plain })), Reason::Count);
}

#[test]
fn rules_follow_sgls() {
    assert_eq!(Rules::of(Sgls::from_bits(0)), None);
    assert_eq!(Rules::of(Sgls::from_bits(1 | 1 << 16)), Some(Rules::default()));
    let dword = Rules { excess: Excess::Allowed, bit_bucket: false, align_bytes: 4, ..Rules::default() };
    assert_eq!(Rules::of(Sgls::from_bits(2 | 1 << 18)), Some(dword));
}

/// Splits `blocks` over segments of the sizes given, each but the last with a pointer at its end.
fn lay(blocks: &[SglDescriptor], sizes: &[usize]) -> (SglDescriptor, Host) {
    let mut parts = Vec::new();
    let mut rest = blocks;
    for size in sizes {
        let (part, left) = rest.split_at((*size).min(rest.len()));
        parts.push(part.to_vec());
        rest = left;
    }
    parts.push(rest.to_vec());
    let mut next = last(parts.len() - 1, parts[parts.len() - 1].len() as u32);
    for i in (0..parts.len() - 1).rev() {
        parts[i].push(next);
        next = more(i, parts[i].len() as u32);
    }
    (next, Host(parts))
}

proptest! {
    #[test]
    fn laid_segments_are_walked_whole(
        blocks in proptest::collection::vec((0_u64..1 << 40, 0_u32..9000), 1..200),
        sizes in proptest::collection::vec(0_usize..60, 0..4),
    ) {
        let mut descriptors: Vec<_> = blocks.iter().map(|(addr, len)| block(*addr, *len)).collect();
        descriptors.push(block(0x77, 1));
        let (sgl1, host) = lay(&descriptors, &sizes);
        prop_assume!(host.0.iter().all(|part| !part.is_empty()));
        let total = blocks.iter().map(|(_, len)| u64::from(*len)).sum::<u64>() + 1;
        let expected: Vec<_> = descriptors
            .iter()
            .filter(|d| d.len_bytes() != 0)
            .map(|d| data(d.addr().0, u64::from(d.len_bytes())))
            .collect();
        let walked = host.walk(sgl1, total, Direction::ToHost, Rules::default());
        prop_assert_eq!(walked, Ok(expected));
    }

    /// Whatever the descriptors say, the walk ends and never yields more than was asked for.
    #[test]
    fn no_list_can_derail_the_walk(sgl1: [u8; 16], junk in proptest::collection::vec(any::<u8>(), 64), len in 0..1_u64 << 33) {
        let sgl1: SglDescriptor = zerocopy::transmute!(sgl1);
        let rules = Rules { max_descriptors: 500, excess: Excess::Allowed, ..Rules::default() };
        let read = |_: BusAddr, out: &mut [u8]| {
            out.iter_mut().zip(junk.iter().cycle()).for_each(|(to, from)| *to = *from);
            Ok::<(), ()>(())
        };
        let mut covered = 0;
        for piece in walk(sgl1, len, Direction::ToHost, rules, read).map_while(Result::ok) {
            prop_assert!(piece.len_bytes() > 0);
            covered += piece.len_bytes();
        }
        prop_assert!(covered <= len);
    }
}
