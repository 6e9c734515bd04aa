//! Interrupts as file descriptors.

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

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
        assert_eq!(event.clear().unwrap(), 2);
        assert_eq!(event.clear().unwrap(), 0);
    }
}
