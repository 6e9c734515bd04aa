//! A set that threads take numbers from and give them back to.

use alloc::boxed::Box;

// The real atomics, or loom's when a model is checked (`cargo xtask model`).
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

/// A bit for each number that is free.
#[derive(Debug)]
pub(crate) struct Bits(Box<[AtomicU64]>);

impl Bits {
    /// Makes `count` bits, all set.
    pub(crate) fn set(count: usize) -> Self {
        let word = |first: usize| u64::MAX >> (64 - (count - first).min(64));
        Self((0..count).step_by(64).map(|first| AtomicU64::new(word(first))).collect())
    }

    /// Takes the first bit that is set.
    #[inline]
    pub(crate) fn take(&self) -> Option<usize> {
        for (word, bits) in self.0.iter().enumerate() {
            // Relaxed: only a hint, which the exchange below confirms.
            let mut seen = bits.load(Ordering::Relaxed);
            while seen != 0 {
                let bit = seen & seen.wrapping_neg();
                // Acquire: pairs with `give_back`, so that the last user is done with what the bit stands for.
                seen = bits.fetch_and(!bit, Ordering::Acquire);
                if seen & bit != 0 {
                    return Some(word * 64 + bit.trailing_zeros() as usize);
                }
            }
        }
        None
    }

    /// Sets a bit again.
    #[inline]
    pub(crate) fn give_back(&self, index: usize) {
        if let Some(bits) = self.0.get(index / 64) {
            // Release: pairs with `take`.
            bits.fetch_or(1 << (index % 64), Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn each_bit_is_given_once_until_it_comes_back() {
        for count in [1, 63, 64, 65, 130] {
            let free = Bits::set(count);
            let taken: BTreeSet<usize> = core::iter::from_fn(|| free.take()).collect();
            assert_eq!(taken, (0..count).collect(), "{count}");
            free.give_back(count - 1);
            assert_eq!((free.take(), free.take()), (Some(count - 1), None));
        }
    }

    #[test]
    fn bits_are_given_once_among_threads() {
        let free = Bits::set(70);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mine: Vec<usize> = (0..17).filter_map(|_| free.take()).collect();
                        assert_eq!(mine.len(), 17, "four times 17 are fewer than 70");
                        assert_eq!(mine.iter().collect::<BTreeSet<_>>().len(), 17);
                        mine.into_iter().for_each(|index| free.give_back(index));
                    }
                });
            }
        });
        assert_eq!(core::iter::from_fn(|| free.take()).count(), 70);
    }
}
