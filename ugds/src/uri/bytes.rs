//! Amounts of bytes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `4096`, or with a suffix for a power of 1024: `4K`, `4k`, `4KiB`, up to `T`.
///
/// # Examples
///
/// ```
/// use ugds::uri::Bytes;
///
/// assert_eq!("64K".parse(), Ok(Bytes(65536)));
/// assert_eq!(Bytes(3 << 30).to_string(), "3G");
/// assert_eq!(Bytes(1000).to_string(), "1000");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Why text is no number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BytesError {
    /// It doesn't have the form of one.
    #[error(
        "`{0}` is no number of bytes; a number with or without one of the suffixes K, M, G, T (powers of 1024) is accepted"
    )]
    Form(String),
    /// It has the suffix of a power of 1000.
    #[error("`{text}` is no number of bytes; write {short} or {short}iB (powers of 1024)", short = short(text))]
    Decimal {
        /// The text, such as `4GB`.
        text: String,
    },
    /// It doesn't fit 64 bits.
    #[error("`{0}` is too large; less than 16777216T is accepted")]
    Range(String),
}

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Self, BytesError> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, suffix) = text.split_at(end);
        let shift = shift_of(suffix).filter(|_| !digits.is_empty());
        let shift = shift.ok_or_else(|| not_a_number(text, digits, suffix))?;
        let number: Option<u64> = digits.parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| BytesError::Range(text.to_owned()))
    }
}

impl fmt::Display for Bytes {
    /// Writes the shortest exact form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, shift) in LETTERS.into_iter().rev() {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{letter}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

fn not_a_number(text: &str, digits: &str, suffix: &str) -> BytesError {
    let decimal = matches!(suffix, "kB" | "KB" | "MB" | "GB" | "TB" | "kb" | "mb" | "gb" | "tb");
    let text = text.to_owned();
    if decimal && !digits.is_empty() { BytesError::Decimal { text } } else { BytesError::Form(text) }
}

/// `4G` for `4GB`.
fn short(text: &str) -> String {
    text[..text.len() - 1].to_ascii_uppercase()
}

fn shift_of(suffix: &str) -> Option<u32> {
    let mut characters = suffix.chars();
    let Some(letter) = characters.next() else { return Some(0) };
    let known = LETTERS.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(&letter));
    known.filter(|_| matches!(characters.as_str(), "" | "iB")).map(|(_, shift)| shift)
}

const LETTERS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("4k", 4096), ("4KiB", 4096), ("2M", 2 << 20), ("1T", 1 << 40)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused_with_its_value() {
        for text in ["", "K", "-1", "+1", "1.5G", "4KiBs", "4kib", "4 K", "1E", "0x10", "K4", "4Ki"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert_eq!(error, BytesError::Form(text.to_owned()));
            assert!(error.to_string().contains(&format!("`{text}`")));
        }
        for text in ["18446744073709551616", "16777216T", "99999999999999999999999"] {
            assert_eq!(text.parse::<Bytes>(), Err(BytesError::Range(text.to_owned())));
        }
    }

    #[test]
    fn powers_of_1000_are_told_what_to_write() {
        for (text, write) in
            [("4GB", "write 4G or 4GiB"), ("10kB", "write 10K or 10KiB"), ("1tb", "write 1T or 1TiB")]
        {
            let message = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(message.contains(&format!("`{text}`")) && message.contains(write), "{message}");
        }
        assert_eq!("GB".parse::<Bytes>(), Err(BytesError::Form("GB".to_owned())));
    }

    #[test]
    fn display_is_exact() {
        for bytes in [0, 1, 1000, 1024, 1025, 1 << 20, (1 << 30) + 1024, u64::MAX, 1 << 63] {
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
    }
}
