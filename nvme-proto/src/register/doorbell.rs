//! Doorbell arithmetic (PCIe transport specification, "Submission Queue y Tail Doorbell" and its sibling).

use crate::types::Qid;

/// Where the doorbells begin in BAR 0.
pub const DOORBELLS: u32 = 0x1000;

/// Which of the two doorbells of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DoorbellKind {
    /// The tail of the submission queue.
    SubmissionTail,
    /// The head of the completion queue.
    CompletionHead,
}

/// The distance of two doorbells in bytes, for `CAP.DSTRD` of 0 to 15 (higher bits are dropped).
#[inline]
#[must_use]
pub const fn doorbell_stride(dstrd: u8) -> u32 {
    4 << (dstrd & 0xf)
}

/// The place of a doorbell in BAR 0, in bytes: 1000h + (2 · `qid` + kind) · (4 << `dstrd`).
///
/// With the widest stride and the highest queue it is about 16 GiB, hence 64 bits.
#[inline]
#[must_use]
pub const fn doorbell_offset(qid: Qid, kind: DoorbellKind, dstrd: u8) -> u64 {
    DOORBELLS as u64 + index(qid, kind) * doorbell_stride(dstrd) as u64
}

/// The queue and the kind of the doorbell at `offset` in BAR 0. `None` when no doorbell begins there.
#[inline]
#[must_use]
pub const fn decode_doorbell(offset: u64, dstrd: u8) -> Option<(Qid, DoorbellKind)> {
    let Some(distance) = offset.checked_sub(DOORBELLS as u64) else { return None };
    let stride = doorbell_stride(dstrd) as u64;
    let index = distance / stride;
    if distance % stride != 0 || index > index_max() {
        return None;
    }
    let kind = if index & 1 == 0 { DoorbellKind::SubmissionTail } else { DoorbellKind::CompletionHead };
    Some((Qid((index >> 1) as u16), kind))
}

/// The size that BAR 0 needs so that it holds both doorbells of `qid`, in bytes.
#[must_use]
pub const fn doorbell_space_bytes(qid: Qid, dstrd: u8) -> u64 {
    doorbell_offset(qid, DoorbellKind::CompletionHead, dstrd) + 4
}

/// The highest queue both of whose doorbells a BAR 0 of `bar_bytes` holds. `None` when not even the admin queue's.
#[must_use]
pub const fn max_qid(bar_bytes: u64, dstrd: u8) -> Option<Qid> {
    let Some(beyond_first) = bar_bytes.checked_sub(doorbell_space_bytes(Qid::ADMIN, dstrd)) else {
        return None;
    };
    let qid = beyond_first / (2 * doorbell_stride(dstrd) as u64);
    Some(Qid(if qid > u16::MAX as u64 { u16::MAX } else { qid as u16 }))
}

/// The number of the doorbell, counted from that of the admin submission queue.
pub(crate) const fn index(qid: Qid, kind: DoorbellKind) -> u64 {
    2 * qid.0 as u64 + matches!(kind, DoorbellKind::CompletionHead) as u64
}

const fn index_max() -> u64 {
    index(Qid(u16::MAX), DoorbellKind::CompletionHead)
}

#[cfg(test)]
mod tests {
    use super::DoorbellKind::{CompletionHead, SubmissionTail};
    use super::*;

    #[test]
    fn doorbells_by_table() {
        let cases = [
            (0, SubmissionTail, 0, 0x1000),
            (0, CompletionHead, 0, 0x1004),
            (1, SubmissionTail, 0, 0x1008),
            (1, CompletionHead, 4, 0x10c0),
            (3, SubmissionTail, 1, 0x1030),
            (65535, CompletionHead, 15, 0x1000 + 131_071 * 131_072),
        ];
        for (qid, kind, dstrd, offset) in cases {
            assert_eq!(doorbell_offset(Qid(qid), kind, dstrd), offset);
        }
    }

    #[test]
    fn every_doorbell_is_decoded_and_nothing_else() {
        for dstrd in [0, 1, 4, 15] {
            for qid in (0..=u16::MAX).step_by(257) {
                for kind in [SubmissionTail, CompletionHead] {
                    let offset = doorbell_offset(Qid(qid), kind, dstrd);
                    assert_eq!(decode_doorbell(offset, dstrd), Some((Qid(qid), kind)));
                    assert_eq!(decode_doorbell(offset + 1, dstrd), None);
                    assert_eq!(decode_doorbell(offset + 2, dstrd), None);
                }
            }
        }
        for offset in [0, 0xffc, 0x1000 + 0x2_0000 * 4, u64::MAX] {
            assert_eq!(decode_doorbell(offset, 0), None, "{offset:#x}");
        }
    }

    #[test]
    fn a_bar_holds_whole_pairs() {
        for dstrd in 0..16 {
            for qid in [0, 1, 7, 65535] {
                let bytes = doorbell_space_bytes(Qid(qid), dstrd);
                assert_eq!(max_qid(bytes, dstrd), Some(Qid(qid)));
                assert_eq!(max_qid(bytes - 1, dstrd), qid.checked_sub(1).map(Qid));
            }
            assert_eq!(max_qid(u64::MAX, dstrd), Some(Qid(65535)));
        }
        assert_eq!(max_qid(0x2000, 0), Some(Qid(511)));
    }
}
