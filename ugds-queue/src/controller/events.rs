//! What the controller tells without being asked.

use super::{Controller, ControllerError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use nvme_proto::Nsid;
use nvme_proto::admin::LogId;
use nvme_proto::event::Event;
use nvme_proto::log::{ChangedNamespaces, Changes, ErrorEntry, Smart};
use ugds_hal::Backend;

/// An asynchronous event, with what its log says.
#[derive(Clone, Debug)]
pub struct ControllerEvent {
    /// What happened.
    pub event: Event,
    /// What the log that goes with it says.
    pub detail: Detail,
}

/// The contents of an event's log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Detail {
    /// The event has no log that is known here, or the controller would not show it.
    None,
    /// The state of the device's health.
    Health(Box<Smart>),
    /// The last entry of the error log.
    Error(Box<ErrorEntry>),
    /// The namespaces that changed; `None` when they are too many to be named.
    Namespaces(Option<Vec<Nsid>>),
}

impl<B: Backend> Controller<B> {
    /// Takes the events that came since the last time. Each is told once; reading its log lets the next one come.
    ///
    /// # Errors
    ///
    /// [`ControllerError::Admin`] when the admin queue can't be used any more.
    pub fn events(&mut self) -> Result<Vec<ControllerEvent>, ControllerError> {
        let events = self.admin.take_events()?;
        let mut told = Vec::with_capacity(events.len());
        for event in events {
            told.push(ControllerEvent { event, detail: self.detail(event)? });
            self.admin.listen(1)?;
        }
        Ok(told)
    }

    fn detail(&mut self, event: Event) -> Result<Detail, ControllerError> {
        Ok(match event.log {
            LogId::SMART => self.admin.log::<Smart>(LogId::SMART)?.map_or(Detail::None, Detail::Health),
            LogId::ERROR => self.admin.log::<ErrorEntry>(LogId::ERROR)?.map_or(Detail::None, Detail::Error),
            LogId::CHANGED_NAMESPACES => {
                let log = self.admin.log::<ChangedNamespaces>(LogId::CHANGED_NAMESPACES)?;
                log.map_or(Detail::None, |log| Detail::Namespaces(changed(&log)))
            }
            _ => Detail::None,
        })
    }
}

fn changed(log: &ChangedNamespaces) -> Option<Vec<Nsid>> {
    match log.changes() {
        Changes::TooMany => None,
        Changes::These(namespaces) => Some(namespaces.collect()),
    }
}
