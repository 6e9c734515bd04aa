//! Noticing that this process is a child of the one that opened a device.
//!
//! UNSAFETY: registers a handler that runs in the child of a fork, which only adds to an atomic.

#![allow(unsafe_code)]

use nix::libc;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many forks lie between this process and the first caller's.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process in which something was opened.
///
/// A child inherits the memory, but neither the threads nor the right to drive the device: rings, doorbells and
/// locked pages are the parent's. Comparing costs one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // SAFETY: the handler is a function of this program, which does what is allowed after a fork. Without it
            // (when there is no memory for it) a child is not noticed, as before.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still that process.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        // Relaxed: a fork copies the memory of the thread that forked, in order.
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
