//! The state of a batch: every request, and where it stands.

use super::entry::{Entry, Order, Rare, State, What};
use super::fifo::Fifo;
use super::held::Held;
use super::pieces::{self, PIECES, Pieces};
use crate::engine::channel::Caught;
use crate::engine::landing::{Head, Landing};
use crate::engine::request::{Direction, Request};
use crate::error::Error;
use crate::{Namespace, Region};
use nvme_proto::{Cid, Status};
use std::sync::Arc;
use ugds_hal::Instant;
use ugds_sched::{Progress, Split, Want};

/// All that a batch is. Made once: nothing in it grows afterwards but the table of regions.
pub(crate) struct Work {
    /// The number under which the channels know the landing.
    pub(in crate::engine) landing_id: u32,
    pub(super) landing: Arc<Landing>,
    pub(super) head: Head,
    pub(super) entries: Box<[Entry]>,
    pub(super) rare: Box<[Rare]>,
    /// The first entry that is free, if there is one.
    pub(super) free: u32,
    /// Entries that are not free.
    pub(super) used: usize,
    /// Requests of one small command, which go to a queue many at a time.
    pub(super) small: Fifo,
    /// All others, each of which is cut into commands when its turn comes.
    pub(super) large: Fifo,
    /// The first of those, if commands of it were launched.
    pub(super) opened: Option<Opened>,
    /// Requests that ended and were not handed out.
    pub(super) ended: Fifo,
    pub(super) pieces: Pieces,
    /// What was found last, until it is handed out.
    pub(super) caught: Caught,
    pub(super) held: Held,
    pub(super) namespaces: Arc<[Namespace]>,
    /// Commands outstanding on each queue.
    pub(super) flying: Box<[u32]>,
    /// How far the small requests are.
    pub(super) progress: Progress,
    /// Whether somebody else was at a queue at the last look: there may be more than was seen.
    pub(super) is_elsewhere: bool,
    /// The last time that was read.
    pub(super) now: Instant,
    /// Looks since then.
    pub(super) looks: u32,
    /// When the controller and the commands in flight are to be looked after next.
    pub(super) next_check: Instant,
}

/// A large request of which not everything was launched.
pub(super) struct Opened {
    pub(super) entry: u32,
    pub(super) want: Want,
    pub(super) split: Split,
    pub(super) progress: Progress,
}

impl Work {
    /// Room for `depth` requests at a device with `queues` queues.
    pub(crate) fn new(depth: usize, queues: usize, namespaces: Arc<[Namespace]>) -> Self {
        Self {
            landing_id: 0,
            landing: Arc::new(Landing::new(depth + PIECES)),
            head: Head::default(),
            // The last points to none.
            entries: (1..=depth as u32).map(Entry::free).collect(),
            rare: (0..depth).map(|_| Rare::default()).collect(),
            free: 0,
            used: 0,
            caught: Caught::new(),
            small: Fifo::with_room(depth),
            large: Fifo::with_room(depth),
            opened: None,
            ended: Fifo::with_room(depth),
            pieces: Pieces::new(),
            held: Held::default(),
            namespaces,
            flying: (0..queues).map(|_| 0).collect(),
            progress: Progress::new(0),
            is_elsewhere: false,
            now: Instant::default(),
            looks: 0,
            next_check: Instant::default(),
        }
    }

    pub(in crate::engine) fn landing(&self) -> &Arc<Landing> {
        &self.landing
    }

    /// The most requests.
    pub(crate) fn depth(&self) -> usize {
        self.entries.len()
    }

