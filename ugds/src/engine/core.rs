//! One opened device: its controller, its queues, and the rule that chooses among them.

use super::batch::Work;
use super::channel::{Channel, Closing, Refused};
use super::notices::Notices;
use super::policy::{self, Rule};
use super::record::{self, Event, Record};
use super::report::report;
use super::wait::look;
use crate::error::Error;
use crate::namespace::Namespace;
use crate::options::Options;
use crate::stats::{QueueStats, Stats};
use nvme_proto::Qid;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use ugds_hal::{Backend, Clock, Process};
use ugds_mem::{Mapped, Region};
use ugds_queue::controller::{Controller, ControllerError, ControllerEvent};
use ugds_queue::{Busy, QueuePair, SubmitError, Wedge};
use ugds_sched::{Adaptive, Class, Completion, Costs, Mode, Ranges, Scheduler, Settings, Want};

/// The generic part of a device.
pub(crate) struct Core<B: Backend> {
    /// Shared with whoever reads the statistics.
    channels: Arc<[Channel<B::Port>]>,
    qids: Box<[Qid]>,
    ranges: Ranges,
    scheduler: Scheduler<Rule>,
    /// Polls or sleeps, where the mode leaves it open.
    adaptive: Adaptive,
    settings: Settings,
    backend: Arc<B>,
    /// Nothing after the device was closed. Lock order: before the channels' locks.
    controller: Mutex<Option<Controller<B>>>,
    io_timeout: Duration,
    /// Numbers of landings that came back, and the first that was never used. Lock order: no other is taken under it.
    landing_ids: Mutex<(Vec<u32>, u32)>,
    process: Process,
    record: Record,
    /// Why the device was given up, and what there was to say about it.
    given_up: OnceLock<(Wedge, String)>,
    /// Whether the device is being drained: no request begins any more.
    draining: AtomicBool,
    /// Whether the device is being stopped, or could not be proved to have stopped.
    quarantined: AtomicBool,
}

impl<B: Backend> Core<B> {
    /// Brings the controller up and opens all the I/O queues that it grants.
    pub(crate) fn open(backend: Arc<B>, options: &Options) -> Result<(Self, Found), Error> {
        let mut controller = Controller::bring_up(Arc::clone(&backend), options.controller())?;
        let mut pairs = Vec::new();
        let notices = Notices::new(options, controller.facts().queues.into(), &*backend);
        let found = open_queues(&mut controller, &notices, &mut pairs).and_then(|()| {
            let found = Found::read(&mut controller, &notices)?;
            let slots = pairs.first().map(QueuePair::slots).ok_or(Error::NoQueues)?;
            Ok((policy::scheduler(options, &found.facts, pairs.len(), slots)?, found))
        });
        let (scheduler, found) = match found {
            Ok(found) => found,
            Err(error) => {
                // The error that matters is the first.
                let _ = controller.shut_down(pairs);
                return Err(error);
            }
        };
        let core = Self {
            qids: pairs.iter().map(QueuePair::qid).collect(),
            ranges: policy::ranges(options.classes, pairs.len()),
            channels: pairs
                .into_iter()
                .zip(notices.events())
                .map(|(pair, event)| Channel::new(pair, event))
                .collect(),
            adaptive: Adaptive::new(&Costs::default()),
            settings: options.settings,
            scheduler,
            backend,
            controller: Mutex::new(Some(controller)),
            io_timeout: options.io_timeout,
            landing_ids: Mutex::default(),
            process: Process::this(),
            record: Record::default(),
            given_up: OnceLock::new(),
            draining: AtomicBool::new(false),
            quarantined: AtomicBool::new(false),
        };
        core.note(Event::Opened { queues: core.channels.len(), entries: found.facts.queue_entries });
        Ok((core, found))
    }

    #[inline]
    pub(super) fn scheduler(&self) -> &Scheduler<Rule> {
        &self.scheduler
    }

    /// What was chosen for the whole device.
    #[inline]
    pub(super) fn settings(&self) -> Settings {
        self.settings
    }

