//! One opened device: its controller, its queues, and the rule that chooses among them.

use super::channel::{Channel, Closing};
use crate::error::Error;
use crate::stats::{QueueStats, Stats};
use nvme_proto::Qid;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use ugds_hal::{Backend, Process};
use ugds_mem::{Mapped, Region};
use ugds_queue::controller::{Controller, Options};
use ugds_queue::{Busy, QueuePair, Wedge};
use ugds_sched::{Place, RoundRobin};

/// The generic part of a device.
pub(crate) struct Core<B: Backend> {
    channels: Box<[Channel<B::Port>]>,
    qids: Box<[Qid]>,
    queue_count: NonZeroUsize,
    placement: RoundRobin,
    backend: Arc<B>,
    /// Nothing after the device was closed. Lock order: before the channels' locks.
    controller: Mutex<Option<Controller<B>>>,
    io_timeout: Duration,
    process: Process,
}

impl<B: Backend> Core<B> {
    /// Brings the controller up and opens all the I/O queues that it grants.
    pub(crate) fn open(
        backend: Arc<B>,
        options: Options,
        io_timeout: Duration,
    ) -> Result<(Self, Found), Error> {
        let mut controller = Controller::bring_up(Arc::clone(&backend), options)?;
        let mut pairs = Vec::new();
        let found = open_queues(&mut controller, &mut pairs).and_then(|()| Found::read(&mut controller));
        let (found, queue_count) = match (found, NonZeroUsize::new(pairs.len())) {
            (Ok(found), Some(count)) => (found, count),
            (found, _) => {
                // The error that matters is the first.
                let _ = controller.shut_down(pairs);
                return Err(found.err().unwrap_or(Error::NoQueues));
            }
        };
        let core = Self {
            qids: pairs.iter().map(QueuePair::qid).collect(),
            channels: pairs.into_iter().map(Channel::new).collect(),
            queue_count,
            placement: RoundRobin::new(),
            backend,
            controller: Mutex::new(Some(controller)),
            io_timeout,
            process: Process::this(),
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

    /// The identifier of a queue.
    pub(crate) fn qid(&self, queue: usize) -> Qid {
        self.qids[queue]
    }

    #[inline]
    pub(crate) fn clock(&self) -> &B::Clock {
        self.backend.clock()
    }

    /// Whether the controller is alive.
    ///
    /// # Errors
    ///
    /// The reason for which the device was given up, now or before.
    #[cold]
    pub(crate) fn check(&self) -> Result<(), Wedge> {
        Wedge::check(&*self.backend).map_err(|wedge| self.give_up(wedge))
    }

    /// Stops the whole device for good: what one queue met, the others would meet too. Returns the reason.
    #[cold]
    pub(crate) fn give_up(&self, reason: Wedge) -> Wedge {
        for channel in &self.channels {
            channel.wedge(reason);
        }
        reason
    }

    pub(crate) fn io_timeout(&self) -> Duration {
        self.io_timeout
    }

    /// Maps a region for this device.
    pub(crate) fn attach(&self, region: &Region) -> Result<Arc<Mapped>, Error> {
        self.in_this_process()?;
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
    /// Commands that are outstanding on a queue that wedged stay quarantined unless the stop is proved.
    ///
    /// # Errors
    ///
    /// [`Error::Outstanding`] while others are outstanding, and nothing changed.
    pub(crate) fn close(&self) -> Result<(), Error> {
        self.in_this_process()?;
        let mut controller = self.controller();
        // All at once, so that no command slips in behind the count.
        let closing: Vec<_> = self.channels.iter().map(Channel::closing).collect();
        let outstanding = closing.iter().map(Closing::outstanding).sum();
        if outstanding != 0 && !closing.iter().any(Closing::is_wedged) {
            return Err(Error::Outstanding { outstanding });
        }
        let Some(controller) = controller.take() else { return Ok(()) };
        let pairs = closing.into_iter().filter_map(Closing::close).collect();
        Ok(controller.shut_down(pairs)?)
    }

    /// Refuses a child of the process that opened the device: the device is the parent's.
    #[inline]
    pub(crate) fn in_this_process(&self) -> Result<(), Error> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
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

/// Opens the queues that were granted. Those opened before one fails are in `pairs`.
fn open_queues<B: Backend>(
    controller: &mut Controller<B>,
    pairs: &mut Vec<QueuePair<B::Port>>,
) -> Result<(), Error> {
    for _ in 0..controller.facts().queues {
        pairs.push(controller.open_queue()?);
    }
    Ok(())
}
