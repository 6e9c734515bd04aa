//! A queue pair that many threads share.

use super::cell::{Cell, Ended};
use super::landing::Landing;
use super::request::{Request, Way};
use super::rota::{Duty, Id, Rota, Sleeper, Woken};
use super::sync::{Mutex, MutexGuard, thread};
use nvme_proto::{Cid, Qid, Status};
use std::fmt::Write;
use std::sync::Arc;
use ugds_hal::{Event, Instant, Port};
use ugds_mem::{Io, Mapped, MemError};
use ugds_queue::{Busy, Counters, QueuePair, SubmitError, Ticket, Wedge};

/// One queue pair behind a lock, and a cell for each command that somebody waits for.
///
/// The lock is held to stage and ring, or for one pass of reaping, never while waiting. Whoever waits reaps for
/// everybody.
pub(crate) struct Channel<P> {
    /// Lock order: after the device's controller. No other lock is taken under it, and no two channels' but by whoever
    /// stops the device, in order of their queues.
    state: Mutex<State<P>>,
    cells: Box<[Cell]>,
    /// What the device signals when it puts completions into the queue, if it was asked to.
    event: Option<Event>,
}

struct State<P> {
    /// Nothing after the channel was closed.
    pair: Option<QueuePair<P>>,
    /// Cells that no command uses. Released ones are not among them until they are reclaimed.
    free: Vec<u16>,
    /// Bytes that commands moved which ended well.
    bytes: u64,
    rota: Rota<Awaits>,
    /// Where the outcomes of batches go, by the number in the upper half of a command's name, less one.
    landings: Vec<Option<Arc<Landing>>>,
}

/// What somebody who sleeps waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaits {
    /// The outcome of a command.
    Command(Claim),
    /// More outcomes at a landing than were taken.
    Landing { id: u32, taken: u32 },
}

/// A command that was submitted, or a row of them, until the outcome is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    cell: u16,
}

impl Claim {
    /// From the name of one command to that of the next in a row.
    pub(super) const STEP: u64 = 1 << PLACE_SHIFT;

    /// The name of the command at `place` of the row that `cell` is for.
    #[inline(always)]
    pub(super) fn name(cell: u16, place: u32) -> u64 {
        u64::from(place << PLACE_SHIFT | u32::from(cell))
    }
}

/// Where the name of a command has its place in its row, above the cell.
const PLACE_SHIFT: u32 = 16;
const PLACE_MASK: u64 = 0xffff << PLACE_SHIFT;

/// How a command began.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begun {
    /// It did not, for whatever reason: [`Burst::stage`] says which.
    Not,
    /// The device has it.
    Flying(Claim),
    /// It is over already.
    Well,
    /// The same, but it did not go well.
    Failed(Status),
}

/// Why a channel did not take a command.
#[derive(Debug)]
pub(crate) enum Refused {
    /// No slot or cell is free.
    Full,
    /// The channel was closed.
    Closed,
    /// The queue's own reason.
    Submit(SubmitError),
    /// The command could not be made.
    Memory(MemError),
}

/// What a look at the completion queue brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// That many commands ended.
    Ended(usize),
    /// Somebody else is looking.
    Elsewhere,
    /// The channel was closed; nothing will end any more.
    Closed,
}

impl<P: Port> Channel<P> {
    pub(crate) fn new(pair: QueuePair<P>, event: Option<Event>) -> Self {
        // As many as slots: a cell is taken for a command that was placed, and no more are placed.
        let count = pair.slots();
        let state = State {
            pair: Some(pair),
            free: (0..count).rev().collect(),
            bytes: 0,
            rota: Rota::with_room(count.into()),
            landings: Vec::new(),
        };
        let cells = (0..count).map(|_| Cell::default()).collect();
        Self { state: Mutex::new(state), cells, event }
    }

