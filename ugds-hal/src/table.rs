//! A table that any index finds something in.
//!
//! UNSAFETY: reads without a bounds check, since the index is masked.

#![allow(unsafe_code)]

use alloc::boxed::Box;

/// A power of two of values. An index is taken modulo that, which is a mask, so that looking something up by a number
/// from outside needs no check.
///
/// # Invariants
///
/// `mask + 1` values are there.
#[derive(Debug)]
pub struct Table<T> {
    values: Box<[T]>,
    mask: u32,
}

impl<T> Table<T> {
    /// Makes a table of `exponent` doublings, at most 15, with the value that `make` gives for each index.
    #[must_use]
    pub fn new(exponent: u32, make: impl FnMut(u16) -> T) -> Self {
        let count = 1u16 << exponent.min(15);
        // INVARIANT: one value for each index below a power of two.
        Self { values: (0..count).map(make).collect(), mask: u32::from(count) - 1 }
    }

    /// The bits of an index that count.
    #[inline]
    #[must_use]
    pub fn mask(&self) -> u16 {
        self.mask as u16
    }

    /// The value at `index`, modulo the size.
    #[inline]
    #[must_use]
    pub fn at(&mut self, index: u32) -> &mut T {
        // SAFETY: the type invariant.
        unsafe { at(&mut self.values, self.mask, index) }
    }

    /// The table for many accesses in a row, with what they need at hand.
    #[inline]
    #[must_use]
    pub fn hold(&mut self) -> Held<'_, T> {
        // INVARIANT: the table's.
        Held { values: &mut self.values, mask: self.mask }
    }

    /// All values, from index 0 on.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All values, to be changed.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

/// A [`Table`] that is borrowed with its mask beside it, so that neither is read again from memory that changes.
///
/// # Invariants
///
/// As for the table.
#[derive(Debug)]
pub struct Held<'t, T> {
    values: &'t mut [T],
    mask: u32,
}

impl<T> Held<'_, T> {
    /// As [`Table::at`].
    #[inline]
    #[must_use]
    pub fn at(&mut self, index: u32) -> &mut T {
        // SAFETY: the type invariant.
        unsafe { at(self.values, self.mask, index) }
    }
}

/// # Safety
///
/// There are `mask + 1` values.
#[inline]
unsafe fn at<T>(values: &mut [T], mask: u32, index: u32) -> &mut T {
    // SAFETY: the index is masked, and `mask + 1` values are there.
    unsafe { values.get_unchecked_mut((index & mask) as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_finds_the_value_of_its_low_bits() {
        for exponent in [0, 1, 5, 15] {
            let mut table = Table::new(exponent, |index| index);
            assert_eq!(table.values().len(), 1 << exponent);
            for index in [0, 1, 2, 31, 32, 33, 0x7fff, 0x8000, 0xffff, 0x1_0003, u32::MAX] {
                let expected = index as u16 & table.mask();
                assert_eq!((*table.at(index), *table.hold().at(index)), (expected, expected));
            }
        }
    }
}
