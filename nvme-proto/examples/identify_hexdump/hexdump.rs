//! Reading hex dumps: those of `xxd`, `xxd -p` and `hexdump -C`.

use std::fmt;

/// What is wrong with a dump, and where: line and column count from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for Error {}

/// The bytes of a dump. A line `*` stands for as many copies of the line before it as the next offset asks for.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>, Error> {
    if is_of_another_kind(text) {
        let what = "a dump of another kind, as of `od`; those of xxd, xxd -p and hexdump -C are accepted";
        return Err(Error { line: 1, column: 1, what: what.to_owned() });
    }
    let mut bytes = Vec::new();
    let mut repeated = false;
    let with_offsets = text.lines().find(|line| !line.trim().is_empty()).is_some_and(has_offset);
    for (index, line) in text.lines().enumerate() {
        let error = |column, what| Error { line: index + 1, column, what };
        if line.trim() == "*" {
            repeated = true;
            continue;
        }
        let mut hex = Columns { line, from: 0, to: line.len() };
        if with_offsets && !line.trim().is_empty() {
            let offset = hex.take_offset().map_err(|(column, what)| error(column, what))?;
            if std::mem::take(&mut repeated) {
                repeat_row(&mut bytes, offset);
            }
            if offset != bytes.len() {
                let what = format!("offset {offset:x}h, but {:x}h bytes stand before it", bytes.len());
                return Err(error(1, what));
            }
        }
        hex.append_to(&mut bytes).map_err(|(column, what)| error(column, what))?;
    }
    Ok(bytes)
}

/// Whether a line begins with an offset: digits, then a colon (xxd) or two spaces or nothing (hexdump -C).
fn has_offset(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_hexdigit).count();
    let behind = &line[digits..];
    digits > 0 && (behind.starts_with(':') || behind.starts_with("  "))
}

/// Whether `text` is what `od` or a plain `hexdump` prints: one space behind the offset, which would be read as bytes,
/// words in the order of the machine, and the length alone on the last line.
fn is_of_another_kind(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some((offset, words)) = lines.next().and_then(|line| line.split_once(' ')) else { return false };
    let is_zero = offset.len() >= OD_OFFSET_DIGITS && offset.bytes().all(|digit| digit == b'0');
    let other_width = words.split_whitespace().next().is_some_and(|word| word.len() != offset.len());
    let ends_with_length = lines.next_back().is_some_and(|line| line.trim_end().len() == offset.len());
    is_zero && !words.starts_with(' ') && (other_width || ends_with_length)
}

/// Appends copies of the last 16 bytes up to `offset`, which no dump of one page has above a mebibyte.
fn repeat_row(bytes: &mut Vec<u8>, offset: usize) {
    let Some(start) = bytes.len().checked_sub(16) else { return };
    let row = bytes[start..].to_vec();
    while bytes.len() + row.len() <= offset.min(1 << 20) {
        bytes.extend_from_slice(&row);
    }
}

/// The columns of a line that hold bytes.
struct Columns<'a> {
    line: &'a str,
    from: usize,
    to: usize,
}

type InLine<T> = Result<T, (usize, String)>;

impl Columns<'_> {
    /// The offset that the line begins with; what remains are its bytes, without the text at the end.
    fn take_offset(&mut self) -> InLine<usize> {
        let digits = self.line.bytes().take_while(u8::is_ascii_hexdigit).count();
        let offset = usize::from_str_radix(&self.line[..digits], 16);
        let offset = offset.map_err(|_| (1, "the line does not begin with an offset".to_owned()))?;
        self.from = digits;
        if self.line[digits..].starts_with(':') {
            self.from += 1;
            // xxd has one space between its groups, and two before the text.
            self.to = self.line[self.from..].find("  ").map_or(self.to, |at| self.from + at);
        } else {
            self.to = self.line.find('|').unwrap_or(self.to);
        }
        Ok(offset)
    }

    fn append_to(&self, bytes: &mut Vec<u8>) -> InLine<()> {
        let mut half = None;
        for (at, character) in self.line[self.from..self.to].char_indices() {
            let column = self.line[..self.from + at].chars().count() + 1;
            match (character.to_digit(16), half) {
                (Some(digit), None) => half = Some((digit as u8, column)),
                (Some(digit), Some((high, _))) => {
                    bytes.push(high << 4 | digit as u8);
                    half = None;
                }
                (None, None) if character.is_whitespace() => {}
                (None, _) => return Err((column, format!("{character:?} is no hexadecimal digit"))),
            }
        }
        half.map_or(Ok(()), |(_, column)| Err((column, "half a byte".to_owned())))
    }
}

/// `od -A x` writes offsets of at least so many digits, `hexdump` of one more.
const OD_OFFSET_DIGITS: usize = 6;