    /// How to wait for commands of a request on `channels`: with the one that has no interrupts there is no choice.
    #[cold]
    pub(super) fn completion<'c>(
        &self,
        want: &Want,
        channels: impl IntoIterator<Item = &'c Channel<B::Port>>,
    ) -> Completion
    where
        B: 'c,
    {
        let wanted = match want.mode {
            Mode::Latency | Mode::Priority => Completion::Poll,
            Mode::Throughput => Completion::Interrupt,
            Mode::Adaptive => self.adaptive.decide(want.request_bytes, self.scheduler.total().bytes),
        };
        let can_sleep = channels.into_iter().all(|channel| channel.event().is_some());
        if can_sleep { wanted } else { Completion::Poll }
    }

    /// The queues of a class.
    #[inline]
    pub(super) fn queues_of(&self, class: Class) -> Range<usize> {
        self.ranges.of(class)
    }

    /// Reaps for everybody where the queues of a class have no room, and waits a little. `turns` counts how often in a
    /// row. The slots are other callers'. They look too, so the longer this takes, the more they need the processor.
    #[cold]
    pub(super) fn make_room(&self, class: Class, turns: u32) -> Result<(), Error> {
        for queue in self.queues_of(class) {
            look(self, queue)?;
        }
        self.clock().relax(turns.saturating_mul(FULL_TURN_WEIGHT));
        Ok(())
    }

    /// A batch of up to `depth` requests.
    pub(super) fn open_batch(&self, depth: usize, namespaces: Arc<[Namespace]>) -> Result<Work, Error> {
        self.begin()?;
        // Whether the device is closed.
        look(self, 0)?;
        let mut work = Work::new(depth, self.channels.len(), namespaces);
        work.landing_id = {
            let (free, next) = &mut *self.landing_ids.lock().unwrap_or_else(PoisonError::into_inner);
            free.pop().unwrap_or_else(|| {
                *next += 1;
                *next - 1
            })
        };
        self.channels.iter().for_each(|channel| channel.add_landing(work.landing_id, work.landing()));
        Ok(work)
    }

    /// Takes back the number of a landing that no command is outstanding for.
    pub(super) fn forget_landing(&self, id: u32) {
        self.channels.iter().for_each(|channel| channel.forget_landing(id));
        self.landing_ids.lock().unwrap_or_else(PoisonError::into_inner).0.push(id);
    }

    /// What to tell whoever was refused for good.
    #[cold]
    pub(super) fn refusal(&self, refused: Refused) -> Error {
        match refused {
            Refused::Submit(SubmitError::Wedged(wedge)) => {
                // Whoever met it first may not have looked at anything but its own command.
                let wedge = self.give_up(wedge);
                self.stop();
                wedge.into()
            }
            Refused::Submit(error) => error.into(),
            Refused::Memory(error) => error.into(),
            Refused::Closed | Refused::Full => self.closed(),
        }
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

    /// Whether the controller is alive. One that is not is given up, and stopped if it can be.
    ///
    /// # Errors
    ///
    /// The reason for which the device was given up, now or before.
    #[cold]
    pub(crate) fn check(&self) -> Result<(), Wedge> {
        Wedge::check(&*self.backend).map_err(|wedge| {
            let wedge = self.give_up(wedge);
            self.stop();
            wedge
        })
    }

    /// Gives the whole device up: what one queue met, the others would meet too. Returns the first reason.
    #[cold]
    pub(crate) fn give_up(&self, reason: Wedge) -> Wedge {
        let (first, _) = self.given_up.get_or_init(|| {
            record::probe(&reason);
            self.note(Event::GivenUp(reason));
            (reason, report(self, reason))
        });
        for channel in self.channels.iter() {
            channel.wedge(*first);
        }
        *first
    }

    /// What to tell whoever finds a channel closed.
    #[cold]
    pub(crate) fn closed(&self) -> Error {
        self.given_up.get().map_or(Error::Closed, |(wedge, _)| (*wedge).into())
    }

    /// The report that was made when the device was given up.
    pub(crate) fn report(&self) -> Option<&str> {
        self.given_up.get().map(|(_, report)| &**report)
    }

    /// Writes down what happened.
    #[cold]
    pub(crate) fn note(&self, event: Event) {
        self.record.note(self.clock().now(), event);
    }

    pub(super) fn event_lines(&self) -> Vec<String> {
        self.record.lines()
    }

    pub(super) fn backend(&self) -> &B {
        &self.backend
    }

    pub(super) fn channels(&self) -> &[Channel<B::Port>] {
        &self.channels
    }

    pub(crate) fn io_timeout(&self) -> Duration {
        self.io_timeout
    }

    /// Maps a region for this device.
    pub(crate) fn attach(&self, region: &Region) -> Result<Arc<Mapped>, Error> {
        self.in_this_process()?;
        match &*self.controller() {
            Some(controller) => Ok(region.attach(controller.domain())?),
            None => Err(self.closed()),
        }
    }

    /// Takes what the controller told without being asked.
    pub(crate) fn events(&self) -> Result<Vec<ControllerEvent>, Error> {
        self.in_this_process()?;
        match &mut *self.controller() {
            Some(controller) => Ok(controller.events()?),
            None => Err(self.closed()),
        }
    }

    /// Takes a mapping from every queue that used it.
    pub(crate) fn detach(&self, mapped: &Mapped) -> Result<(), Busy> {
        if self.in_this_process().is_err() {
            return Err(Busy);
        }
        self.channels.iter().try_for_each(|channel| channel.detach(mapped))?;
        // A closed channel says nothing; until the stop is proved the device may still move the memory.
        // Acquire: pairs with the stores around a stop.
        if self.quarantined.load(Ordering::Acquire) { Err(Busy) } else { Ok(()) }
    }

    /// What reads the counters, from now on. It outlives the device, and finds no queue then.
    pub(crate) fn stats(&self) -> impl Fn() -> Stats + Send + Sync + 'static {
        let (channels, ranges) = (Arc::clone(&self.channels), self.ranges.clone());
        let (clock, process, opened) = (self.clock().clone(), self.process, self.clock().now());
        move || {
            if !process.is_current() {
                // A lock may have been held when the process forked.
                return Stats::default();
            }
            let queue = |(index, channel): (usize, &Channel<B::Port>)| {
                Some(QueueStats::new(policy::class_of(&ranges, index), channel.counters()?))
            };
            Stats {
                elapsed: clock.now().since(opened),
                queues: channels.iter().enumerate().filter_map(queue).collect(),
            }
        }
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
        let Some(controller) = controller.take() else { return self.stopped_before() };
        self.begin_stop();
        let pairs = closing.into_iter().filter_map(Closing::close).collect();
        match self.given_up.get() {
            None => self.finish_stop(controller.shut_down(pairs)),
            Some(_) => self.finish_stop(controller.stop(pairs)),
        }
    }

    /// From now on, until the stop is proved, nothing that the device may write to is free.
    pub(super) fn begin_stop(&self) {
        // Release: whoever finds a channel closed afterwards sees this, too.
        self.quarantined.store(true, Ordering::Release);
    }

    /// Notes how a stop ended.
    pub(super) fn finish_stop(&self, stopped: Result<(), ControllerError>) -> Result<(), Error> {
        match &stopped {
            // An announcement that was not answered is an error, but the stop was proved all the same.
            Ok(()) | Err(ControllerError::NotShutDown { .. }) => {
                // Release: whoever finds the memory free sees that the device let go of it.
                self.quarantined.store(false, Ordering::Release);
                self.note(Event::Stopped);
            }
            Err(error) => self.note(Event::NotStopped(error.to_string())),
        }
        Ok(stopped?)
    }

    /// Whether a stop was tried and not proved: what is quarantined then stays so for as long as the process lives.
    pub(super) fn is_lost(&self) -> bool {
        // The lock is held while the device is being stopped, so this waits for how that ends.
        let stopped = self.controller().is_none();
        stopped && self.quarantined.load(Ordering::Acquire)
    }

    fn stopped_before(&self) -> Result<(), Error> {
        match self.given_up.get() {
            Some((wedge, _)) if self.quarantined.load(Ordering::Acquire) => Err((*wedge).into()),
            _ => Ok(()),
        }
    }

    /// Lets requests begin, or not.
    pub(super) fn set_draining(&self, draining: bool) {
        // Relaxed: a request that slips by is outstanding, and is waited for.
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// Whether a request may begin.
    #[inline]
    pub(crate) fn begin(&self) -> Result<(), Error> {
        if self.draining.load(Ordering::Relaxed) { Err(self.closed()) } else { self.in_this_process() }
    }

    /// The same, without the reason.
    #[inline(always)]
    pub(super) fn may_begin(&self) -> bool {
        !self.draining.load(Ordering::Relaxed) && self.process.is_current()
    }

    /// Refuses a child of the process that opened the device: the device is the parent's.
    #[inline]
    pub(crate) fn in_this_process(&self) -> Result<(), Error> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Why the device stopped, if it did.
    pub(crate) fn wedged(&self) -> Option<Wedge> {
        self.given_up.get().map(|(wedge, _)| *wedge)
    }

    pub(super) fn controller(&self) -> std::sync::MutexGuard<'_, Option<Controller<B>>> {
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
    pub(crate) interrupts: String,
}

impl Found {
    fn read<B: Backend>(controller: &mut Controller<B>, notices: &Notices) -> Result<Self, Error> {
        let scan = controller.scan()?;
        Ok(Self {
            identify: Box::new(*controller.identify()),
            namespaces: scan.namespaces,
            refused: scan.refused,
            facts: controller.facts(),
            path: controller.backend().traits().path.clone(),
            interrupts: notices.to_string(),
        })
    }
}

/// Opens the queues that were granted. Those opened before one fails are in `pairs`.
fn open_queues<B: Backend>(
    controller: &mut Controller<B>,
    notices: &Notices,
    pairs: &mut Vec<QueuePair<B::Port>>,
) -> Result<(), Error> {
    for completion in notices.completions() {
        pairs.push(controller.open_queue_with(completion)?);
    }
    Ok(())
}

/// A full device is worth more patience than a look that found nothing.
const FULL_TURN_WEIGHT: u32 = 16;
