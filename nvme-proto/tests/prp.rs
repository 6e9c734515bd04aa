//! What the host lays, the controller walks: PRPs of random transfers against a slow and obvious oracle.

use nvme_proto::{BusAddr, PageSize, prp};
use proptest::prelude::*;

const CASES: u64 = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };

/// Where the test puts things, far apart, so that no address can pass for another.
const LISTS: u64 = 0x4000_0000_0000;
const DATA: u64 = 0x1000_0000_0000;

struct Transfer {
    page: PageSize,
    /// The distance of the data from the start of its first page.
    offset: u64,
    len: u64,
    /// The first slot of the list in its page.
    list_slot: u64,
    /// Scatters the data pages.
    seed: u64,
}

impl Transfer {
    /// The address of data page `i`: scattered, page aligned.
    fn data_page(&self, i: u64) -> BusAddr {
        let scattered = (self.seed ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        BusAddr(DATA + ((scattered << 20 | i) << self.page.shift()))
    }

    fn list_page(&self, i: u64) -> BusAddr {
        BusAddr(LISTS + ((i * 3) << self.page.shift()) + if i == 0 { self.list_slot * 8 } else { 0 })
    }

    /// The oracle: page after page, until nothing is left.
    fn pieces(&self) -> Vec<(BusAddr, u64)> {
        let mut pieces = Vec::new();
        let (mut left, mut offset) = (self.len, self.offset);
        while left > 0 {
            let len = left.min(self.page.bytes() - offset);
            pieces.push((BusAddr(self.data_page(pieces.len() as u64).0 + offset), len));
            left -= len;
            offset = 0;
        }
        pieces
    }
}

/// The list pages as the host wrote them, one after the other.
#[derive(Default)]
struct Lists {
    slots: Vec<u64>,
    written: usize,
}

impl Lists {
    fn put(&mut self, page: PageSize, slot: prp::Slot, entry: BusAddr) {
        let at = slot.list_page as usize * (page.bytes() / 8) as usize + slot.index as usize;
        // Ascending and each slot once.
        assert!(at >= self.slots.len());
        self.slots.resize(at, UNWRITTEN);
        self.slots.push(entry.0);
        self.written += 1;
    }

