//! The scheduler of one device: everything that a request passes on its way to a queue.

use crate::chunk::{self, Rule};
use crate::credit::{Credit, Credits, Full};
use crate::line::{Line, Tickets};
use crate::loads::{Load, Loads};
use crate::place::{LeastLoaded, Place, Step};
use crate::presence::Presence;
use crate::ranges::{CLASSES, Ranges, RangesError};
use crate::tuning::{Tuning, TuningError};
use crate::want::{Class, Direction, Level, Mode, Want};

/// Places the commands of one device on its queues.
///
/// A small request costs one locked instruction to place and one to end, both on its queue's own cache line. Requests in
/// the background share one more line for their credits.
///
/// # Examples
///
/// ```
/// use ugds_sched::{LeastLoaded, Limits, Progress, Ranges, Scheduler, Tuning, Want};
/// use nvme_proto::Lba;
///
/// let scheduler = Scheduler::new(4, LeastLoaded::new(), &Ranges::shared(4), Tuning::default())?;
/// let want = Want::write(1 << 20);
/// let mut split = Limits::new(9, 1 << 20)?.split(Lba(0), (1 << 20) >> 9);
/// let mut progress = Progress::new(0);
/// let mut in_flight = Vec::new();
/// while split.left_bytes() != 0 {
///     match scheduler.place(&want, split.left_bytes(), &mut progress) {
///         Ok(placement) => {
///             let piece = split.next_at_most(placement.chunk_bytes());
///             in_flight.push((placement, piece)); // staged on queue `placement.queue()`
///         }
///         // In life: wait until a command ended.
///         Err(_) => in_flight.drain(..).for_each(|(placement, _)| scheduler.done(placement)),
///     }
/// }
/// # in_flight.drain(..).for_each(|(placement, _)| scheduler.done(placement));
/// # assert_eq!(scheduler.total().commands, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scheduler<P = LeastLoaded> {
    loads: Loads,
    /// The queues of each class: the first, and how many.
    ranges: [(u32, u32); CLASSES],
    policy: P,
    tuning: Tuning,
    presence: Presence,
    credits: Credits,
    /// Those who wait until a queue of their class has room.
    rooms: [Tickets; CLASSES],
}

/// Why a scheduler was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// The queues of a class.
    #[error(transparent)]
    Ranges(#[from] RangesError),
    /// The numbers.
    #[error(transparent)]
    Tuning(#[from] TuningError),
}

/// Where a command goes. It must come back through [`Scheduler::done`], else its queue looks loaded for ever.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a placement that is dropped counts for ever"]
pub struct Placement {
    queue: u32,
    chunk_bytes: u32,
    credit_bytes: u32,
}

impl Placement {
    /// The queue, from 0.
    #[inline]
    #[must_use]
    pub fn queue(&self) -> usize {
        self.queue as usize
    }

    /// The most bytes that the command may have.
    #[inline]
    #[must_use]
    pub fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }
}

/// Room for small commands in a row on one queue, so that they share a lock and a doorbell. It must come back through
/// [`Scheduler::settle`], else its queue looks loaded for ever.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a run that is dropped counts for ever"]
pub struct Run {
    queue: u32,
    commands: u32,
}

impl Run {
    /// The queue, from 0.
    #[inline]
    #[must_use]
    pub fn queue(&self) -> usize {
        self.queue as usize
    }

    /// The most commands, at least 1.
    #[inline]
    #[must_use]
    pub fn commands(&self) -> u32 {
        self.commands
    }
}

/// What is remembered of a request between two of its commands.
#[derive(Debug, PartialEq, Eq)]
pub struct Progress {
    queue: u32,
    step: Step,
    for_credit: Line,
    for_room: Line,
    /// A credit that waits for room, in bytes.
    credit_bytes: u32,
}

impl Progress {
    /// A request that begins, by a caller that used `near_queue` last. For a caller that used none, any number spreads
    /// callers over the queues; one that is too large is taken as the first queue.
    #[inline]
    #[must_use]
    pub fn new(near_queue: usize) -> Self {
        Self {
            queue: near_queue as u32,
            step: Step::First,
            for_credit: Line::new(),
            for_room: Line::new(),
            credit_bytes: 0,
        }
    }

