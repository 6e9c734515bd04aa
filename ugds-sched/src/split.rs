//! Splitting a request into commands that the device takes.

use core::num::NonZeroU32;
use nvme_proto::Lba;

/// What bounds one command to a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    block_shift: u32,
    max_blocks: NonZeroU32,
    /// The same in bytes.
    max_bytes: u64,
    boundary_blocks: Option<NonZeroU32>,
}

/// Limits that no command could keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// The block size is none that NVMe has.
    #[error("a block of 2^{shift} bytes is not supported; 2^9 to 2^31 bytes are")]
    BlockSize {
        /// The binary logarithm of the size.
        shift: u32,
    },
    /// Not even one block fits into a command.
    #[error("a command moves at most {max_bytes} bytes, which is less than one block of {block_bytes} bytes")]
    TransferBelowBlock {
        /// The most bytes of a command.
        max_bytes: u32,
        /// The bytes of a block.
        block_bytes: u64,
    },
}

impl Limits {
    /// Limits for blocks of `2^block_shift` bytes, commands of at most `max_bytes`, and no boundary.
    ///
    /// # Errors
    ///
    /// [`LimitsError`].
    pub fn new(block_shift: u32, max_bytes: u32) -> Result<Self, LimitsError> {
        if !(9..=31).contains(&block_shift) {
            return Err(LimitsError::BlockSize { shift: block_shift });
        }
        let max_blocks = NonZeroU32::new((max_bytes >> block_shift).min(MAX_NLB))
            .ok_or(LimitsError::TransferBelowBlock { max_bytes, block_bytes: 1 << block_shift })?;
        let max_bytes = u64::from(max_blocks.get()) << block_shift;
        Ok(Self { block_shift, max_blocks, max_bytes, boundary_blocks: None })
    }

    /// The same, with no command crossing a multiple of `blocks` (NOIOB). 0 means no boundary.
    #[must_use]
    pub fn with_boundary(mut self, blocks: u32) -> Self {
        self.boundary_blocks = NonZeroU32::new(blocks);
        self
    }

    /// The binary logarithm of the block size in bytes.
    #[inline]
    #[must_use]
    pub fn block_shift(&self) -> u32 {
        self.block_shift
    }

    /// The most blocks of one command.
    #[must_use]
    pub fn max_blocks(&self) -> u32 {
        self.max_blocks.get()
    }

    /// The length, if `len_bytes` from `lba` on are one command: at least one block and no boundary within.
    #[inline]
    #[must_use]
    pub fn single(&self, lba: Lba, len_bytes: u64) -> Option<u32> {
        if len_bytes.wrapping_sub(1) >= self.max_bytes {
            return None;
        }
        let len = len_bytes as u32;
        match self.boundary_blocks {
            Some(boundary) if blocks_to_boundary(lba, boundary) < len >> self.block_shift => None,
            _ => Some(len),
        }
    }

    /// Splits `blocks` blocks from `lba` on.
    #[inline]
    #[must_use]
    pub fn split(&self, lba: Lba, blocks: u64) -> Split {
        Split { limits: *self, lba, blocks_left: blocks, offset_bytes: 0 }
    }
}

/// One command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where its data lies, in bytes from the start of the request's.
    pub offset_bytes: u64,
    /// Its length in bytes.
    pub len_bytes: u32,
    /// Its first block.
    pub lba: Lba,
}

/// The pieces of a request, in order of their addresses.
#[derive(Clone, Debug)]
pub struct Split {
    limits: Limits,
    lba: Lba,
    blocks_left: u64,
    offset_bytes: u64,
}

impl Split {
    /// The bytes that no piece was made of yet.
    #[inline]
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.blocks_left << self.limits.block_shift
    }

    /// Takes back the piece that was made last.
    #[inline]
    pub fn put_back(&mut self, piece: &Piece) {
        self.lba = piece.lba;
        self.offset_bytes = piece.offset_bytes;
        self.blocks_left += u64::from(piece.len_bytes >> self.limits.block_shift);
    }

    /// The next piece of at most `max_bytes`, and how many of its length follow each other from there, itself included
    /// and `most` at most. Nothing is taken.
    #[inline]
    #[must_use]
    pub fn alike(&self, max_bytes: u32, most: u32) -> Option<(Piece, u32)> {
        let piece = self.clone().next_at_most(max_bytes)?;
        let count = match self.limits.boundary_blocks {
            None => (self.left_bytes() / u64::from(piece.len_bytes)).min(most.into()) as u32,
            Some(_) => 1,
        };
        Some((piece, count))
    }

    /// Takes `count` pieces of the length of `piece`, which [`alike`](Self::alike) saw.
    #[inline]
    pub fn take_alike(&mut self, piece: &Piece, count: u32) {
        let bytes = u64::from(piece.len_bytes) * u64::from(count);
        let blocks = bytes >> self.limits.block_shift;
        self.lba.0 += blocks;
        self.blocks_left -= blocks;
        self.offset_bytes += bytes;
    }

    /// The next piece, of at most `max_bytes`, but of one block at least.
    #[inline]
    pub fn next_at_most(&mut self, max_bytes: u32) -> Option<Piece> {
        if self.blocks_left == 0 {
            return None;
        }
        let max_blocks = (max_bytes >> self.limits.block_shift).clamp(1, self.limits.max_blocks.get());
        let mut blocks = self.blocks_left.min(max_blocks.into()) as u32;
        if let Some(boundary) = self.limits.boundary_blocks {
            blocks = blocks.min(blocks_to_boundary(self.lba, boundary));
        }
        let piece = Piece {
            offset_bytes: self.offset_bytes,
            len_bytes: blocks << self.limits.block_shift,
            lba: self.lba,
        };
        self.lba.0 += u64::from(blocks);
        self.blocks_left -= u64::from(blocks);
        self.offset_bytes += u64::from(piece.len_bytes);
        Some(piece)
    }
}

