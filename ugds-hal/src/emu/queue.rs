//! Submission and completion queues as the controller sees them.

use super::bells::Bell;
use super::dma::Purpose;
use super::model::Core;
use super::stats;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use nvme_proto::register::DoorbellKind;
use nvme_proto::{BusAddr, Cid, PageSize, Qid, Status};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the entries of a queue lie.
#[derive(Debug)]
pub(super) enum Ring {
    Contiguous(BusAddr),
    /// Page by page, for a queue with `PC = 0`.
    Pages(PageSize, Box<[BusAddr]>),
}

impl Ring {
    /// The address of an entry of `bytes` bytes, a power of two.
    fn entry(&self, index: u32, bytes: u64) -> BusAddr {
        let offset = u64::from(index) * bytes;
        match self {
            Self::Contiguous(base) => BusAddr(base.0.wrapping_add(offset)),
            Self::Pages(page, pages) => {
                let start = pages.get((offset >> page.shift()) as usize).map_or(0, |page| page.0);
                BusAddr(start.wrapping_add(offset & page.mask()))
            }
        }
    }
}

/// A submission queue. Its lane alone fetches from it.
#[derive(Debug)]
pub(super) struct SubmissionQueue {
    pub(super) qid: Qid,
    pub(super) entries: u32,
    pub(super) completion: Arc<CompletionQueue>,
    ring: Ring,
    /// The next entry to fetch.
    head: AtomicU32,
    /// One bit for each identifier that is outstanding.
    outstanding: Box<[AtomicU64]>,
}

impl SubmissionQueue {
    pub(super) fn new(qid: Qid, entries: u32, ring: Ring, completion: Arc<CompletionQueue>) -> Self {
        let outstanding = (0..CID_WORDS).map(|_| AtomicU64::new(0)).collect();
        Self { qid, entries, completion, ring, head: AtomicU32::new(0), outstanding }
    }

    pub(super) fn head(&self) -> u32 {
        self.head.load(Ordering::Acquire)
    }

    pub(super) fn entry(&self, index: u32) -> BusAddr {
        self.ring.entry(index, 64)
    }

    /// Takes the entry at the head: it is free for the host from now on.
    pub(super) fn advance(&self, bell: &Bell) {
        let next = (self.head() + 1) % self.entries;
        self.head.store(next, Ordering::Release);
        bell.set_device(next);
    }

    /// Notes that a command is outstanding. `false` when its identifier already was.
    pub(super) fn begin(&self, cid: Cid) -> bool {
        let (word, bit) = self.bit(cid);
        // Relaxed: set and tested by the lane alone; cleared before the completion that lets the host use it again.
        word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    fn end(&self, cid: Cid) {
        let (word, bit) = self.bit(cid);
        word.fetch_and(!bit, Ordering::Relaxed);
    }

    fn bit(&self, cid: Cid) -> (&AtomicU64, u64) {
        (&self.outstanding[usize::from(cid.0 >> 6)], 1 << (cid.0 & 63))
    }
}

/// A completion queue. Submission queues of several lanes may share it.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    pub(super) qid: Qid,
    pub(super) entries: u32,
    pub(super) vector: Option<u16>,
    /// How many submission queues complete here.
    pub(super) users: AtomicU32,
    ring: Ring,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tail: u32,
    phase: bool,
    /// Completions that found no room.
    held: VecDeque<Done>,
}

/// A command that is done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) queue: Arc<SubmissionQueue>,
    pub(super) cid: Cid,
    pub(super) status: Status,
    pub(super) result: u64,
    /// Whether the identifier is free now. It is not, if it belongs to another command.
    pub(super) frees_cid: bool,
}

impl CompletionQueue {
    pub(super) fn new(qid: Qid, entries: u32, ring: Ring, vector: Option<u16>) -> Self {
        let state = Mutex::new(State { tail: 0, phase: true, held: VecDeque::new() });
        Self { qid, entries, vector, users: AtomicU32::new(0), ring, state }
    }

    /// Posts a completion, or holds it until there is room.
    pub(super) fn post(&self, core: &Core, done: Done) {
        let mut state = self.lock();
        state.held.push_back(done);
        self.drain_locked(core, &mut state);
    }

