//! Data that say which block they belong to.
//!
//! A block holds 64-bit words, little-endian: the seed with a constant, the LBA, the version, and then numbers that
//! follow from these three. So a block at a wrong place, a stale one and a torn one can be told apart.

use std::fmt;

use crate::random::{Random, mix};

/// What a block should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The run.
    pub(super) seed: u64,
    /// The block.
    pub(super) lba: u64,
    /// How many times the run has written it.
    pub(super) version: u64,
}

impl Stamp {
    /// Makes `block` what it should be.
    pub(super) fn fill(self, block: &mut [u8]) {
        let (head, body) = block.split_at_mut(HEAD_BYTES);
        for (word, value) in head.chunks_exact_mut(8).zip(self.head()) {
            word.copy_from_slice(&value.to_le_bytes());
        }
        self.body().fill(body);
    }

    /// Compares `block` with what it should be.
    ///
    /// # Errors
    /// With the first byte that differs, and the block whose data were found.
    pub(super) fn check(self, block: &[u8]) -> Result<(), Mismatch> {
        let mut body = self.body();
        let head = self.head().into_iter();
        let words = head.chain(std::iter::repeat_with(|| body.next()));
        for (at, (found, expected)) in block.chunks_exact(8).zip(words).enumerate() {
            if found != expected.to_le_bytes() {
                let in_word = found.iter().zip(expected.to_le_bytes()).position(|(a, b)| *a != b);
                let offset = at * 8 + in_word.unwrap_or(0);
                return Err(Mismatch { expected: self, found: Self::found_in(block, self.seed), offset });
            }
        }
        Ok(())
    }

    fn head(self) -> [u64; 3] {
        [MAGIC ^ self.seed, self.lba, self.version]
    }

    fn body(self) -> Random {
        Random::new(mix(self.seed ^ mix(self.lba ^ mix(self.version))))
    }

    /// What the head of `block` says, when this run wrote it.
    fn found_in(block: &[u8], seed: u64) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*block.get(at..at + 8)?.first_chunk()?));
        let stamp = Self { seed: word(0)? ^ MAGIC, lba: word(8)?, version: word(16)? };
        (stamp.seed == seed).then_some(stamp)
    }
}

/// A block that holds something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    expected: Stamp,
    found: Option<Stamp>,
    offset: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp { lba, version, .. } = self.expected;
        write!(f, "block {lba} differs from byte {} on: expected version {version}, found ", self.offset)?;
        match self.found {
            Some(found) if found == self.expected => f.write_str("its head with other data behind it"),
            Some(found) => write!(f, "version {} of block {}", found.version, found.lba),
            None => f.write_str("data of no block of this run"),
        }
    }
}

const HEAD_BYTES: usize = 24;
const MAGIC: u64 = u64::from_le_bytes(*b"ugdsblk\0");

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { seed: 7, lba: 5, version: 3 };

    fn block(stamp: Stamp) -> Vec<u8> {
        let mut block = vec![0; 512];
        stamp.fill(&mut block);
        block
    }

    fn message(block: &[u8]) -> String {
        STAMP.check(block).unwrap_err().to_string()
    }

    #[test]
    fn what_was_filled_is_right() {
        assert_eq!(STAMP.check(&block(STAMP)), Ok(()));
    }

    #[test]
    fn every_byte_counts() {
        for at in 0..512 {
            let mut block = block(STAMP);
            block[at] ^= 1;
            assert_eq!(STAMP.check(&block).unwrap_err().offset, at);
        }
    }

    #[test]
    fn kinds_of_damage_are_told_apart() {
        let text = "block 5 differs from byte 16 on: expected version 3, found version 2 of block 5";
        assert_eq!(message(&block(Stamp { version: 2, ..STAMP })), text);
        assert!(message(&block(Stamp { lba: 6, ..STAMP })).ends_with("found version 3 of block 6"));
        assert!(message(&block(Stamp { seed: 8, ..STAMP })).ends_with("data of no block of this run"));
        assert!(message(&vec![0; 512]).ends_with("data of no block of this run"));
        let mut torn = block(STAMP);
        torn[256..].copy_from_slice(&block(Stamp { version: 2, ..STAMP })[256..]);
        assert!(message(&torn).contains("from byte 256 on"));
        assert!(message(&torn).ends_with("its head with other data behind it"));
    }
}