    /// The queue that was used last.
    #[inline]
    #[must_use]
    pub fn near_queue(&self) -> usize {
        self.queue as usize
    }
}

/// Why a command has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRoom {
    /// The queues of its class have as many commands as they may have, or others came first.
    #[error("the queues of the class have {} commands outstanding, which is the most", load.commands)]
    Queues {
        /// What is outstanding on the device.
        load: Load,
    },
    /// The device has as many background bytes in flight as it may have, or others came first.
    #[error(transparent)]
    Credits(#[from] Full),
}

impl<P: Place> Scheduler<P> {
    /// A scheduler for a device with `queues` queues, all of them idle.
    ///
    /// # Errors
    ///
    /// [`SchedulerError`]; nothing would ever move.
    pub fn new(queues: usize, policy: P, ranges: &Ranges, tuning: Tuning) -> Result<Self, SchedulerError> {
        ranges.check(queues)?;
        tuning.check()?;
        let presence = Presence::new(tuning.presence_bytes);
        let ranges = [Class::Sync, Class::Batch, Class::Control].map(|class| {
            let range = ranges.of(class);
            (range.start as u32, range.len() as u32)
        });
        Ok(Self {
            loads: Loads::new(queues),
            ranges,
            policy,
            tuning,
            presence,
            credits: Credits::new(),
            rooms: core::array::from_fn(|_| Tickets::new()),
        })
    }

    /// Places the next command of a request of which `left_bytes` have no command yet.
    ///
    /// The command may have up to [`Placement::chunk_bytes`]; a shorter one (at a boundary of the namespace) counts as
    /// much until it is done.
    ///
    /// # Errors
    ///
    /// [`NoRoom`]: ask again with the same `progress` after a command ended. A request that is given up instead goes
    /// through [`Scheduler::leave`].
    // Always: the want is nearly all constants at its caller, and folded there.
    #[inline(always)]
    pub fn place(&self, want: &Want, left_bytes: u64, progress: &mut Progress) -> Result<Placement, NoRoom> {
        if want.request_bytes > u64::from(self.tuning.small_bytes) || want.level == Level::Background {
            return self.place_large(want, left_bytes, progress);
        }
        if want.direction == Direction::Read {
            self.presence.note();
        }
        let chunk_bytes = at_most(left_bytes, self.tuning.transfer_max_bytes);
        // The way of most requests, short enough to be inlined.
        if self.rooms[want.class as usize].is_empty()
            && let Some(queue) = self.choose(want, chunk_bytes, progress)
        {
            return Ok(Placement { queue, chunk_bytes, credit_bytes: 0 });
        }
        self.put(want, chunk_bytes, progress)
    }

    /// Ends a command, or takes back a placement that was not used.
    #[inline(always)]
    #[expect(clippy::needless_pass_by_value, reason = "a command ends once")]
    pub fn done(&self, placement: Placement) {
        let Placement { queue, chunk_bytes, credit_bytes } = placement;
        self.loads.take(queue as usize, chunk_bytes);
        if credit_bytes != 0 {
            self.credits.release(Credit::from_bytes(credit_bytes));
        }
    }

    /// Whether a small request may go to its caller's queue without being placed, since that is idle and the policy leaves
    /// it there. Nothing is counted: whoever finds that the command takes longer than it holds the queue for
    /// [notes](Self::note_small) it.
    #[inline(always)]
    #[must_use]
    pub fn is_for(&self, want: &Want, near_queue: usize) -> bool {
        let (start, count) = self.ranges[want.class as usize];
        let is_for = want.request_bytes <= u64::from(self.tuning.small_bytes)
            && want.level != Level::Background
            && self.rooms[want.class as usize].is_empty()
            && self.policy.keeps_idle()
            && near_queue.wrapping_sub(start as usize) < count as usize
            && self.loads.is_idle(near_queue);
        if is_for && want.direction == Direction::Read {
            self.presence.note();
        }
        is_for
    }

    /// Counts a small command on a queue that it was given to without being placed.
    #[inline]
    pub fn note_small(&self, queue: usize, bytes: u32) -> Placement {
        // Without a bound: it has a slot.
        let _ = self.loads.add(queue, bytes, u32::MAX);
        Placement { queue: queue as u32, chunk_bytes: bytes, credit_bytes: 0 }
    }