    /// Locks the queue for a burst of commands.
    #[inline]
    pub(crate) fn burst(&self) -> Burst<'_, P> {
        Burst { state: self.lock(), channel: self }
    }

    /// The outcome of a command, once. The claim means nothing afterwards.
    #[inline]
    pub(crate) fn take(&self, claim: Claim) -> Option<Ended> {
        let cell = &self.cells[usize::from(claim.cell)];
        let ended = cell.outcome()?;
        cell.release();
        Some(ended)
    }

    /// One of the commands of `claim` that are outstanding.
    #[cold]
    pub(super) fn outstanding(&self, claim: Claim) -> Option<Cid> {
        let state = self.lock();
        let mut commands = state.pair.as_ref()?.in_flight();
        let is_its = |name: u64| landing_of(name) == 0 && name as u16 == claim.cell;
        commands.find(|command| is_its(command.cookie)).map(|command| command.cid)
    }

    /// Whether a command is none of those of `claim` that are outstanding.
    #[cold]
    pub(super) fn has_ended(&self, claim: Claim, cid: Cid) -> bool {
        let state = self.lock();
        let Some(pair) = &state.pair else { return false };
        let is_its = |name: u64| landing_of(name) == 0 && name as u16 == claim.cell;
        !pair.in_flight().any(|command| command.cid == cid && is_its(command.cookie))
    }

    /// Submits the one command of a request, tells the device, and takes the completion that is next, if there is one: all
    /// under one lock. With a device that answers at once, or on a queue whose last answers were left, that is one lock
    /// less; with any other it is a look at one word.
    #[inline(always)]
    pub(super) fn submit<W: Way>(&self, request: &Request<'_>) -> Begun {
        let mut state = self.lock();
        let State { pair: Some(pair), bytes, landings, free, rota } = &mut *state else { return Begun::Not };
        if free.is_empty() {
            return Begun::Not;
        }
        let len_bytes = request.len_bytes as u32;
        let Ok(io) = request.command_at::<W>(0, len_bytes, request.lba) else { return Begun::Not };
        let Ok(ticket) = pair.submit(&io, NOBODY) else { return Begun::Not };
        pair.ring();
        if rota.is_quiet() {
            let mut found = None;
            // What breaks the queue is met again on the long way.
            let _ = pair.reap_one(|done| found = Some((done.cookie, done.len_bytes, done.status())));
            match found {
                None => {}
                Some((NOBODY, _, status)) if status.is_success() => {
                    *bytes += u64::from(len_bytes);
                    return Begun::Well;
                }
                Some((NOBODY, _, status)) => return Begun::Failed(status),
                Some((cookie, len_bytes, status)) => {
                    if status.is_success() {
                        *bytes += u64::from(len_bytes);
                    }
                    hand_out(&self.cells, landings, cookie, status);
                }
            }
        }
        claim(pair, free, &ticket)
    }

    /// Makes one pass over the completion queue, unless somebody else is at it.
    #[inline]
    pub(crate) fn look(&self) -> Result<Look, Wedge> {
        let Some(mut state) = self.state.try_lock() else { return Ok(Look::Elsewhere) };
        let State { pair: Some(pair), bytes, landings, .. } = &mut *state else { return Ok(Look::Closed) };
        let passed = pair.reap(|done| {
            let status = done.status();
            if status.is_success() {
                *bytes += u64::from(done.len_bytes);
            }
            hand_out(&self.cells, landings, done.cookie, status);
        });
        let ended = passed?;
        self.after_pass(state, ended);
        Ok(Look::Ended(ended))
    }

    /// The same for whoever waits for `claim`: what ends well of it is counted, and its cell is told once.
    #[inline(always)]
    pub(super) fn look_own(&self, claim: Claim) -> Result<Look, Wedge> {
        let Some(mut state) = self.state.try_lock() else { return Ok(Look::Elsewhere) };
        let State { pair: Some(pair), bytes, landings, .. } = &mut *state else { return Ok(Look::Closed) };
        let own = Claim::name(claim.cell, 0);
        let (mut moved, mut count) = (0, 0);
        let passed = pair.reap(|done| {
            if done.is_success() {
                moved += u64::from(done.len_bytes);
                if done.cookie & !PLACE_MASK == own {
                    count += 1;
                    return;
                }
            }
            hand_out_other(&self.cells, landings, done.cookie, done.status());
        });
        *bytes += moved;
        if count != 0 {
            self.cells[usize::from(claim.cell)].complete_well(count);
        }
        let ended = passed?;
        self.after_pass(state, ended);
        Ok(Look::Ended(ended))
    }

    /// The same for the owner of the landing `id`: what ends well of its own goes into `caught`, without the way through
    /// the landing, unless something lies there that it did not take. What was caught stands even if the pass fails.
    #[inline(always)]
    pub(super) fn look_for(&self, id: u32, taken: u32, caught: &mut Caught) -> Result<Look, Wedge> {
        // Of the look before, whatever comes of this one.
        caught.count = 0;
        let Some(mut state) = self.state.try_lock() else { return Ok(Look::Elsewhere) };
        let State { pair: Some(pair), bytes, landings, .. } = &mut *state else { return Ok(Look::Closed) };
        let is_next = landings.get(id as usize).is_some_and(|landing| match landing {
            Some(landing) => !landing.is_ahead_of(taken),
            None => false,
        });
        let owner = landing_of(name(id, 0));
        // Tokens of other kinds have their highest bit set, and so are not in a row with these.
        let mut own = if is_next { name(id, 0) >> TOKEN_LOW_BITS } else { u64::MAX };
        let (mut moved, mut count) = (0, 0);
        let passed = pair.reap(|done| {
            if done.is_success() {
                moved += u64::from(done.len_bytes);
                if done.cookie >> TOKEN_LOW_BITS == own {
                    // A pass brings no more than there is room for.
                    caught.tokens[count % CAUGHT] = done.cookie as u32;
                    count += 1;
                    return;
                }
            }
            if landing_of(done.cookie) == owner {
                // What comes behind it stays behind it.
                own = u64::MAX;
            }
            hand_out_other(&self.cells, landings, done.cookie, done.status());
        });
        caught.count = count;
        *bytes += moved;
        let ended = passed?;
        self.after_pass(state, ended);
        Ok(Look::Ended(ended))
    }

    /// Wakes those whose commands were found, if anybody sleeps.
    #[inline(always)]
    fn after_pass(&self, state: MutexGuard<'_, State<P>>, ended: usize) {
        if ended != 0 && !state.rota.is_quiet() {
            self.wake(state, |landings, sleeper| self.is_over(landings, sleeper.awaits));
        }
    }

    /// What the device signals when something ended. `None` on a queue that has to be polled.
    pub(super) fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Gives somebody who waits something to do.
    pub(super) fn enlist(&self, sleeper: Sleeper<Awaits>) -> Duty {
        let mut state = self.lock();
        // Under the lock: whoever reaps it later sees who sleeps.
        if state.pair.is_none() || self.is_over(&state.landings, sleeper.awaits) {
            return Duty::Over;
        }
        state.rota.enlist(sleeper)
    }

    /// Strikes somebody off, and calls the one that has its duty now.
    pub(super) fn resign(&self, id: Id) {
        let next = self.lock().rota.resign(id);
        if let Some(next) = next {
            next.make();
        }
    }

    /// Wakes those whose deadline has passed: nobody but the poller looks at a clock that may be virtual.
    #[cold]
    pub(super) fn wake_late(&self, now: Instant) {
        let state = self.lock();
        if !state.rota.is_quiet() {
            self.wake(state, |_, sleeper| now >= sleeper.deadline);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake<'c>(
        &'c self,
        mut state: MutexGuard<'c, State<P>>,
        is_over: impl Fn(&[Option<Arc<Landing>>], &Sleeper<Awaits>) -> bool,
    ) {
        let me = Id::Thread(thread::current().id());
        loop {
            let mut woken = Woken::default();
            let State { rota, landings, .. } = &mut *state;
            // Whoever is awake finds out by itself.
            let all = rota.wake(&mut woken, |sleeper| sleeper.id != me && is_over(landings, sleeper));
            drop(state);
            woken.wake();
            if all {
                return;
            }
            state = self.lock();
        }
    }

    fn is_over(&self, landings: &[Option<Arc<Landing>>], awaits: Awaits) -> bool {
        match awaits {
            Awaits::Command(claim) => self.cells[usize::from(claim.cell)].outcome().is_some(),
            Awaits::Landing { id, taken } => match landings.get(id as usize) {
                Some(Some(landing)) => landing.is_ahead_of(taken),
                _ => true,
            },
        }
    }

    /// Sends the outcomes of commands that are named for it to `landing`.
    pub(super) fn add_landing(&self, id: u32, landing: &Arc<Landing>) {
        let landings = &mut self.lock().landings;
        if landings.len() <= id as usize {
            landings.resize(id as usize + 1, None);
        }
        landings[id as usize] = Some(Arc::clone(landing));
    }

    /// Forgets a landing. What is still outstanding for it lands nowhere.
    pub(super) fn forget_landing(&self, id: u32) {
        if let Some(landing) = self.lock().landings.get_mut(id as usize) {
            *landing = None;
        }
    }

    /// Stops the queue for good.
    #[cold]
    pub(crate) fn wedge(&self, reason: Wedge) {
        if let Some(pair) = &mut self.lock().pair {
            pair.wedge(reason);
        }
    }

    /// Lets go of a mapping.
    pub(crate) fn detach(&self, mapped: &Mapped) -> Result<(), Busy> {
        match &mut self.lock().pair {
            Some(pair) => pair.detach(mapped).map(drop),
            None => Ok(()),
        }
    }

    /// What went through so far, in commands and in bytes, and how many commands are outstanding.
    pub(crate) fn counters(&self) -> Option<(Qid, Counters, u64, u32)> {
        let state = self.lock();
        state.pair.as_ref().map(|pair| (pair.qid(), pair.counters(), state.bytes, pair.outstanding()))
    }

    /// Adds what is in flight to a report. A queue that somebody holds at the moment says only that.
    pub(super) fn describe(&self, qid: Qid, text: &mut String) {
        // Writing to a string does not fail.
        let Some(state) = self.state.try_lock() else {
            let _ = writeln!(text, "queue {qid}: in use at the moment");
            return;
        };
        let Some(pair) = &state.pair else {
            let _ = writeln!(text, "queue {qid}: closed");
            return;
        };
        let (counters, outstanding) = (pair.counters(), pair.outstanding());
        let _ = writeln!(
            text,
            "queue {qid}: {outstanding} outstanding, {} submitted, {} completed, {} failed",
            counters.submitted, counters.completed, counters.failed
        );
        for command in pair.in_flight() {
            let memory =
                command.memory.map_or_else(|| "no memory".into(), |index| format!("mapping {index}"));
            let _ = writeln!(text, "  command {}: {} bytes, {memory}", command.cid, command.len_bytes);
        }
    }

    /// Locks the channel in order to close it.
    pub(crate) fn closing(&self) -> Closing<'_, P> {
        Closing { state: self.lock(), channel: self }
    }

    #[inline(always)]
    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock()
    }
}

