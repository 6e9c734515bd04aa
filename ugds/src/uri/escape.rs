//! File names within a URI: what would end the name early is written `%` and two hexadecimal digits.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::UriError;

/// The file name that `text` stands for.
pub(super) fn decode(text: &str) -> Result<PathBuf, UriError> {
    if let Some(character) = text.chars().find(|character| RESERVED.contains(character)) {
        let encoded = format!("%{:02X}", u32::from(character));
        return Err(UriError::FileCharacter { text: text.to_owned(), character, encoded });
    }
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let byte = byte_of(piece).ok_or_else(|| bad_escape(text, piece))?;
        bytes.push(byte);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    if bytes.contains(&0) {
        return Err(bad_escape(text, "00"));
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// The text that stands for `path`.
pub(super) fn encode(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || RESERVED.contains(&character) || character.is_ascii_control() {
                text.push_str(&format!("%{:02X}", u32::from(character)));
            } else {
                text.push(character);
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}

/// The byte that the first two characters of `piece` say.
fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

fn bad_escape(text: &str, piece: &str) -> UriError {
    let sequence = std::iter::once('%').chain(piece.chars().take(2)).collect();
    UriError::Escape { text: text.to_owned(), sequence }
}

/// Characters that mean something in a URI and so can't stand for themselves.
const RESERVED: [char; 3] = ['?', '#', '&'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_but_nul_survives() {
        let bytes: Vec<u8> = (1..=255).collect();
        let path = PathBuf::from(OsString::from_vec(bytes));
        assert_eq!(decode(&encode(&path)).unwrap(), path);
    }

    #[test]
    fn only_what_must_be_is_encoded() {
        assert_eq!(encode(Path::new("/tmp/Füße +1=ok.img")), "/tmp/Füße +1=ok.img");
        assert_eq!(encode(Path::new("100%?#&\n")), "100%25%3F%23%26%0A");
    }

    #[test]
    fn broken_sequences_are_named() {
        for (text, sequence) in
            [("a%", "%"), ("a%2", "%2"), ("a%zz", "%zz"), ("a%+1b", "%+1"), ("%00", "%00"), ("%ü", "%ü")]
        {
            let message = decode(text).unwrap_err().to_string();
            assert!(message.contains(&format!("`{sequence}`")), "{message}");
        }
        assert!(decode("a&b").unwrap_err().to_string().contains("%26"));
    }
}