    /// Places a small request that is one command, for a caller that used `near_queue` last: the common way, with nothing
    /// to be remembered. `None` when it is not that way, and [`Scheduler::place`] is to be asked.
    #[inline(always)]
    pub fn place_small(&self, want: &Want, near_queue: usize) -> Option<Placement> {
        if want.request_bytes > u64::from(self.tuning.small_bytes)
            || want.level == Level::Background
            || !self.rooms[want.class as usize].is_empty()
        {
            return None;
        }
        if want.direction == Direction::Read {
            self.presence.note();
        }
        let (start, count) = self.ranges[want.class as usize];
        let view = self.loads.view(start as usize, count as usize, near_queue, Step::First);
        // The policy may be anybody's.
        let queue = start as usize + self.policy.choose(view, want).min(count as usize - 1);
        let chunk_bytes = want.request_bytes as u32;
        self.loads.add(queue, chunk_bytes, self.tuning.queue_commands).ok()?;
        Some(Placement { queue: queue as u32, chunk_bytes, credit_bytes: 0 })
    }

    /// Takes back what [`place_small`](Self::place_small) placed or [`note_small`](Self::note_small) counted.
    #[inline(always)]
    #[expect(clippy::needless_pass_by_value, reason = "a command ends once")]
    pub fn done_small(&self, placement: Placement) {
        self.loads.take(placement.queue as usize, placement.chunk_bytes);
    }

    /// The most bytes of each command of a large request that is not held back. Those may be placed by
    /// [`Scheduler::place_run`].
    #[inline]
    #[must_use]
    pub fn free_chunk(&self, want: &Want) -> Option<u32> {
        if want.is_background(self.tuning.small_bytes) && want.mode != Mode::Throughput {
            return None;
        }
        Some(chunk::foreground(&self.tuning, want.request_bytes))
    }

    /// Places up to `most` small commands, of which `want` is the first, on one queue. Each has at most
    /// [`Tuning::small_bytes`] bytes, or [`Scheduler::free_chunk`] if they belong to one large request.
    ///
    /// # Errors
    ///
    /// [`NoRoom`], as for [`Scheduler::place`].
    pub fn place_run(&self, want: &Want, most: u32, progress: &mut Progress) -> Result<Run, NoRoom> {
        // A large request goes on where it was.
        if want.request_bytes <= u64::from(self.tuning.small_bytes) {
            if want.direction == Direction::Read {
                self.presence.note();
            }
            // The run is a request by itself for a policy that lets requests keep their queues.
            progress.step = Step::First;
        }
        // The way of most.
        if self.rooms[want.class as usize].is_empty()
            && let Some(run) = self.choose_run(want, most, progress)
        {
            return Ok(run);
        }
        self.put_run(want, most, progress)
    }

    #[cold]
    fn put_run(&self, want: &Want, most: u32, progress: &mut Progress) -> Result<Run, NoRoom> {
        let mut for_room = core::mem::take(&mut progress.for_room);
        let placed = self.rooms[want.class as usize].ask(&mut for_room, || {
            self.choose_run(want, most, progress).or_else(|| self.choose_other_run(want, most, progress))
        });
        progress.for_room = for_room;
        placed.ok_or_else(|| self.no_room())
    }

    /// Says how many commands of a run there are, and the bytes of all of them. The rest of the run is given back.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a run is settled once")]
    pub fn settle(&self, run: Run, commands: u32, bytes: u64) {
        self.loads.settle_run(run.queue(), run.commands - commands, bytes);
    }

    /// Ends commands of runs on `queue`.
    #[inline]
    pub fn done_run(&self, queue: usize, load: Load) {
        self.loads.take_run(queue, load);
    }

    /// Gives up a request that may stand in line. Needless after the last of its commands was placed.
    #[inline]
    pub fn leave(&self, want: &Want, progress: &mut Progress) {
        self.rooms[want.class as usize].leave(&mut progress.for_room);
        self.give_credit_up(progress);
    }

    /// What is outstanding on the device.
    #[must_use]
    pub fn total(&self) -> Load {
        self.loads.total()
    }

