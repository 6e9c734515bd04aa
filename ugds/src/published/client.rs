//! Reading what others publish. Nothing that is found is trusted.

use super::folder::{PublishError, check, folder};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A socket that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Entry {
    /// The process, as its socket is named.
    pub pid: u32,
    /// Which of the devices of that process.
    pub number: u32,
    /// The socket.
    pub path: PathBuf,
}

/// Why statistics can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Somebody could have put anything into the folder.
    #[error(transparent)]
    Folder(#[from] PublishError),
    /// The operating system refused.
    #[error("cannot read {path}: {reason}", path = path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// Somebody else answers there.
    #[error("{path} is answered by user {user}; the user of this process, or root, is accepted", path = path.display())]
    Stranger {
        /// The socket.
        path: PathBuf,
        /// Who answers.
        user: u32,
    },
    /// Nobody answers in time, though somebody listens: a child of a dead process may have inherited the socket.
    #[error("{path} was not answered within {waited_ms} ms", path = path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The answer has no end.
    #[error("{path} answers with more than {most_bytes} bytes", path = path.display())]
    TooLong {
        /// The socket.
        path: PathBuf,
        /// What is accepted.
        most_bytes: usize,
    },
    /// The answer is no whole line of text.
    #[error("{path} answers with {len_bytes} bytes that are no line of text", path = path.display())]
    NoLine {
        /// The socket.
        path: PathBuf,
        /// How many there are.
        len_bytes: usize,
    },
}

/// The sockets of this user's devices, in order of their processes.
///
/// # Errors
///
/// [`ReadError::Folder`] and [`ReadError::System`]. That there is no folder is no error.
pub fn list() -> Result<Vec<Entry>, ReadError> {
    let folder = folder();
    match fs::symlink_metadata(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        _ => check(&folder)?,
    }
    let system = |reason| ReadError::System { path: folder.clone(), reason };
    let mut entries = Vec::new();
    for found in fs::read_dir(&folder).map_err(system)? {
        let found = found.map_err(system)?;
        // What is no socket, or has another name, is nobody's here.
        let is_socket = found.file_type().is_ok_and(|kind| kind.is_socket());
        entries.extend(Entry::of(found.path()).filter(|_| is_socket));
    }
    entries.sort();
    Ok(entries)
}

impl Entry {
    fn of(path: PathBuf) -> Option<Self> {
        let (pid, number) = path.file_name()?.to_str()?.split_once('.')?;
        let digits =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        Some(Self { pid: digits(pid)?, number: digits(number)?, path })
    }
}

/// Reads the line of JSON that a device tells of itself, without the newline. `None` when the process is gone; the socket
/// that it left is removed.
///
/// # Errors
///
/// [`ReadError`].
pub fn read(entry: &Entry) -> Result<Option<String>, ReadError> {
    let path = &entry.path;
    let stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            // Nobody has it open any more. If it can't be removed, the next one who looks tries again.
            let _ = fs::remove_file(path);
            return Ok(None);
        }
        Err(reason) => return Err(ReadError::System { path: path.clone(), reason }),
    };
    let user = match getsockopt(&stream, PeerCredentials) {
        Ok(peer) => peer.uid(),
        Err(reason) => return Err(ReadError::System { path: path.clone(), reason: reason.into() }),
    };
    if user != geteuid().as_raw() && user != 0 {
        return Err(ReadError::Stranger { path: path.clone(), user });
    }
    line(path, &stream).map(Some)
}

fn line(path: &Path, mut stream: &UnixStream) -> Result<String, ReadError> {
    let system = |reason| ReadError::System { path: path.to_owned(), reason };
    let silent = || ReadError::Silent {
        path: path.to_owned(),
        waited_ms: PATIENCE.as_millis().try_into().unwrap_or(0),
    };
    let deadline = Instant::now() + PATIENCE;
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; CHUNK_BYTES]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent());
        }
        stream.set_read_timeout(Some(left)).map_err(system)?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(silent()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(reason) => return Err(system(reason)),
        }
        if bytes.len() > MOST_BYTES {
            return Err(ReadError::TooLong { path: path.to_owned(), most_bytes: MOST_BYTES });
        }
    }
    let len_bytes = bytes.len();
    let no_line = || ReadError::NoLine { path: path.to_owned(), len_bytes };
    let text = String::from_utf8(bytes).map_err(|_| no_line())?;
    let line = text.strip_suffix('\n').filter(|line| !line.contains('\n')).ok_or_else(no_line)?;
    Ok(line.to_owned())
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// 1024 queues with full histograms are less than 16 MiB.
const MOST_BYTES: usize = 32 << 20;
const CHUNK_BYTES: usize = 64 << 10;
