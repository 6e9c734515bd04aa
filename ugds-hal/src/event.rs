//! Interrupts as file descriptors.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// The descriptor that an interrupt vector signals. Clones share one counter.
///
/// It can be waited for with `poll` or by any event loop through [`AsFd`]; [`clear`](Self::clear) then resets it. A
/// signal is a hint to look at the completion queue, never the completion itself.
#[derive(Clone, Debug)]
pub struct Event {
    fd: Arc<EventFd>,
}

impl Event {
    /// Creates an event that nobody has signalled.
    ///
    /// # Errors
    ///
    /// The operating system's, usually that the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self { fd: Arc::new(EventFd::from_value_and_flags(0, flags)?) })
    }

    /// Signals it.
    pub fn signal(&self) {
        // The only failure of a nonblocking eventfd is a full counter, and then it is signalled already.
        let _ = self.fd.write(1);
    }

    /// Waits until it is signalled, at most `limit`. `false` when the time is over.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let mut watched = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match poll(&mut watched, limit) {
            Ok(ready) => Ok(ready != 0),
            // A signal is as good as a moment of waiting; the caller looks and waits again.
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Resets it, and returns how often it was signalled since the last time.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn clear(&self) -> io::Result<u64> {
        match self.fd.read() {
            Ok(count) => Ok(count),
            Err(Errno::EAGAIN) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_counted_and_cleared() {
        let event = Event::new().unwrap();
        assert_eq!(event.clear().unwrap(), 0);
        event.signal();
        event.clone().signal();
        assert!(event.wait(Duration::ZERO).unwrap());
        assert_eq!(event.clear().unwrap(), 2);
        assert!(!event.wait(Duration::from_millis(1)).unwrap());
        assert_eq!(event.clear().unwrap(), 0);
    }
}
