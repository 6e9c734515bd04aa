//! Text of a fixed length, as a device gives it.

use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An ASCII string of `N` bytes, padded with spaces.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Ascii<const N: usize>(pub [u8; N]);

impl<const N: usize> Ascii<N> {
    /// `text`, padded with spaces and cut at `N` bytes.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut bytes = [b' '; N];
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        Self(bytes)
    }

    /// The text without spaces at its ends. It ends before the first byte that does not print, so that a device
    /// cannot send control sequences to a terminal.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(N);
        core::str::from_utf8(&self.0[..end]).unwrap_or_default().trim_matches(' ')
    }
}

impl<const N: usize> fmt::Display for Ascii<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Ascii<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_trimmed_and_cut_where_it_stops_printing() {
        let cases: [([u8; 8], &str); 6] = [
            (*b"S123    ", "S123"),
            (*b"    S123", "S123"),
            (*b"A B\0\0\0\0\0", "A B"),
            (*b"\x1b[2Jevil", ""),
            (*b"abc\xffdefg", "abc"),
            (*b"        ", ""),
        ];
        for (bytes, text) in cases {
            assert_eq!(Ascii(bytes).as_str(), text);
        }
    }

    #[test]
    fn text_is_padded_and_cut() {
        assert_eq!(Ascii::<4>::from_text("ab").0, *b"ab  ");
        assert_eq!(Ascii::<4>::from_text("abcdef").0, *b"abcd");
    }
}
