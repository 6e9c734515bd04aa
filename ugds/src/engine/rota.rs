//! Who polls a queue, and who sleeps meanwhile.

use super::sync::{Thread, ThreadId};
use ugds_hal::Instant;

/// The duty roster of one queue, under the queue's lock.
///
/// # Invariants
///
/// While somebody sleeps, somebody has the duty to poll, and does, or was woken to do so.
#[derive(Debug)]
pub(super) struct Rota<A> {
    poller: Option<ThreadId>,
    /// In the order of coming. Its room is that of all commands of the queue, so that it does not grow in most lives.
    sleepers: Vec<Sleeper<A>>,
}

/// A thread that sleeps until what it awaits is there, until the duty falls to it, or until it is late.
#[derive(Debug)]
pub(super) struct Sleeper<A> {
    pub(super) thread: Thread,
    pub(super) awaits: A,
    pub(super) deadline: Instant,
}

/// What somebody who waits is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Poll, for everybody.
    Poll,
    /// Sleep, if there is nothing else to poll.
    Sleep,
    /// Nothing: what is awaited is there, or nothing comes any more.
    Over,
}

/// Threads to be woken once the lock is free.
#[derive(Debug, Default)]
pub(super) struct Woken([Option<Thread>; WOKEN_AT_ONCE]);

impl<A> Rota<A> {
    pub(super) fn with_room(sleepers: usize) -> Self {
        Self { poller: None, sleepers: Vec::with_capacity(sleepers) }
    }

    /// Whether nobody sleeps.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.sleepers.is_empty()
    }

    /// Gives the thread the duty to poll if nobody has it; else writes it down as a sleeper.
    pub(super) fn enlist(&mut self, sleeper: Sleeper<A>) -> Duty {
        let me = sleeper.thread.id();
        if *self.poller.get_or_insert(me) == me {
            return Duty::Poll;
        }
        self.sleepers.retain(|other| other.thread.id() != me);
        self.sleepers.push(sleeper);
        Duty::Sleep
    }

    /// Strikes a thread off. If it had the duty, the one that sleeps longest has it now, and is returned to be woken.
    pub(super) fn resign(&mut self, me: ThreadId) -> Option<Thread> {
        self.sleepers.retain(|other| other.thread.id() != me);
        if self.poller != Some(me) {
            return None;
        }
        let next = (!self.sleepers.is_empty()).then(|| self.sleepers.remove(0).thread);
        self.poller = next.as_ref().map(Thread::id);
        next
    }

    /// Strikes off those for whom `is_over` holds, as many as `woken` has room for. `false` when some are left.
    pub(super) fn wake(&mut self, woken: &mut Woken, mut is_over: impl FnMut(&Sleeper<A>) -> bool) -> bool {
        let mut at = 0;
        while let Some(sleeper) = self.sleepers.get(at) {
            if !is_over(sleeper) {
                at += 1;
                continue;
            }
            let Some(free) = woken.0.iter_mut().find(|place| place.is_none()) else { return false };
            *free = Some(self.sleepers.remove(at).thread);
        }
        true
    }
}

impl Woken {
    /// Wakes them. Never under a lock: it is a call of the kernel.
    pub(super) fn wake(self) {
        self.0.into_iter().flatten().for_each(|thread| thread.unpark());
    }
}

/// More take another turn.
const WOKEN_AT_ONCE: usize = 16;
