//! Random numbers that are fast and the same in every run.

/// SplitMix64: one multiplication more than a counter, and good enough to tell blocks apart.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0. Every one is equally likely to within `end / 2^64`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Fills `bytes` with the next numbers.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
    }
}

/// Spreads every bit of `number` over all bits of the result, and does not map two numbers to one.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_reference() {
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut random = Random::new(1);
        let mut seen = [false; 7];
        (0..1000).for_each(|_| seen[random.below(7) as usize] = true);
        assert_eq!(seen, [true; 7]);
    }

    #[test]
    fn fill_covers_odd_lengths() {
        let mut bytes = [0; 19];
        Random::new(3).fill(&mut bytes);
        let mut longer = [0; 24];
        Random::new(3).fill(&mut longer);
        assert_eq!(bytes[..], longer[..19]);
    }
}
