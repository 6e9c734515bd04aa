//! Shadow doorbells (Base specification, "Doorbell Buffer Config"): when a driver must ring although it has
//! written its shadow, and where each entry stands.
//!
//! Both buffers, shadow and EventIdx, are one page of `CC.MPS` and have the layout of the doorbells. They are void
//! after a controller reset, and the entries of a queue are to be zero when its identifier is used again.

use crate::register::{DoorbellKind, doorbell_offset, doorbell_stride};
use crate::types::{PageSize, Qid};

/// Whether the doorbell must be rung when its value goes from `old` to `new` and the controller has left
/// `event_idx`: whether the value passes it. All three wrap at 2^16.
///
/// The shadow has to be written, and a full fence passed, before `event_idx` is read.
#[inline]
#[must_use]
pub const fn need_doorbell(event_idx: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event_idx).wrapping_sub(1) < new.wrapping_sub(old)
}

/// The place of an entry in either buffer, in bytes: that of the doorbell among the doorbells.
#[inline]
#[must_use]
pub const fn entry_offset(qid: Qid, kind: DoorbellKind, dstrd: u8) -> u64 {
    doorbell_offset(qid, kind, dstrd) - doorbell_offset(Qid::ADMIN, DoorbellKind::SubmissionTail, dstrd)
}

/// The highest queue both of whose entries fit a page. `None` when even the admin queue's do not.
#[must_use]
pub const fn max_qid(page: PageSize, dstrd: u8) -> Option<Qid> {
    let pairs = page.bytes() / (2 * doorbell_stride(dstrd) as u64);
    match pairs {
        0 => None,
        1..=0x1_0000 => Some(Qid((pairs - 1) as u16)),
        _ => Some(Qid(u16::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The oracle: step from `old` to `new` and look whether one step leaves `event_idx` behind.
    fn passes(event_idx: u16, new: u16, old: u16) -> bool {
        let mut at = old;
        while at != new {
            if at == event_idx {
                return true;
            }
            at = at.wrapping_add(1);
        }
        false
    }

    #[test]
    fn doorbells_by_table() {
        let cases = [
            (0, 1, 0, true),
            (1, 1, 0, false),
            (5, 8, 4, true),
            (3, 8, 4, false),
            (0xffff, 1, 0xfffe, true),
            (0xfffd, 1, 0xfffe, false),
            (7, 7, 7, false),
        ];
        for (event_idx, new, old, rings) in cases {
            assert_eq!(need_doorbell(event_idx, new, old), rings, "{event_idx} {new} {old}");
        }
    }

    proptest! {
        #[test]
        fn it_rings_exactly_when_the_event_index_is_passed(old: u16, step in 0..2000_u16, event in 0..4000_u16) {
            let (new, event_idx) = (old.wrapping_add(step), old.wrapping_sub(1000).wrapping_add(event));
            prop_assert_eq!(need_doorbell(event_idx, new, old), passes(event_idx, new, old));
        }
    }

    #[test]
    fn entries_stand_as_the_doorbells_do() {
        assert_eq!(entry_offset(Qid(0), DoorbellKind::SubmissionTail, 0), 0);
        assert_eq!(entry_offset(Qid(3), DoorbellKind::CompletionHead, 0), 28);
        assert_eq!(entry_offset(Qid(3), DoorbellKind::CompletionHead, 4), 7 * 64);
    }

    #[test]
    fn a_page_holds_whole_pairs() {
        assert_eq!(max_qid(PageSize::MIN, 0), Some(Qid(511)));
        assert_eq!(max_qid(PageSize::MIN, 4), Some(Qid(31)));
        assert_eq!(max_qid(PageSize::MIN, 9), Some(Qid(0)));
        assert_eq!(max_qid(PageSize::MIN, 10), None);
        assert_eq!(max_qid(PageSize::from_exponent(15).unwrap(), 0), Some(Qid(u16::MAX)));
    }
}
