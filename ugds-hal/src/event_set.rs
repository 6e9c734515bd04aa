//! Several events and an alarm behind one descriptor.

use crate::Event;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A descriptor that is readable while one of a set of events is signalled, or its alarm went off. It is for event loops
/// that watch one descriptor for everything that a device may have to say.
#[derive(Debug)]
pub struct EventSet {
    epoll: Epoll,
    alarm: TimerFd,
}

impl EventSet {
    /// Watches `events`, and an alarm that is not set.
    ///
    /// # Errors
    ///
    /// The operating system's, usually that the process has no descriptor left.
    pub fn new<'e>(events: impl IntoIterator<Item = &'e Event>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let alarm =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&alarm, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        for event in events {
            epoll.add(event, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        Ok(Self { epoll, alarm })
    }

    /// Lets the alarm go off every `interval` from now on.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn set_alarm(&self, interval: Duration) -> io::Result<()> {
        let interval = TimeSpec::from(interval.max(SHORTEST));
        Ok(self.alarm.set(Expiration::Interval(interval), TimerSetTimeFlags::empty())?)
    }

    /// Takes the alarm back.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn stop_alarm(&self) -> io::Result<()> {
        Ok(self.alarm.unset()?)
    }

    /// Whether the alarm went off since the last time.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn take_alarm(&self) -> io::Result<bool> {
        match self.alarm.wait() {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for EventSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

/// An alarm of nothing would be none.
const SHORTEST: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn is_readable(set: &EventSet, limit: PollTimeout) -> bool {
        poll(&mut [PollFd::new(set.as_fd(), PollFlags::POLLIN)], limit).unwrap() != 0
    }

    #[test]
    fn it_is_readable_while_one_of_its_events_is_signalled() {
        let events = [Event::new().unwrap(), Event::new().unwrap()];
        let set = EventSet::new(&events).unwrap();
        assert!(!is_readable(&set, PollTimeout::ZERO));
        events[1].signal();
        assert!(is_readable(&set, PollTimeout::NONE) && is_readable(&set, PollTimeout::ZERO));
        events[1].clear().unwrap();
        assert!(!is_readable(&set, PollTimeout::ZERO));
    }

    #[test]
    fn an_alarm_goes_off_until_it_is_stopped() {
        let set = EventSet::new([]).unwrap();
        assert!(!set.take_alarm().unwrap());
        set.set_alarm(Duration::from_millis(1)).unwrap();
        for _ in 0..2 {
            assert!(is_readable(&set, PollTimeout::NONE));
            assert!(set.take_alarm().unwrap());
        }
        set.stop_alarm().unwrap();
        assert!(!is_readable(&set, PollTimeout::ZERO) && !set.take_alarm().unwrap());
        set.set_alarm(Duration::ZERO).unwrap();
        assert!(is_readable(&set, PollTimeout::NONE));
    }
}
