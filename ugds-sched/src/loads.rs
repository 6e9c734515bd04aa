//! What is outstanding on each queue.

use crate::atomic::{AtomicU64, Ordering};
use crate::place::Step;
use alloc::boxed::Box;

/// What is outstanding on a queue or on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of the commands.
    pub bytes: u64,
    /// Commands.
    pub commands: u32,
}

/// The outstanding work of one device, queue by queue.
///
/// One locked instruction adds a command, one takes it away, both on the queue's own cache line. There is no counter
/// for the whole device: [`Loads::total`] adds the queues up.
#[derive(Debug)]
pub struct Loads {
    queues: Box<[Counter]>,
}

/// Bytes in the upper 44 bits, commands in the lower 20, so that comparing two of them compares bytes first.
#[derive(Debug)]
#[repr(align(64))]
struct Counter(AtomicU64);

impl Loads {
    /// `queues` queues with nothing outstanding.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        Self { queues: (0..queues).map(|_| Counter(AtomicU64::new(0))).collect() }
    }

    /// The number of queues.
    #[inline]
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// What is outstanding on `queue`; nothing on a queue that is not there.
    #[inline]
    #[must_use]
    pub fn load(&self, queue: usize) -> Load {
        unpack(self.queues.get(queue).map_or(0, Counter::read))
    }

    /// What is outstanding on the device.
    #[must_use]
    pub fn total(&self) -> Load {
        self.queues.iter().map(|queue| unpack(queue.read())).fold(Load::default(), |sum, load| Load {
            bytes: sum.bytes + load.bytes,
            commands: sum.commands + load.commands,
        })
    }

    /// Adds a command to `queue`, unless it would be more than `commands_max` there.
    #[inline]
    pub(crate) fn add(&self, queue: usize, bytes: u32, commands_max: u32) -> Result<(), Load> {
        let counter = &self.queues[queue].0;
        // Relaxed: a count; the queue's own lock orders the command itself.
        let before = counter.fetch_add(pack(bytes), Ordering::Relaxed);
        if commands(before) >= commands_max {
            // Relaxed: as above. Counted first and taken back, so that the bound holds however many ask at once.
            counter.fetch_sub(pack(bytes), Ordering::Relaxed);
            return Err(unpack(before));
        }
        Ok(())
    }

    /// Whether nothing is outstanding on the queue.
    #[inline(always)]
    pub(crate) fn is_idle(&self, queue: usize) -> bool {
        self.queues.get(queue).is_some_and(|counter| counter.read() == 0)
    }

    /// Takes a command that was added away from `queue`.
    #[inline]
    pub(crate) fn take(&self, queue: usize, bytes: u32) {
        // Relaxed: a count; whoever reads it decides nothing that has to be right.
        self.queues[queue].0.fetch_sub(pack(bytes), Ordering::Relaxed);
    }

    /// Adds up to `most` commands of no bytes to `queue`, as many as there is room for below `commands_max`.
    #[inline]
    pub(crate) fn add_run(&self, queue: usize, most: u32, commands_max: u32) -> u32 {
        let counter = &self.queues[queue].0;
        // Relaxed: a count; the queue's own lock orders the commands themselves.
        let before = commands(counter.fetch_add(most.into(), Ordering::Relaxed));
        let granted = commands_max.saturating_sub(before).min(most);
        if granted != most {
            // Relaxed: as above. Counted first and taken back, so that the bound holds however many ask at once.
            counter.fetch_sub((most - granted).into(), Ordering::Relaxed);
        }
        granted
    }

    /// Takes `unused` of the commands of a run away again, and adds the bytes of the others.
    #[inline]
    pub(crate) fn settle_run(&self, queue: usize, unused: u32, bytes: u64) {
        let change = (bytes << COMMAND_BITS).wrapping_sub(unused.into());
        // Relaxed: a count.
        self.queues[queue].0.fetch_add(change, Ordering::Relaxed);
    }

    /// Takes as much work away from `queue`.
    #[inline]
    pub(crate) fn take_run(&self, queue: usize, load: Load) {
        let packed = load.bytes << COMMAND_BITS | u64::from(load.commands);
        // Relaxed: a count; whoever reads it decides nothing that has to be right.
        self.queues[queue].0.fetch_sub(packed, Ordering::Relaxed);
    }

    /// The `count` queues from `start` on, for a policy to choose from.
    #[inline]
    pub(crate) fn view(&self, start: usize, count: usize, near: usize, step: Step) -> View<'_> {
        let near = near.wrapping_sub(start);
        View { queues: &self.queues, start, count, near: if near < count { near } else { 0 }, step }
    }
}

