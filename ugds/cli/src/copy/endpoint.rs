//! The two ends of a copy, as text.

use std::fmt;
use std::path::PathBuf;

use ugds::uri::{Location, Uri, UriError};

/// A file, or a place on a namespace.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    /// A file.
    File(PathBuf),
    /// A place on a namespace.
    Device(Location),
}

/// What starts like a URI is one; everything else is a file.
pub(super) fn parse(text: &str) -> Result<Endpoint, UriError> {
    if Uri::is_uri(text) {
        return text.parse().map(Endpoint::Device);
    }
    Ok(Endpoint::File(text.into()))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Device(location) => write!(f, "{location}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_tell_devices_from_files() {
        assert!(matches!(parse("emu:a"), Ok(Endpoint::Device(_))));
        assert!(matches!(parse("./emu:a"), Ok(Endpoint::File(_))));
        assert!(matches!(parse("a#1"), Ok(Endpoint::File(_))));
        assert!(parse("emu:a#x").is_err());
    }
}