/// A channel that nobody else uses at the moment.
pub(crate) struct Closing<'c, P> {
    state: MutexGuard<'c, State<P>>,
    channel: &'c Channel<P>,
}

impl<P: Port> Closing<'_, P> {
    /// Commands outstanding.
    pub(crate) fn outstanding(&self) -> u32 {
        self.state.pair.as_ref().map_or(0, QueuePair::outstanding)
    }

    /// Whether the queue stopped for good.
    pub(crate) fn is_wedged(&self) -> bool {
        self.state.pair.as_ref().is_some_and(|pair| pair.wedged().is_some())
    }

    /// Takes the queue pair out; the channel is closed then, and everybody who sleeps is told.
    pub(crate) fn close(mut self) -> Option<QueuePair<P>> {
        let pair = self.state.pair.take();
        self.channel.wake(self.state, |_, _| true);
        pair
    }
}

/// The right to stage commands. Dropping it tells the device about them, with one doorbell.
pub(crate) struct Burst<'c, P: Port> {
    state: MutexGuard<'c, State<P>>,
    channel: &'c Channel<P>,
}

impl<P: Port> Burst<'_, P> {
    /// Stages one command.
    #[inline(always)]
    pub(crate) fn stage(&mut self, io: &Io<'_>) -> Result<Claim, Refused> {
        let State { pair: Some(pair), free, .. } = &mut *self.state else { return Err(Refused::Closed) };
        let cells = &self.channel.cells;
        let Some(cell) = free.pop().or_else(|| sweep(cells, free)) else { return Err(Refused::Full) };
        match pair.submit(io, Claim::name(cell, 0)) {
            Ok(_) => Ok(Claim { cell }),
            Err(error) => {
                free.push(cell);
                Err(error.into())
            }
        }
    }

    /// A cell for a row of commands. It is to be [claimed](Self::claim) or [given back](Self::give_back).
    #[inline]
    pub(super) fn cell(&mut self) -> Option<u16> {
        let free = &mut self.state.free;
        free.pop().or_else(|| sweep(&self.channel.cells, free))
    }

    /// Claims the commands that were staged with the names of a cell, at least one.
    #[inline]
    pub(super) fn claim(self, cell: u16, commands: u32) -> Claim {
        // Nobody reaps them yet: this holds the lock.
        self.channel.cells[usize::from(cell)].set_commands(commands);
        Claim { cell }
    }

    /// Takes a cell back that no command was staged for.
    pub(super) fn give_back(&mut self, cell: u16) {
        self.state.free.push(cell);
    }
}

