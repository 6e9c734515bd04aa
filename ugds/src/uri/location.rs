//! A place on a namespace: a URI, `#`, and bytes.

use std::fmt;
use std::str::FromStr;

use super::{Bytes, Uri, UriError};

/// Bytes of a namespace: `URI[#OFFSET[+LENGTH]]`.
///
/// # Examples
///
/// ```
/// use ugds::uri::Location;
///
/// let place: Location = "emu:disk.img?size=1G#1M+64K".parse().unwrap();
/// assert_eq!((place.offset_bytes, place.len_bytes), (1 << 20, Some(65536)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The device and its namespace.
    pub uri: Uri,
    /// Where the bytes start. 0 when the text doesn't say.
    pub offset_bytes: u64,
    /// How many there are. `None` leaves it open.
    pub len_bytes: Option<u64>,
}

impl FromStr for Location {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let Some((uri, place)) = text.split_once('#') else {
            return Ok(Self { uri: Uri::parse(text)?, offset_bytes: 0, len_bytes: None });
        };
        let uri = Uri::parse(uri)?;
        let number = |text: &str| match text.parse::<Bytes>() {
            Ok(Bytes(bytes)) => Ok(bytes),
            Err(source) => Err(UriError::Place { place: place.to_owned(), source }),
        };
        let (offset, length) = place.split_once('+').map_or((place, None), |(at, length)| (at, Some(length)));
        let offset_bytes = number(offset)?;
        let len_bytes = length.map(number).transpose()?;
        if len_bytes == Some(0) || offset_bytes.checked_add(len_bytes.unwrap_or(0)).is_none() {
            return Err(UriError::PlaceRange { place: place.to_owned() });
        }
        Ok(Self { uri, offset_bytes, len_bytes })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uri)?;
        match self.len_bytes {
            Some(len_bytes) => write!(f, "#{}+{}", Bytes(self.offset_bytes), Bytes(len_bytes)),
            None if self.offset_bytes != 0 => write!(f, "#{}", Bytes(self.offset_bytes)),
            None => Ok(()),
        }
    }
}
