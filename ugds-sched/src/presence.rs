//! Whether small reads are about.

use crate::atomic::{AtomicU64, Ordering};

/// Remembers small reads for as long as it takes to move some background bytes: a clock made of bytes.
///
/// A caller that reads one block after the other has nothing outstanding between two of them, and is about all the same.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Presence {
    /// Background bytes since the last small read.
    since_bytes: AtomicU64,
    window_bytes: u64,
}

impl Presence {
    /// No small read so far; each is remembered for `window_bytes`.
    pub(crate) fn new(window_bytes: u64) -> Self {
        Self { since_bytes: AtomicU64::new(window_bytes), window_bytes }
    }

    /// Notes a small read.
    #[inline]
    pub(crate) fn note(&self) {
        // Relaxed: a hint. Read first, so that the line stays shared while only small reads are about.
        if self.since_bytes.load(Ordering::Relaxed) != 0 {
            // Relaxed: a hint.
            self.since_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// Whether small reads are about, now that `bytes` in the background follow.
    #[inline]
    pub(crate) fn pass(&self, bytes: u32) -> bool {
        // Relaxed: a hint; an addition that gets lost makes the window a little longer.
        let since = self.since_bytes.load(Ordering::Relaxed);
        if since >= self.window_bytes {
            return false;
        }
        // Relaxed: a hint.
        self.since_bytes.store(since + u64::from(bytes), Ordering::Relaxed);
        true
    }

    /// Whether small reads are about.
    #[inline]
    pub(crate) fn is_seen(&self) -> bool {
        // Relaxed: a hint.
        self.since_bytes.load(Ordering::Relaxed) < self.window_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_remembered_for_the_window() {
        let presence = Presence::new(100);
        assert!(!presence.pass(50));
        presence.note();
        assert!(presence.pass(50) && presence.pass(50));
        assert!(!presence.is_seen() && !presence.pass(50));
        presence.note();
        assert!(presence.is_seen());
    }
}