impl Counter {
    #[inline]
    fn read(&self) -> u64 {
        // Relaxed: a hint, old as soon as it is read.
        self.0.load(Ordering::Relaxed)
    }
}

/// The queues that a request may go to, numbered from 0, and how loaded they are at the moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'l> {
    queues: &'l [Counter],
    start: usize,
    count: usize,
    near: usize,
    step: Step,
}

impl View<'_> {
    /// The number of queues, at least 1.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a request has always somewhere to go")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// What is outstanding on a queue; nothing on one that is not there.
    #[inline]
    #[must_use]
    pub fn load(&self, queue: usize) -> Load {
        unpack(if queue < self.count { self.key(queue) } else { 0 })
    }

    /// The queue that the same caller used last; its lines are likely in this core's cache.
    #[inline]
    #[must_use]
    pub fn near(&self) -> usize {
        self.near
    }

    /// Whether the request begins, or continues on [`View::near`].
    #[inline]
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }

    /// Something to compare queues by: bytes, then commands. For a queue below [`View::len`].
    #[inline]
    pub(crate) fn key(&self, queue: usize) -> u64 {
        self.queues.get(self.start + queue).map_or(0, Counter::read)
    }

    /// The queue with the least key.
    #[inline]
    pub(crate) fn least(&self) -> usize {
        // By parts: what is passed by reference can't stay in registers.
        least(self.queues, self.start, self.count)
    }
}

/// The least loaded of `count` queues from `start` on. A loop over a few cache lines: there are about as many queues as
/// cores.
#[inline(never)]
fn least(queues: &[Counter], start: usize, count: usize) -> usize {
    let (mut best, mut least) = (0, u64::MAX);
    for (queue, counter) in queues.iter().skip(start).take(count).enumerate() {
        let key = counter.read();
        if key < least {
            (best, least) = (queue, key);
        }
    }
    best
}

/// One command of `bytes`.
#[inline]
fn pack(bytes: u32) -> u64 {
    (u64::from(bytes) << COMMAND_BITS) | 1
}

#[inline]
fn unpack(packed: u64) -> Load {
    Load { bytes: packed >> COMMAND_BITS, commands: commands(packed) }
}

#[inline]
fn commands(packed: u64) -> u32 {
    packed as u32 & ((1 << COMMAND_BITS) - 1)
}

/// `bytes` as they stand in a key.
#[inline]
pub(crate) fn bytes_in_key(bytes: u32) -> u64 {
    u64::from(bytes) << COMMAND_BITS
}

/// A queue has at most 65,535 slots; sixteen times that leaves room for those that count before they give up.
const COMMAND_BITS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_taken_away() {
        let loads = Loads::new(2);
        loads.add(1, u32::MAX, 9).unwrap();
        loads.add(1, 512, 9).unwrap();
        loads.add(0, 4096, 9).unwrap();
        assert_eq!(loads.load(1), Load { bytes: u64::from(u32::MAX) + 512, commands: 2 });
        assert_eq!(loads.total().commands, 3);
        loads.take(1, u32::MAX);
        assert_eq!(loads.load(1), Load { bytes: 512, commands: 1 });
        assert_eq!(loads.load(7), Load::default());
    }

    #[test]
    fn the_bound_refuses_and_leaves_no_trace() {
        let loads = Loads::new(1);
        loads.add(0, 512, 1).unwrap();
        assert_eq!(loads.add(0, 512, 1), Err(Load { bytes: 512, commands: 1 }));
        assert_eq!(loads.total(), Load { bytes: 512, commands: 1 });
    }

    #[test]
    fn a_run_counts_its_bytes_when_they_are_known() {
        let loads = Loads::new(1);
        assert_eq!(loads.add_run(0, 8, 20), 8);
        loads.settle_run(0, 3, 5 * 4096);
        assert_eq!(loads.load(0), Load { bytes: 5 * 4096, commands: 5 });
        assert_eq!(loads.add_run(0, 32, 20), 15, "no more than there is room for");
        assert_eq!(loads.add_run(0, 1, 20), 0);
        loads.settle_run(0, 15, 0);
        loads.take_run(0, Load { bytes: 5 * 4096, commands: 5 });
        assert_eq!(loads.total(), Load::default());
    }

    #[test]
    fn a_view_counts_from_its_own_start() {
        let loads = Loads::new(4);
        loads.add(3, 512, 9).unwrap();
        let view = loads.view(2, 2, 3, Step::First);
        assert_eq!((view.len(), view.near(), view.load(1).bytes), (2, 1, 512));
        assert_eq!(loads.view(2, 2, 0, Step::First).near(), 0);
    }
}
