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
        Self::wait_any(&[self], limit)
    }

    /// Waits until one of `events` is signalled, at most `limit`, which is rounded up to milliseconds. `false` when the
    /// time is over.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn wait_any(events: &[&Self], limit: Duration) -> io::Result<bool> {
        let millis = limit.as_nanos().div_ceil(1_000_000);
        let limit = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        let ready = match events {
            [] => poll(&mut [], limit),
            // Somebody who waits for each of his commands allocates for none.
            few if few.len() <= FEW => {
                let mut watched: [_; FEW] = std::array::from_fn(|at| few[at.min(few.len() - 1)].watched());
                poll(&mut watched[..few.len()], limit)
            }
            many => poll(&mut many.iter().map(|event| event.watched()).collect::<Vec<_>>(), limit),
        };
        match ready {
            Ok(ready) => Ok(ready != 0),
            // A signal is as good as a moment of waiting; the caller looks and waits again.
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn watched(&self) -> PollFd<'_> {
        PollFd::new(self.as_fd(), PollFlags::POLLIN)
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

const FEW: usize = 32;

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

    #[test]
    fn any_of_several_ends_the_wait() {
        for count in [2, FEW, FEW + 1, 2 * FEW] {
            let events: Vec<_> = (0..count).map(|_| Event::new().unwrap()).collect();
            let events: Vec<_> = events.iter().collect();
            assert!(!Event::wait_any(&events, Duration::from_micros(1)).unwrap());
            events[count - 1].signal();
            assert!(Event::wait_any(&events, Duration::from_secs(600)).unwrap());
            assert!(!Event::wait_any(&events[..count - 1], Duration::ZERO).unwrap());
        }
        assert!(!Event::wait_any(&[], Duration::ZERO).unwrap());
    }
}