    /// What is outstanding on each queue.
    #[must_use]
    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    /// The credits for background bytes.
    #[must_use]
    pub fn credits(&self) -> &Credits {
        &self.credits
    }

    /// The numbers that it decides by.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Whether small reads are about, so that background commands are short and few.
    #[must_use]
    pub fn sees_small_reads(&self) -> bool {
        self.presence.is_seen()
    }

    #[inline(never)]
    fn place_large(
        &self,
        want: &Want,
        left_bytes: u64,
        progress: &mut Progress,
    ) -> Result<Placement, NoRoom> {
        match chunk::rule(&self.tuning, &self.presence, want) {
            Rule::Free { chunk_bytes } => {
                // A request becomes free when its mode is changed.
                self.give_credit_up(progress);
                self.put(want, at_most(left_bytes, chunk_bytes), progress)
            }
            Rule::Capped { chunk_bytes, cap_bytes } => {
                if progress.credit_bytes == 0 {
                    let bytes = at_most(left_bytes, chunk_bytes);
                    let credit = self.credits.try_acquire(bytes, cap_bytes, &mut progress.for_credit)?;
                    progress.credit_bytes = credit.into_bytes();
                }
                let placement = self.put(want, at_most(left_bytes, progress.credit_bytes), progress)?;
                Ok(Placement { credit_bytes: core::mem::take(&mut progress.credit_bytes), ..placement })
            }
        }
    }

    fn give_credit_up(&self, progress: &mut Progress) {
        self.credits.leave(&mut progress.for_credit);
        let bytes = core::mem::take(&mut progress.credit_bytes);
        if bytes != 0 {
            self.credits.release(Credit::from_bytes(bytes));
        }
    }

    /// Puts a command on a queue, if it is its turn and there is room.
    #[inline(never)]
    fn put(&self, want: &Want, chunk_bytes: u32, progress: &mut Progress) -> Result<Placement, NoRoom> {
        let room = &self.rooms[want.class as usize];
        let mut for_room = core::mem::take(&mut progress.for_room);
        let take = || {
            self.choose(want, chunk_bytes, progress)
                .or_else(|| self.choose_other(want, chunk_bytes, progress))
        };
        let placed = room.ask(&mut for_room, take);
        progress.for_room = for_room;
        let Some(queue) = placed else { return Err(self.no_room()) };
        Ok(Placement { queue, chunk_bytes, credit_bytes: 0 })
    }

    /// Counts a command on the queue that the policy chooses, unless that is full.
    #[inline]
    fn choose(&self, want: &Want, chunk_bytes: u32, progress: &mut Progress) -> Option<u32> {
        let (start, count) = self.ranges[want.class as usize];
        let view = self.loads.view(start as usize, count as usize, progress.near_queue(), progress.step);
        // The policy may be anybody's.
        let queue = start as usize + self.policy.choose(view, want).min(count as usize - 1);
        self.loads.add(queue, chunk_bytes, self.tuning.queue_commands).ok()?;
        (progress.queue, progress.step) = (queue as u32, Step::Next);
        Some(queue as u32)
    }

    /// Counts a command on the first queue that is not full.
    #[cold]
    fn choose_other(&self, want: &Want, chunk_bytes: u32, progress: &mut Progress) -> Option<u32> {
        let (start, count) = self.ranges[want.class as usize];
        let full =
            |queue: u32| self.loads.add(queue as usize, chunk_bytes, self.tuning.queue_commands).is_err();
        let queue = (start..start + count).find(|queue| !full(*queue))?;
        (progress.queue, progress.step) = (queue, Step::Next);
        Some(queue)
    }

    #[inline]
    fn choose_run(&self, want: &Want, most: u32, progress: &mut Progress) -> Option<Run> {
        let (start, count) = self.ranges[want.class as usize];
        let view = self.loads.view(start as usize, count as usize, progress.near_queue(), progress.step);
        // The policy may be anybody's.
        let queue = start as usize + self.policy.choose(view, want).min(count as usize - 1);
        self.take_run(queue as u32, most, progress)
    }

