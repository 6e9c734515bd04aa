//! The socket of a device, and the thread behind it.

use super::folder::{self, PublishError};
use crate::stats::{Stats, json_text};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{Shutdown, getsockopt, shutdown};
use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use ugds_hal::Process;

/// Reads the statistics of a device.
pub(crate) type Source = dyn Fn() -> Stats + Send + Sync;

/// A device whose statistics others can read. Dropping it ends that.
pub(crate) struct Publisher {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

struct Shared {
    listener: UnixListener,
    /// Whether the thread is to end.
    over: AtomicBool,
    head: String,
    stats: Arc<Source>,
}

impl Publisher {
    /// Publishes `stats` under the name `name`. `device` is shown with it.
    pub(crate) fn new(name: &str, device: &str, stats: Arc<Source>) -> Result<Self, PublishError> {
        let (listener, path) = bind(&folder::make()?)?;
        let [name, device] = [name, device].map(json_text);
        let head = format!("{{\"ugds\":1,\"pid\":{},\"name\":{name},\"device\":{device}", std::process::id());
        let shared = Arc::new(Shared { listener, over: AtomicBool::new(false), head, stats });
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new().name("ugds-stats".into()).spawn(move || served.serve());
        let mut publisher = Self { path, shared, thread: None, process: Process::this() };
        publisher.thread =
            Some(thread.map_err(PublishError::system("cannot start the thread of", &publisher.path))?);
        Ok(publisher)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // Socket and thread are the parent's.
            return;
        }
        // Relaxed: the shutdown below is what wakes the thread.
        self.shared.over.store(true, Ordering::Relaxed);
        // Nobody is there to be told of errors of either.
        let _ = shutdown(self.shared.listener.as_raw_fd(), Shutdown::Both);
        let _ = fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self) {
        while !self.is_over() {
            match self.listener.accept() {
                Ok((stream, _)) => self.answer(&stream),
                Err(_) if self.is_over() => return,
                // No descriptor left, say: not again at once.
                Err(_) => thread::sleep(BREATH),
            }
        }
    }

    fn is_over(&self) -> bool {
        // Relaxed: see where it is set.
        self.over.load(Ordering::Relaxed)
    }

    /// Gives whoever connected the statistics, unless he is somebody else's or does not take them.
    fn answer(&self, mut stream: &UnixStream) {
        let ours = geteuid().as_raw();
        let friend =
            getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == ours || peer.uid() == 0);
        if !friend || stream.set_write_timeout(Some(BREATH)).is_err() {
            return;
        }
        let line = format!("{},\"stats\":{}}}\n", self.head, (self.stats)().to_json());
        let (mut rest, deadline) = (line.as_bytes(), Instant::now() + PATIENCE);
        while !rest.is_empty() && !self.is_over() && Instant::now() < deadline {
            match stream.write(rest) {
                Ok(0) => return,
                Ok(count) => rest = &rest[count..],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return,
            }
        }
    }
}

/// A socket under the next name that is free.
fn bind(folder: &Path) -> Result<(UnixListener, PathBuf), PublishError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..TRIES {
        // Relaxed: only that it is another number.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}.{number}", std::process::id()));
        match UnixListener::bind(&path) {
            Ok(listener) => {
                // The folder lets nobody in either.
                fs::set_permissions(&path, Permissions::from_mode(0o600))
                    .map_err(PublishError::system("cannot protect", &path))?;
                return Ok((listener, path));
            }
            // Of a dead process with the same number, or of one in another name space of processes.
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(PublishError::system("cannot make the socket", &path)(error)),
        }
    }
    let path = folder.to_owned();
    let reason = std::io::Error::other("all names of this process are taken; `ugds stat` removes stale ones");
    Err(PublishError::System { what: "cannot make a socket in", path, reason })
}

/// How long the thread does not look at whether it is to end, while it waits for somebody.
const BREATH: Duration = Duration::from_millis(50);
/// How long somebody may take to take a line.
const PATIENCE: Duration = Duration::from_secs(2);
/// Names that are tried.
const TRIES: u32 = 64;