impl Iterator for Split {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        self.next_at_most(u32::MAX)
    }
}

#[inline]
fn blocks_to_boundary(lba: Lba, boundary: NonZeroU32) -> u32 {
    let boundary = boundary.get();
    let beyond = if boundary.is_power_of_two() {
        lba.0 as u32 & (boundary - 1)
    } else {
        // A division takes tens of cycles; devices that have no power of two here are rare.
        (lba.0 % u64::from(boundary)) as u32
    };
    boundary - beyond
}

/// NLB is a 0's-based 16-bit field.
const MAX_NLB: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn pieces(limits: Limits, lba: u64, blocks: u64) -> Vec<(u64, u32, u64)> {
        limits.split(Lba(lba), blocks).map(|p| (p.offset_bytes, p.len_bytes, p.lba.0)).collect()
    }

    #[test]
    fn splits_by_table() {
        let limits = Limits::new(9, 4096).unwrap();
        assert_eq!(pieces(limits, 5, 0), []);
        assert_eq!(pieces(limits, 5, 1), [(0, 512, 5)]);
        assert_eq!(pieces(limits, 5, 8), [(0, 4096, 5)]);
        assert_eq!(pieces(limits, 5, 9), [(0, 4096, 5), (4096, 512, 13)]);
        assert_eq!(pieces(limits.with_boundary(6), 5, 9), [(0, 512, 5), (512, 3072, 6), (3584, 1024, 12)]);
    }

    #[test]
    fn impossible_limits_are_refused() {
        assert_eq!(Limits::new(8, 4096), Err(LimitsError::BlockSize { shift: 8 }));
        assert_eq!(Limits::new(32, u32::MAX), Err(LimitsError::BlockSize { shift: 32 }));
        let refused = LimitsError::TransferBelowBlock { max_bytes: 4095, block_bytes: 4096 };
        assert_eq!(Limits::new(12, 4095), Err(refused));
    }

    #[test]
    fn a_piece_may_be_made_smaller_on_the_way() {
        let mut split = Limits::new(9, 4096).unwrap().split(Lba(0), 20);
        let lengths = [1024, 100, u32::MAX].map(|max| split.next_at_most(max).unwrap().len_bytes);
        assert_eq!((lengths, split.left_bytes()), ([1024, 512, 4096], 4608));
        assert_eq!(split.map(|piece| piece.len_bytes).collect::<Vec<_>>(), [4096, 512]);
    }

    #[test]
    fn nlb_is_never_exceeded() {
        assert_eq!(Limits::new(9, u32::MAX).unwrap().max_blocks(), 65536);
    }

    #[test]
    fn a_piece_that_is_put_back_comes_again() {
        let mut split = Limits::new(9, 8192).unwrap().with_boundary(10).split(Lba(3), 40);
        while let Some(piece) = split.next_at_most(4096) {
            split.put_back(&piece);
            assert_eq!(split.next_at_most(4096), Some(piece));
        }
    }

    proptest! {
        #[test]
        fn pieces_that_are_alike_are_the_next_ones(
            max_kib in 1u32..=64,
            boundary in prop_oneof![Just(0u32), 1u32..50],
            blocks in 0u64..500,
            most in 1u32..6,
        ) {
            let limits = Limits::new(9, 32 << 10).unwrap().with_boundary(boundary);
            let mut one_by_one = limits.split(Lba(7), blocks);
            let mut split = one_by_one.clone();
            while let Some((piece, count)) = split.alike(max_kib << 10, most) {
                prop_assert!(count >= 1 && count <= most);
                for place in 0..count {
                    let next = one_by_one.next_at_most(max_kib << 10).unwrap();
                    let offset_bytes = piece.offset_bytes + u64::from(place * piece.len_bytes);
                    let lba = Lba(piece.lba.0 + u64::from(place * (piece.len_bytes >> 9)));
                    prop_assert_eq!(next, Piece { offset_bytes, lba, ..piece });
                }
                split.take_alike(&piece, count);
            }
            prop_assert_eq!(one_by_one.left_bytes(), 0);
        }

        #[test]
        fn pieces_tile_the_request(
            shift in 9u32..=14,
            max_kib in 16u32..=2048,
            boundary in prop_oneof![Just(0u32), 1u32..5000],
            lba in 0u64..1 << 40,
            blocks in 0u64..20_000,
        ) {
            let limits = Limits::new(shift, max_kib << 10).unwrap().with_boundary(boundary);
            let (mut at, mut next) = (0u64, lba);
            for piece in limits.split(Lba(lba), blocks) {
                prop_assert_eq!((piece.offset_bytes, piece.lba.0), (at, next));
                prop_assert!(piece.len_bytes > 0 && piece.len_bytes <= max_kib << 10);
                let count = u64::from(piece.len_bytes >> shift);
                if boundary != 0 {
                    prop_assert_eq!(next / u64::from(boundary), (next + count - 1) / u64::from(boundary));
                }
                at += u64::from(piece.len_bytes);
                next += count;
            }
            prop_assert_eq!(at, blocks << shift);
        }
    }
}