    #[cold]
    fn choose_other_run(&self, want: &Want, most: u32, progress: &mut Progress) -> Option<Run> {
        let (start, count) = self.ranges[want.class as usize];
        (start..start + count).find_map(|queue| self.take_run(queue, most, progress))
    }

    #[inline]
    fn take_run(&self, queue: u32, most: u32, progress: &mut Progress) -> Option<Run> {
        let commands = self.loads.add_run(queue as usize, most, self.tuning.queue_commands);
        (progress.queue, progress.step) = (queue, Step::Next);
        (commands != 0).then_some(Run { queue, commands })
    }

    #[cold]
    fn no_room(&self) -> NoRoom {
        NoRoom::Queues { load: self.total() }
    }
}

#[inline]
fn at_most(bytes: u64, most: u32) -> u32 {
    bytes.min(most.into()) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use crate::place::{HeldQueue, RoundRobin};
    use crate::want::Settings;
    use crate::{View, place::Place};
    use proptest::prelude::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn scheduler<P: Place>(policy: P, tuning: Tuning) -> Scheduler<P> {
        Scheduler::new(4, policy, &Ranges::parted(4), tuning).unwrap()
    }

    #[test]
    fn classes_keep_to_their_queues() {
        let scheduler = scheduler(RoundRobin::new(), Tuning::default());
        for (class, range) in [(Class::Sync, 0..2), (Class::Batch, 2..4), (Class::Control, 3..4)] {
            for near in 0..6 {
                let want = Want::read(4096).class(class);
                let placement = scheduler.place(&want, 4096, &mut Progress::new(near)).unwrap();
                assert!(range.contains(&placement.queue()));
                scheduler.done(placement);
            }
        }
        assert_eq!(scheduler.total(), Load::default());
    }

    #[test]
    fn a_policy_that_points_nowhere_is_given_the_last_queue() {
        struct Nowhere;
        impl Place for Nowhere {
            fn choose(&self, _: View<'_>, _: &Want) -> usize {
                usize::MAX
            }
        }
        let scheduler = scheduler(Nowhere, Tuning::default());
        let placement = scheduler.place(&Want::read(512), 512, &mut Progress::new(0)).unwrap();
        assert_eq!(placement.queue(), 1);
        scheduler.done(placement);
    }

    #[test]
    fn a_full_queue_is_passed_by() {
        let scheduler = scheduler(HeldQueue::new(), Tuning { queue_commands: 1, ..Tuning::default() });
        let (want, mut progress) = (Want::read(512), Progress::new(0));
        let first = scheduler.place(&want, 512, &mut progress).unwrap();
        let second = scheduler.place(&want, 512, &mut progress).unwrap();
        assert_eq!((first.queue(), second.queue()), (0, 1));
        assert!(matches!(scheduler.place(&want, 512, &mut progress), Err(NoRoom::Queues { .. })));
        scheduler.leave(&want, &mut progress);
        scheduler.done(first);
        scheduler.done(scheduler.place(&want, 512, &mut Progress::new(0)).unwrap());
        scheduler.done(second);
    }

    #[test]
    fn a_run_has_the_room_of_its_queue_and_then_of_another() {
        let scheduler = scheduler(LeastLoaded::new(), Tuning { queue_commands: 40, ..Tuning::default() });
        let (want, mut progress) = (Want::read(4096).class(Class::Batch), Progress::new(0));
        let mut runs = Vec::new();
        while let Ok(run) = scheduler.place_run(&want, 32, &mut progress) {
            runs.push((run.queue(), run.commands()));
            let commands = run.commands();
            scheduler.settle(run, commands, u64::from(commands) * 4096);
        }
        assert_eq!(runs, [(2, 32), (3, 32), (2, 8), (3, 8)]);
        scheduler.leave(&want, &mut progress);
        for (queue, commands) in runs {
            scheduler.done_run(queue, Load { bytes: u64::from(commands) * 4096, commands });
        }
        assert_eq!(scheduler.total(), Load::default());
        let run = scheduler.place_run(&want, 32, &mut progress).unwrap();
        scheduler.settle(run, 0, 0);
        assert_eq!(scheduler.total(), Load::default());
    }

    /// A request of the model: what it wants, and what became of it.
    struct Asking {
        want: Want,
        left_bytes: u64,
        progress: Progress,
        /// Turns of others since it asked in vain.
        waited: usize,
    }

    fn wants() -> impl Strategy<Value = Want> {
        let mode = prop_oneof![
            Just(Mode::Latency),
            Just(Mode::Priority),
            Just(Mode::Adaptive),
            Just(Mode::Throughput)
        ];
        let level =
            prop_oneof![1 => Just(Level::Urgent), 4 => Just(Level::Normal), 1 => Just(Level::Background)];
        let bytes = prop_oneof![Just(4096u64), 1u64..1 << 18, Just(1 << 20)];
        (mode, level, bytes, any::<bool>(), 0..3).prop_map(|(mode, level, bytes, reads, class)| {
            let want = if reads { Want::read(bytes) } else { Want::write(bytes) };
            let class = [Class::Sync, Class::Batch, Class::Control][class as usize];
            want.class(class).settings(Settings::new().mode(mode).level(level))
        })
    }

    fn policies() -> impl Strategy<Value = usize> {
        0usize..3
    }

    fn policy(at: usize) -> Box<dyn Place> {
        match at {
            0 => Box::new(LeastLoaded::new()),
            1 => Box::new(RoundRobin::new()),
            _ => Box::new(HeldQueue::new()),
        }
    }

    proptest! {
        /// Everybody asks once a round, in an order that changes; the device ends a random command now and then.
        #[test]
        fn no_request_is_lost_bounds_hold_and_nobody_starves(
            wants in proptest::collection::vec(wants(), 1..24),
            turns in proptest::collection::vec(any::<(proptest::sample::Index, proptest::sample::Index)>(), 1..300),
            rule in policies(),
            queue_commands in 1u32..8,
        ) {
            let tuning = Tuning { queue_commands, ..Tuning::default() };
            let scheduler = scheduler(policy(rule), tuning);
            let callers = wants.len();
            let total: u64 = wants.iter().map(|want| want.request_bytes).sum();
            let mut asking: Vec<Asking> = wants
                .into_iter()
                .map(|want| Asking { want, left_bytes: want.request_bytes, progress: Progress::new(0), waited: 0 })
                .collect();
            let (mut flying, mut moved): (Vec<Placement>, u64) = (Vec::new(), 0);
            let mut turn = turns.iter().cycle();
            // Of each request one command in a round at most; the smallest command has 512 bytes here, or ends it.
            for _ in 0..200_000 {
                let (first, ends) = turn.next().unwrap();
                let first = first.index(callers);
                for at in (0..callers).map(|at| (first + at) % callers) {
                    let one = &mut asking[at];
                    if one.left_bytes == 0 {
                        continue;
                    }
                    match scheduler.place(&one.want, one.left_bytes, &mut one.progress) {
                        Ok(placement) => {
                            let bytes = placement.chunk_bytes();
                            prop_assert!(bytes > 0 && bytes <= tuning.transfer_max_bytes);
                            prop_assert!(u64::from(bytes) <= one.left_bytes);
                            one.left_bytes -= u64::from(bytes);
                            one.waited = 0;
                            flying.push(placement);
                        }
                        Err(_) => one.waited += 1,
                    }
                    // Each of the others may be served once before it for credits and once for room, and each of these
                    // waits until a command ends.
                    let bound = 2 * callers * (1 + 4 * queue_commands as usize);
                    prop_assert!(one.waited <= bound, "caller {at} waited for {} rounds", one.waited);
                }
                for queue in 0..4 {
                    prop_assert!(scheduler.loads().load(queue).commands <= queue_commands);
                }
                prop_assert!(scheduler.credits().out_bytes() <= tuning.quiet_bytes);
                if !flying.is_empty() {
                    let placement = flying.swap_remove(ends.index(flying.len()));
                    moved += u64::from(placement.chunk_bytes());
                    scheduler.done(placement);
                } else if asking.iter().all(|one| one.left_bytes == 0) {
                    break;
                }
            }
            prop_assert_eq!(moved, total);
            prop_assert_eq!(scheduler.total(), Load::default());
            prop_assert_eq!((scheduler.credits().out_bytes(), scheduler.credits().waiting()), (0, 0));
        }
    }
}