/// What the owner of a landing found in one pass of its own: tokens of commands that ended well.
#[derive(Debug)]
pub(super) struct Caught {
    tokens: [u32; CAUGHT],
    count: usize,
}

impl Caught {
    pub(super) fn new() -> Self {
        Self { tokens: [0; CAUGHT], count: 0 }
    }

    #[inline]
    pub(super) fn tokens(&self) -> &[u32] {
        self.tokens.get(..self.count).unwrap_or_default()
    }
}

/// As many as a pass brings at most.
const CAUGHT: usize = 128;

impl<P: Port> Burst<'_, P> {
    /// The queue itself, unless the channel was closed.
    #[inline(always)]
    pub(super) fn pair(&mut self) -> Option<&mut QueuePair<P>> {
        self.state.pair.as_mut()
    }

    /// Stages one command of a batch, whose outcome goes to the landing that `cookie` names.
    #[inline(always)]
    pub(crate) fn stage_for(&mut self, io: &Io<'_>, cookie: u64) -> Result<Cid, Refused> {
        match &mut self.state.pair {
            Some(pair) => match pair.submit(io, cookie) {
                Ok(ticket) => Ok(ticket.cid()),
                Err(error) => Err(error.into()),
            },
            None => Err(Refused::Closed),
        }
    }
}

