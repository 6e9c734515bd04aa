//! What the facade asks of an engine, whatever its backend.

use super::batch::{self, Span, Work};
use super::core::Core;
use super::request::{Reads, Request, Writes};
use crate::{Drain, Error, Namespace, Outcome, Stats};
use nvme_proto::Nsid;
use std::sync::Arc;
use ugds_hal::{Backend, Clock, Event, Instant};
use ugds_mem::{Mapped, Region};
use ugds_queue::Wedge;
use ugds_queue::controller::ControllerEvent;
use ugds_sched::Class;

/// An opened device behind one pointer. Each request is one call of it; everything below is monomorphic.
pub(crate) trait Engine: Send + Sync {
    fn read(&self, request: &Request<'_>) -> Result<(), Error>;
    fn write(&self, request: &Request<'_>) -> Result<(), Error>;
    fn flush(&self, nsid: Nsid) -> Result<(), Error>;
    fn attach(&self, region: &Region) -> Result<Arc<Mapped>, Error>;
    fn detach(&self, mapped: &Mapped, drain: Drain) -> Result<(), Error>;
    fn events(&self) -> Result<Vec<ControllerEvent>, Error>;
    fn stats(&self) -> Box<dyn Fn() -> Stats + Send + Sync>;
    fn now(&self) -> Instant;
    fn wedged(&self) -> Option<Wedge>;
    fn report(&self) -> Option<String>;
    fn close(&self, drain: Drain) -> Result<(), Error>;
    fn open_batch(&self, depth: usize, namespaces: Arc<[Namespace]>) -> Result<Work, Error>;
    fn submit(&self, work: &mut Work) -> Result<usize, Error>;
    fn harvest(&self, work: &mut Work, span: Span, into: &mut Vec<Outcome>) -> Result<usize, Error>;
    fn close_batch(&self, work: &mut Work);
    fn interrupts(&self, class: Class) -> Vec<Event>;
    fn look_through(&self, class: Class) -> Result<(), Error>;
    fn listen(&self, work: &Work, bell: &Event) -> bool;
    fn ignore(&self, work: &Work);
}

impl<B: Backend> Engine for Core<B> {
    fn read(&self, request: &Request<'_>) -> Result<(), Error> {
        request.run::<B, Reads>(self)
    }

    fn write(&self, request: &Request<'_>) -> Result<(), Error> {
        request.run::<B, Writes>(self)
    }

    fn flush(&self, nsid: Nsid) -> Result<(), Error> {
        super::flush::flush(self, nsid)
    }

    fn attach(&self, region: &Region) -> Result<Arc<Mapped>, Error> {
        self.attach(region)
    }

    fn detach(&self, mapped: &Mapped, drain: Drain) -> Result<(), Error> {
        // A child waits for nothing: the commands are its parent's, and it would never see them end.
        self.in_this_process()?;
        Ok(self.detach_with(mapped, drain)?)
    }

    fn events(&self) -> Result<Vec<ControllerEvent>, Error> {
        self.events()
    }

    fn stats(&self) -> Box<dyn Fn() -> Stats + Send + Sync> {
        Box::new(self.stats())
    }

    fn now(&self) -> Instant {
        self.clock().now()
    }

    fn wedged(&self) -> Option<Wedge> {
        self.wedged()
    }

    fn report(&self) -> Option<String> {
        self.report().map(str::to_owned)
    }

    fn close(&self, drain: Drain) -> Result<(), Error> {
        self.close_with(drain)
    }

    fn open_batch(&self, depth: usize, namespaces: Arc<[Namespace]>) -> Result<Work, Error> {
        self.open_batch(depth, namespaces)
    }

    fn submit(&self, work: &mut Work) -> Result<usize, Error> {
        batch::submit(self, work)
    }

    fn harvest(&self, work: &mut Work, span: Span, into: &mut Vec<Outcome>) -> Result<usize, Error> {
        batch::harvest(self, work, span, into)
    }

    fn close_batch(&self, work: &mut Work) {
        batch::close(self, work);
    }

    fn interrupts(&self, class: Class) -> Vec<Event> {
        super::listen::interrupts(self, class)
    }

    fn look_through(&self, class: Class) -> Result<(), Error> {
        super::listen::look_through(self, class)
    }

    fn listen(&self, work: &Work, bell: &Event) -> bool {
        super::listen::listen(self, work, bell)
    }

    fn ignore(&self, work: &Work) {
        super::listen::ignore(self, work);
    }
}