    /// Requests that were not handed out.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Requests of which the device was not given everything.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.small.len() + self.large.len() + usize::from(self.opened.is_some())
    }

    /// The queues that have commands of it.
    pub(in crate::engine) fn busy_queues(&self) -> impl Iterator<Item = usize> {
        self.flying.iter().enumerate().filter(|(_, flying)| **flying != 0).map(|(queue, _)| queue)
    }

    /// How many outcomes were taken from the landing.
    pub(in crate::engine) fn taken(&self) -> u32 {
        self.head.taken()
    }

    /// Lets the next look that brings nothing look at the clock and after what is late.
    pub(crate) fn check_soon(&mut self) {
        self.looks = u32::MAX / 2;
    }

    /// Whether the device has commands of it.
    #[inline]
    pub(super) fn is_flying(&self) -> bool {
        self.flying.iter().any(|&flying| flying != 0)
    }

    /// Adds a request of one small command, which holds `region` until its outcome is handed out. `false` when there is
    /// no room.
    #[inline(always)]
    pub(crate) fn push_small(&mut self, order: Order, region: &Region) -> bool {
        let index = self.free;
        let Some(entry) = self.entries.get_mut(index as usize) else { return false };
        self.free = entry.next_free;
        self.used += 1;
        entry.order = Order { memory: self.held.hold(region), ..order };
        entry.state = State::Queued;
        self.small.push(index);
        true
    }

    /// Adds any other request, which holds `region`, too.
    #[inline(never)]
    pub(crate) fn push_other(&mut self, order: Order, region: Option<&Region>) -> bool {
        let index = self.free;
        let Some(entry) = self.entries.get_mut(index as usize) else { return false };
        self.free = entry.next_free;
        self.used += 1;
        entry.order = order;
        entry.cid = Cid::NONE;
        if order.len_bytes == 0 && order.kind.what() != What::Flush {
            entry.state = State::Done;
            entry.status = Status::SUCCESS;
            self.ended.push(index);
            return true;
        }
        if let Some(region) = region {
            entry.order.memory = self.held.hold(region);
        }
        entry.state = State::Queued;
        self.large.push(index);
        true
    }

    /// Makes an entry free.
    #[inline]
    pub(super) fn set_free(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        (entry.state, entry.next_free) = (State::Free, self.free);
        self.free = index;
        self.used -= 1;
    }

    /// Ends those with this cookie of which the device was not given everything, or all of these. What of them is in
    /// flight ends first. Returns how many they are.
    pub(crate) fn cancel(&mut self, cookie: Option<u64>) -> usize {
        let before = self.queued();
        let (entries, rare, ended) = (&mut self.entries, &mut self.rare, &mut self.ended);
        let mut keep = |index: u32| {
            let entry = &mut entries[index as usize];
            if cookie.is_some_and(|cookie| cookie != entry.order.cookie) {
                return true;
            }
            entry.state = State::Cancelled;
            // Of an earlier life of the entry.
            rare[index as usize].launched_bytes = 0;
            ended.push(index);
            false
        };
        self.small.retain(&mut keep);
        self.large.retain(&mut keep);
        if let Some(opened) = &self.opened
            && cookie.is_none_or(|cookie| cookie == self.entries[opened.entry as usize].order.cookie)
        {
            self.cancel_opened();
        }
        before - self.queued()
    }

    fn cancel_opened(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.entries[opened.entry as usize].state = State::Cancelled;
            self.settle_large(opened.entry);
        }
    }

    /// Ends a large request if it has nothing in flight and nothing more is to be launched.
    pub(super) fn settle_large(&mut self, index: u32) {
        if self.rare[index as usize].flying != 0 {
            return;
        }
        let entry = &mut self.entries[index as usize];
        if entry.state == State::Flying {
            entry.state = match &self.rare[index as usize] {
                Rare { refused: Some(_), .. } => State::Refused,
                Rare { failure: Some(_), .. } => State::Failed,
                _ => State::Done,
            };
            entry.status = Status::SUCCESS;
        }
        self.ended.push(index);
    }

    /// Whether a command that was in flight is not any more.
    pub(super) fn has_landed(&self, token: u32) -> bool {
        if pieces::is_piece(token) {
            self.pieces.iter().all(|(other, _)| other != token)
        } else {
            self.entries.get(token as usize).is_none_or(|entry| entry.state != State::Flying)
        }
    }

    /// Ends a request of which a command could not be made.
    #[cold]
    pub(super) fn refuse(&mut self, index: u32, error: Error) {
        self.rare[index as usize].refused = Some(Box::new(error));
        self.entries[index as usize].state = State::Refused;
        self.ended.push(index);
    }

    /// Ends everything: nothing of it will be answered any more.
    #[cold]
    pub(super) fn lose(&mut self) {
        self.small.retain(|_| false);
        self.large.retain(|_| false);
        self.opened = None;
        let tokens: Vec<u32> = self.pieces.iter().map(|(token, _)| token).collect();
        for token in tokens {
            self.pieces.land(token);
        }
        self.flying.fill(0);
        for (entry, index) in self.entries.iter_mut().zip(0..) {
            let in_flight = matches!(entry.state, State::Queued | State::Flying);
            // One that was cancelled is among the ended, unless commands of it were in flight.
            if in_flight || entry.state == State::Cancelled && self.rare[index as usize].flying != 0 {
                entry.state = State::Lost;
                self.ended.push(index);
            }
            self.rare[index as usize].flying = 0;
        }
    }

    /// The request of an entry that moves data, as the engine sees it.
    #[inline]
    pub(super) fn request<'a>(
        order: &Order,
        held: &'a Held,
        namespaces: &'a [Namespace],
    ) -> Option<Request<'a>> {
        let namespace = &namespaces[usize::from(order.kind.namespace())];
        Some(Request {
            namespace: namespace.described(),
            limits: namespace.limits(),
            mapped: held.get(order.memory)?.mapped(),
            offset: order.offset,
            len_bytes: order.len_bytes,
            lba: order.lba,
            direction: match order.kind.what() {
                What::Read => Direction::Read,
                What::Write | What::Flush => Direction::Write,
            },
        })
    }
}