impl<P: Port> Drop for Burst<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if let Some(pair) = &mut self.state.pair {
            pair.ring();
        }
    }
}

/// Gives a command that was submitted as nobody's a cell of its own. There is one: the caller looked, under the same lock.
#[cold]
#[inline(never)]
fn claim<P: Port>(pair: &mut QueuePair<P>, free: &mut Vec<u16>, ticket: &Ticket) -> Begun {
    let cid = ticket.cid();
    match free.pop() {
        Some(cell) => {
            pair.rename(cid, Claim::name(cell, 0));
            Begun::Flying(Claim { cell })
        }
        None => Begun::Not,
    }
}

/// Leaves an outcome where the owner of the command looks for it.
#[inline]
fn hand_out(cells: &[Cell], landings: &[Option<Arc<Landing>>], cookie: u64, status: Status) {
    match landing_of(cookie) as usize {
        0 => cells[usize::from(cookie as u16)].complete(cookie as u32 >> PLACE_SHIFT, status),
        landing => {
            if let Some(Some(landing)) = landings.get(landing - 1) {
                landing.land(cookie as u32, status);
            }
        }
    }
}

/// The name of a command of the landing `id`.
#[inline(always)]
pub(super) fn name(id: u32, token: u32) -> u64 {
    u64::from(id + 1) << 32 | u64::from(token)
}

/// The same, out of the way of a loop that seldom comes to it.
#[cold]
#[inline(never)]
fn hand_out_other(cells: &[Cell], landings: &[Option<Arc<Landing>>], cookie: u64, status: Status) {
    hand_out(cells, landings, cookie, status);
}

/// One more than the number of the landing that a command is named for, or 0 for a cell's.
#[inline(always)]
fn landing_of(name: u64) -> u32 {
    (name >> 32) as u32
}

/// The bits of a token below its kind.
const TOKEN_LOW_BITS: u32 = 31;

/// The name of a command whose submitter still holds the lock.
const NOBODY: u64 = u64::MAX;

/// Puts the released cells back on the free list, and takes one.
#[cold]
fn sweep(cells: &[Cell], free: &mut Vec<u16>) -> Option<u16> {
    let released = cells.iter().zip(0..).filter(|(cell, _)| cell.reclaim());
    free.extend(released.map(|(_, index)| index));
    free.pop()
}

impl From<SubmitError> for Refused {
    #[cold]
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Full { .. } => Self::Full,
            other => Self::Submit(other),
        }
    }
}
