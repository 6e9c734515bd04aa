//! The two ends of a copy, as text.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use ugds::uri::{Location, Uri};

/// A file, or a place on a namespace.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    /// A file.
    File(PathBuf),
    /// A place on a namespace.
    Device(Location),
}

/// What starts like a URI is one; everything else is a file.
pub(super) fn parse(name: OsString) -> Result<Endpoint, Box<dyn Error + Send + Sync>> {
    if name.is_empty() {
        return Err("the name is empty; a file or a URI is accepted".into());
    }
    let text = name.to_string_lossy();
    if STREAMS.iter().any(|stream| text == *stream || stream.ends_with('/') && text.starts_with(stream)) {
        let file = if text == "-" { " (./- for a file of that name)" } else { "" };
        return Err(format!("`{text}` is not supported; name a file{file}").into());
    }
    match name.to_str() {
        Some(text) if Uri::is_uri(text) => Ok(Endpoint::Device(text.parse()?)),
        None if Uri::is_uri(&text) => Err(format!("`{text}` is no UTF-8; write other bytes as %NN").into()),
        _ => Ok(Endpoint::File(name.into())),
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Device(location) => write!(f, "{location}"),
        }
    }
}

/// A copy knows its length before it starts and can read it twice, which a stream allows neither of. Replacing what
/// is behind such a name would replace the file that a shell has opened for somebody.
const STREAMS: [&str; 6] = ["-", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn parsed(text: &str) -> Result<Endpoint, String> {
        parse(text.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn schemes_tell_devices_from_files() {
        assert!(matches!(parsed("emu:a"), Ok(Endpoint::Device(_))));
        assert!(matches!(parsed("./emu:a"), Ok(Endpoint::File(_))));
        assert!(matches!(parsed("a#1"), Ok(Endpoint::File(_))));
        assert!(parsed("emu:a#x").is_err());
    }

    #[test]
    fn a_file_may_have_any_name_and_a_stream_is_none() {
        assert!(matches!(parse(OsString::from_vec(vec![0xff, b'a'])), Ok(Endpoint::File(_))));
        let error = parse(OsString::from_vec(b"emu:\xff".to_vec())).unwrap_err().to_string();
        assert!(error.contains("%NN"), "{error}");
        for stream in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/7"] {
            let error = parsed(stream).unwrap_err();
            assert!(error.contains(&format!("`{stream}` is not supported; name a file")), "{error}");
        }
        assert!(matches!(parsed("./-"), Ok(Endpoint::File(_))));
        assert!(parsed("").unwrap_err().contains("empty"));
    }
}