    /// Posts what was held, as far as there is room now. Says whether anything was.
    pub(super) fn drain(&self, core: &Core) -> bool {
        let mut state = self.lock();
        self.drain_locked(core, &mut state)
    }

    /// Forgets what was held: the queue is gone.
    pub(super) fn forget(&self) {
        self.lock().held.clear();
    }

    fn drain_locked(&self, core: &Core, state: &mut State) -> bool {
        let bell = core.bells.of(self.qid, DoorbellKind::CompletionHead);
        let mut posted = 0;
        loop {
            posted += self.fill(core, state, bell);
            if state.held.is_empty() {
                if posted != 0 && bell.is_waiting() {
                    bell.set_waiting(false);
                    // Lanes that share the queue stopped fetching.
                    core.wake_all();
                }
                break;
            }
            // The host must tell us now when it makes room; what it told before we asked has to be looked at again.
            bell.set_waiting(true);
            core.ask_for_doorbell(self.qid, DoorbellKind::CompletionHead, bell.value());
            fence(Ordering::SeqCst);
            if !self.has_room(core, state, bell) {
                break;
            }
        }
        if posted != 0
            && let Some(vector) = self.vector
        {
            core.interrupts.raise(vector, &core.counters);
        }
        posted != 0
    }

    fn fill(&self, core: &Core, state: &mut State, bell: &Bell) -> usize {
        let mut posted = 0;
        while !state.held.is_empty() && self.has_room(core, state, bell) {
            if let Some(done) = state.held.pop_front() {
                self.store(core, state, bell, &done);
                posted += 1;
            }
        }
        posted
    }

    /// One entry stays free, so that a full ring is not an empty one.
    fn has_room(&self, core: &Core, state: &State, bell: &Bell) -> bool {
        let next = (state.tail + 1) % self.entries;
        next != bell.value() || {
            core.poll_shadow(self.qid, DoorbellKind::CompletionHead, bell);
            next != bell.value()
        }
    }

    fn store(&self, core: &Core, state: &mut State, bell: &Bell, done: &Done) {
        stats::add(&core.counters.completions, 1);
        if !done.status.is_success() {
            stats::add(&core.counters.errors, 1);
        }
        if done.frees_cid {
            done.queue.end(done.cid);
        }
        let (head, phase) =
            core.deviations.completion(done.queue.qid, done.cid, done.queue.head(), state.phase);
        let words = [
            done.result as u32,
            (done.result >> 32) as u32,
            head | u32::from(done.queue.qid.0) << 16,
            u32::from(done.cid.0) | u32::from(done.status.to_field(phase)) << 16,
        ];
        let addr = self.ring.entry(state.tail, 16);
        state.tail = (state.tail + 1) % self.entries;
        if state.tail == 0 {
            state.phase = !state.phase;
        }
        // Before the store that the host sees: its doorbell is checked against this.
        bell.set_device(state.tail);
        if core.dma.post(addr, words).is_err() {
            core.fail();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the pages of a queue that is not contiguous: a PRP list at `first`, chained like any other.
pub(super) fn read_pages(
    core: &Core,
    page: PageSize,
    first: BusAddr,
    len_bytes: u64,
) -> Result<Box<[BusAddr]>, Status> {
    // A walk takes its first page from PRP1; here all pages are in the list, so a page is put before them.
    let read = |addr, to: &mut [u8]| core.dma.read(addr, to, Purpose::List);
    let pages = len_bytes.div_ceil(page.bytes());
    if pages == 1 {
        let mut entry = [0; 8];
        core.dma
            .read(first, &mut entry, Purpose::List)
            .map_err(|_| nvme_proto::status::generic::DATA_TRANSFER_ERROR)?;
        let only = BusAddr(u64::from_le_bytes(entry));
        return if only.offset_in(page) == 0 {
            Ok(Box::new([only]))
        } else {
            Err(nvme_proto::status::generic::PRP_OFFSET_INVALID)
        };
    }
    nvme_proto::prp::walk(page, BusAddr(0), first, (pages + 1) << page.shift(), read)
        .skip(1)
        .map(|piece| piece.map(|(addr, _)| addr).map_err(|error| error.status()))
        .collect()
}

const CID_WORDS: usize = 65536 / 64;
