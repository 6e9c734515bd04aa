//! What a signal leaves behind: no temporary files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Files and folders to remove. While it is locked, nothing is made and nothing removed.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// While it lives, a signal that ends the program removes what is at its path.
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Makes a file or a folder whose path is `path`.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) fn make<T>(
        make: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> io::Result<(T, Self)> {
        let mut temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
        let made = make()?;
        let path = path(&made).to_owned();
        temporary.push(path.clone());
        Ok((made, Self(path)))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// From now on, signals that end the program clean up first, and a limit on the size of files is an error of the
/// write and not the end of the program.
pub(crate) fn on_signals() {
    // A signal that has a handler lets the write fail with EFBIG. Without handlers all works but the cleaning up.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let ignored = ignored_signals();
    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let Ok(mut signals) = Signals::new(ending) else { return };
    let _ = std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // It is not unlocked again, so that nothing new is made before the end.
            let temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
            temporary.iter().for_each(|path| remove(path));
            let _ = emulate_default_handler(signal);
        }
    });
}

/// Nobody is left to be told of errors.
fn remove(path: &Path) {
    if path.is_dir() {
        let _ = std::fs::remove_dir_all(path);
    } else {
        let _ = std::fs::remove_file(path);
    }
}

/// A bit for each signal that whoever started the program wants it to ignore, as `nohup` does.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
