//! Asynchronous events: raised by the model, delivered to requests that wait for them.

use nvme_proto::Cid;
use nvme_proto::admin::{AsyncEventConfig, LogId};
use nvme_proto::event::{ErrorEvent, Event, HealthEvent, NoticeEvent};
use std::collections::VecDeque;

/// Something that the host may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// A doorbell of no queue was written.
    InvalidDoorbellRegister,
    /// A doorbell got a value that can't be.
    InvalidDoorbellValue,
    /// The subsystem's reliability is degraded.
    Reliability,
    /// The temperature crossed a threshold.
    Temperature,
    /// The spare capacity fell below its threshold.
    Spare,
    /// A namespace was attached, detached or changed.
    NamespaceChanged,
}

impl AsyncEvent {
    /// What the completion of the request says.
    #[must_use]
    pub const fn event(self) -> Event {
        match self {
            Self::InvalidDoorbellRegister => Event::error(ErrorEvent::INVALID_DOORBELL_REGISTER),
            Self::InvalidDoorbellValue => Event::error(ErrorEvent::INVALID_DOORBELL_VALUE),
            Self::Reliability => Event::health(HealthEvent::RELIABILITY),
            Self::Temperature => Event::health(HealthEvent::TEMPERATURE),
            Self::Spare => Event::health(HealthEvent::SPARE),
            Self::NamespaceChanged => {
                Event::notice(NoticeEvent::NAMESPACE_CHANGED, LogId::CHANGED_NAMESPACES)
            }
        }
    }

    /// The log that tells more, and whose reading lets the next event of the kind come.
    #[must_use]
    pub const fn log(self) -> LogId {
        self.event().log
    }

    fn is_enabled(self, config: AsyncEventConfig) -> bool {
        match self {
            // Errors are always told.
            Self::InvalidDoorbellRegister | Self::InvalidDoorbellValue => true,
            Self::Spare => config.smart() & 1 << 0 != 0,
            Self::Temperature => config.smart() & 1 << 1 != 0,
            Self::Reliability => config.smart() & 1 << 2 != 0,
            Self::NamespaceChanged => config.nan(),
        }
    }
}

/// The requests and the events of one controller.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) config: AsyncEventConfig,
    requests: VecDeque<Cid>,
    pending: VecDeque<AsyncEvent>,
    /// Logs that the host was pointed to and has not read since.
    masked: Vec<LogId>,
}

impl Default for Events {
    fn default() -> Self {
        let config = AsyncEventConfig::new();
        Self { config, requests: VecDeque::new(), pending: VecDeque::new(), masked: Vec::new() }
    }
}

impl Events {
    /// Notes an event. One whose log is yet to be read needs no telling: the log will say it.
    pub(super) fn raise(&mut self, event: AsyncEvent) {
        if event.is_enabled(self.config)
            && !self.masked.contains(&event.log())
            && !self.pending.contains(&event)
        {
            self.pending.push_back(event);
        }
    }

    /// Takes a request. `false` when there are too many.
    pub(super) fn request(&mut self, cid: Cid) -> bool {
        let fits = self.requests.len() < MAX_REQUESTS;
        if fits {
            self.requests.push_back(cid);
        }
        fits
    }

    /// Takes a request back.
    pub(super) fn withdraw(&mut self, cid: Cid) -> bool {
        let before = self.requests.len();
        self.requests.retain(|request| *request != cid);
        self.requests.len() != before
    }

    /// The next request that completes, with its event.
    pub(super) fn deliver(&mut self) -> Option<(Cid, AsyncEvent)> {
        let masked = &self.masked;
        let index = self.pending.iter().position(|event| !masked.contains(&event.log()))?;
        let cid = self.requests.pop_front()?;
        let event = self.pending.remove(index)?;
        self.masked.push(event.log());
        Some((cid, event))
    }

    /// The host has read a log: its events are told, and new ones may come.
    pub(super) fn acknowledge(&mut self, log: LogId) {
        self.masked.retain(|masked| *masked != log);
        self.pending.retain(|event| event.log() != log);
    }
}

/// `AERL` + 1.
const MAX_REQUESTS: usize = AERL_Z as usize + 1;
/// `AERL` of Identify Controller, 0's based.
pub(super) const AERL_Z: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_once_until_its_log_is_read() {
        let mut events = Events::default();
        events.raise(AsyncEvent::NamespaceChanged);
        assert!(events.request(Cid(1)) && events.request(Cid(2)));
        assert_eq!(events.deliver(), None, "not enabled");
        events.config = AsyncEventConfig::new().with_nan(true);
        events.raise(AsyncEvent::NamespaceChanged);
        events.raise(AsyncEvent::NamespaceChanged);
        assert_eq!(events.deliver(), Some((Cid(1), AsyncEvent::NamespaceChanged)));
        assert_eq!(AsyncEvent::NamespaceChanged.event().to_result(), 0x0004_0002);
        events.raise(AsyncEvent::NamespaceChanged);
        assert_eq!(events.deliver(), None);
        events.acknowledge(LogId::CHANGED_NAMESPACES);
        assert_eq!(events.deliver(), None);
        events.raise(AsyncEvent::NamespaceChanged);
        assert_eq!(events.deliver(), Some((Cid(2), AsyncEvent::NamespaceChanged)));
    }

    #[test]
    fn requests_are_limited_and_can_be_withdrawn() {
        let mut events = Events::default();
        assert!((0..4).all(|cid| events.request(Cid(cid))));
        assert!(!events.request(Cid(4)));
        assert!(events.withdraw(Cid(0)) && !events.withdraw(Cid(0)));
        events.raise(AsyncEvent::InvalidDoorbellValue);
        events.raise(AsyncEvent::InvalidDoorbellRegister);
        assert_eq!(events.deliver().unwrap().0, Cid(1));
        assert_eq!(events.deliver(), None, "the error log was not read");
    }
}
