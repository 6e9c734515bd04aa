//! One opened device: its controller, its queues, and the rule that chooses among them.

use super::channel::Channel;
use crate::error::Error;
use crate::stats::{QueueStats, Stats};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use ugds_hal::Backend;
use ugds_mem::{Mapped, Region};
use ugds_queue::controller::{Controller, Options};
use ugds_queue::{Busy, QueuePair, Wedge};
use ugds_sched::{Place, RoundRobin};

/// The generic part of a device.
pub(crate) struct Core<B: Backend> {
    channels: Box<[Channel<B::Port>]>,
    queue_count: NonZeroUsize,
    placement: RoundRobin,
    backend: Arc<B>,
    /// Nothing after the device was closed. Lock order: before the channels' locks.
    controller: Mutex<Option<Controller<B>>>,
    io_timeout: Duration,
}

impl<B: Backend> Core<B> {
    /// Brings the controller up and opens all the I/O queues that it grants.
    pub(crate) fn open(
        backend: Arc<B>,
        options: Options,
        io_timeout: Duration,
    ) -> Result<(Self, Found), Error> {
        let mut controller = Controller::bring_up(Arc::clone(&backend), options)?;
        let (channels, found) = match open_channels(&mut controller).and_then(|channels| {
            let found = Found::read(&mut controller)?;
            Ok((channels, found))
        }) {
            Ok(opened) => opened,
            Err(error) => {
                // The error that matters is the first.
                let _ = controller.shut_down(Vec::new());
                return Err(error);
            }
        };
        let Some(queue_count) = NonZeroUsize::new(channels.len()) else { return Err(Error::NoQueues) };
        let core = Self {
            channels,
            queue_count,
            placement: RoundRobin::new(),
            backend,
            controller: Mutex::new(Some(controller)),
            io_timeout,
        };
        Ok((core, found))
    }

    /// The queue whose turn it is.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.placement.place(self.queue_count)
    }

    #[inline]
    pub(crate) fn channel(&self, queue: usize) -> &Channel<B::Port> {
        &self.channels[queue]
    }

    #[inline]
    pub(crate) fn clock(&self) -> &B::Clock {
        self.backend.clock()
    }

    pub(crate) fn io_timeout(&self) -> Duration {
        self.io_timeout
    }

    /// Maps a region for this device.
    pub(crate) fn attach(&self, region: &Region) -> Result<Arc<Mapped>, Error> {
        match &*self.controller() {
            Some(controller) => Ok(region.attach(controller.domain())?),
            None => Err(Error::Closed),
        }
    }

    /// Takes a mapping from every queue that used it.
    pub(crate) fn detach(&self, mapped: &Mapped) -> Result<(), Busy> {
        self.channels.iter().try_for_each(|channel| channel.detach(mapped))
    }

    pub(crate) fn stats(&self) -> Stats {
        let queue = |(qid, counters, outstanding)| QueueStats::new(qid, counters, outstanding);
        Stats { queues: self.channels.iter().filter_map(Channel::counters).map(queue).collect() }
    }

    /// Shuts the controller down in order. Nothing happens when it was done before.
    ///
    /// Commands that are outstanding now, on a queue that wedged, stay quarantined unless the stop is proved.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let Some(controller) = self.controller().take() else { return Ok(()) };
        let pairs: Vec<QueuePair<B::Port>> = self.channels.iter().filter_map(Channel::close).collect();
        Ok(controller.shut_down(pairs)?)
    }

    /// Commands outstanding on all queues.
    pub(crate) fn outstanding(&self) -> u32 {
        self.channels.iter().filter_map(Channel::counters).map(|(_, _, outstanding)| outstanding).sum()
    }

    /// Why the device stopped, if it did.
    pub(crate) fn wedged(&self) -> Option<Wedge> {
        self.channels.iter().find_map(Channel::wedged)
    }

    fn controller(&self) -> std::sync::MutexGuard<'_, Option<Controller<B>>> {
        self.controller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found out about the device while it was opened.
pub(crate) struct Found {
    pub(crate) identify: Box<nvme_proto::identify::Controller>,
    pub(crate) namespaces: Vec<ugds_queue::controller::Namespace>,
    pub(crate) refused: Vec<ugds_queue::controller::Refused>,
    pub(crate) facts: ugds_queue::controller::Facts,
    pub(crate) path: String,
}

impl Found {
    fn read<B: Backend>(controller: &mut Controller<B>) -> Result<Self, Error> {
        let scan = controller.scan()?;
        Ok(Self {
            identify: Box::new(*controller.identify()),
            namespaces: scan.namespaces,
            refused: scan.refused,
            facts: controller.facts(),
            path: controller.backend().traits().path.clone(),
        })
    }
}

fn open_channels<B: Backend>(controller: &mut Controller<B>) -> Result<Box<[Channel<B::Port>]>, Error> {
    (0..controller.facts().queues).map(|_| Ok(Channel::new(controller.open_queue()?))).collect()
}