    fn read(&self, page: PageSize, addr: BusAddr, out: &mut [u8]) -> Result<usize, String> {
        let number = (addr.0 - LISTS) >> page.shift();
        if !addr.0.is_multiple_of(8)
            || !number.is_multiple_of(3)
            || addr.offset_in(page) + out.len() as u64 > page.bytes()
        {
            return Err(format!("{} bytes at {addr} leave the list page", out.len()));
        }
        let from = (number / 3 * (page.bytes() / 8) + addr.offset_in(page) / 8) as usize;
        for (i, bytes) in out.chunks_exact_mut(8).enumerate() {
            let slot = self.slots.get(from + i).filter(|slot| **slot != UNWRITTEN);
            bytes.copy_from_slice(&slot.ok_or("a slot that was never written")?.to_le_bytes());
        }
        Ok(out.len() / 8)
    }
}

const UNWRITTEN: u64 = u64::MAX;

fn check(transfer: &Transfer, lists: &mut Lists) {
    let Transfer { page, offset, len, .. } = *transfer;
    let pieces = transfer.pieces();
    assert_eq!(prp::pages(page, offset, len), pieces.len() as u64);
    lists.slots.clear();
    lists.written = 0;
    let prp1 = BusAddr(transfer.data_page(0).0 + offset);
    let shape = prp::shape(page, prp1.0, len.try_into().unwrap());
    let prp2 = match shape {
        prp::Shape::One => BusAddr(0xbad),
        prp::Shape::Two => transfer.data_page(1),
        prp::Shape::List { entries } => lay(transfer, entries, lists),
    };
    let pointer = shape.data_pointer(prp1, prp2).words();
    let mut read = 0;
    let walk = prp::walk(page, BusAddr(pointer[0]), BusAddr(pointer[1]), len, |addr, out| {
        assert!(out.len() <= 64 * 8);
        lists.read(page, addr, out).map(|slots| read += slots)
    });
    let walked: Result<Vec<_>, _> = walk.collect();
    assert_eq!(walked.as_ref(), Ok(&pieces));
    assert_eq!(read, lists.written, "every slot is read once");
}

fn lay(transfer: &Transfer, entries: u32, lists: &mut Lists) -> BusAddr {
    let Transfer { page, list_slot, .. } = *transfer;
    let needed = prp::list_pages(page, list_slot * 8, entries);
    let list_pages: Vec<_> = (0..u64::from(needed)).map(|i| transfer.list_page(i)).collect();
    let data = |i| transfer.data_page(u64::from(i) + 1);
    let used = prp::lay_list(page, &list_pages, entries, data, |slot, entry| lists.put(page, slot, entry));
    assert_eq!(used, Ok(needed));
    assert_eq!(lists.written, entries as usize + needed as usize - 1, "one chain pointer between two pages");
    list_pages[0]
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Mostly short lists that begin near the end of their page, so that chains are common; some long ones.
fn random_transfer(state: &mut u64) -> Transfer {
    let mut below = |n: u64| splitmix(state) % n;
    let page = PageSize::from_exponent([0, 0, 0, 0, 1, 2, 4][below(7) as usize]).unwrap();
    let slots = page.bytes() / 8;
    let pages = if below(500) == 0 { below(3 * slots) } else { below(24) };
    let list_slot = if below(4) == 0 { below(slots) } else { slots - 1 - below(20) };
    let exact = below(4) == 0;
    let len = if exact { pages << page.shift() } else { (pages << page.shift()) + below(page.bytes()) };
    let offset = if below(3) == 0 { 0 } else { below(page.bytes() / 4) * 4 };
    Transfer { page, offset, len, list_slot, seed: below(u64::MAX) }
}

#[test]
fn what_the_host_lays_the_controller_walks() {
    let (mut state, mut lists) = (0x7567_6473, Lists::default());
    for _ in 0..CASES {
        check(&random_transfer(&mut state), &mut lists);
    }
    println!("{CASES} transfers laid and walked");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laid_lists_are_walked_whole(
        exponent in 0_u8..5, offset in 0_u64..1024, len in 0_u64..(40 << 20), slot in 0_u64..512, seed: u64,
    ) {
        let page = PageSize::from_exponent(exponent).unwrap();
        let transfer = Transfer { page, offset: offset * 4, len, list_slot: slot, seed };
        check(&transfer, &mut Lists::default());
    }

    #[test]
    fn pages_agree_with_wide_arithmetic(exponent in 0_u8..16, start: u64, len: u64) {
        let page = PageSize::from_exponent(exponent).unwrap();
        let wide = u128::from(start & page.mask()) + u128::from(len);
        let expected = if len == 0 { 0 } else { wide.div_ceil(u128::from(page.bytes())) };
        prop_assert_eq!(u128::from(prp::pages(page, start, len)), expected);
    }

    /// Whatever PRP2 and the lists hold, the walk ends, never reads past a list page, and yields whole pieces.
    #[test]
    fn no_list_can_derail_the_walk(prp1: u64, prp2: u64, len in 0_u64..(8 << 20), seed: u64, hole in 0..400_u32) {
        let page = PageSize::MIN;
        let (mut state, mut reads) = (seed, 0);
        let walk = prp::walk(page, BusAddr(prp1 & !3), BusAddr(prp2 & !7), len, |addr, out: &mut [u8]| {
            assert!(addr.offset_in(page) + out.len() as u64 <= page.bytes());
            reads += 1;
            for entry in out.chunks_exact_mut(8) {
                let junk = splitmix(&mut state) & if hole < 300 { !page.mask() } else { !0 };
                entry.copy_from_slice(&junk.to_le_bytes());
            }
            if reads > hole { Err(()) } else { Ok(()) }
        });
        let mut covered = 0;
        for piece in walk {
            match piece {
                Ok((addr, piece)) => {
                    prop_assert!(piece > 0 && addr.offset_in(page) + piece <= page.bytes());
                    covered += piece;
                }
                Err(_) => return Ok(()),
            }
        }
        prop_assert_eq!(covered, len);
    }
}
