//! Who polls a queue, and who sleeps meanwhile.

use super::sync::{Thread, ThreadId};
use ugds_hal::{Event, Instant};

/// The duty roster of one queue, under the queue's lock.
///
/// # Invariants
///
/// While somebody sleeps who could poll, somebody has the duty to poll, and does, or was called to do so.
#[derive(Debug)]
pub(super) struct Rota<A> {
    poller: Option<(Id, Role)>,
    /// In the order of coming. Its room is that of all commands of the queue, so that it does not grow in most lives.
    sleepers: Vec<Sleeper<A>>,
}

/// Somebody who sleeps until what it awaits is there, until the duty falls to it, or until it is late.
#[derive(Debug)]
pub(super) struct Sleeper<A> {
    pub(super) id: Id,
    pub(super) role: Role,
    pub(super) call: Call,
    pub(super) awaits: A,
    pub(super) deadline: Instant,
}

/// Who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Thread(ThreadId),
    /// Nobody in particular: whoever comes to look after a landing.
    Landing(u32),
}

/// What somebody does with the duty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It looks, again and again.
    Spins,
    /// It sleeps until the device interrupts. It is on the roster all the while: another may look before it.
    Dozes,
    /// It never has the duty. The interrupt calls it beside whoever has.
    Listens,
}

/// How somebody is woken.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Unpark(Thread),
    Ring(Event),
}

impl Call {
    /// Never under a lock: it is a call of the kernel.
    pub(super) fn make(self) {
        match self {
            Self::Unpark(thread) => thread.unpark(),
            Self::Ring(event) => event.signal(),
        }
    }
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

/// Sleepers to be woken once the lock is free.
#[derive(Debug, Default)]
pub(super) struct Woken([Option<Call>; WOKEN_AT_ONCE]);

impl<A> Rota<A> {
    pub(super) fn with_room(sleepers: usize) -> Self {
        Self { poller: None, sleepers: Vec::with_capacity(sleepers) }
    }

    /// Whether nobody sleeps.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.sleepers.is_empty()
    }

    /// Gives somebody the duty to poll if nobody has it; else writes it down as a sleeper.
    pub(super) fn enlist(&mut self, sleeper: Sleeper<A>) -> Duty {
        let duty = match (self.poller, sleeper.role) {
            (_, Role::Listens) => Duty::Sleep,
            (None, role) => {
                self.poller = Some((sleeper.id, role));
                Duty::Poll
            }
            (Some((id, _)), _) if id == sleeper.id => Duty::Poll,
            // It would sleep as long as the one that dozes, which it was not to: it looks beside that one.
            (Some((_, Role::Dozes)), Role::Spins) => return Duty::Poll,
            _ => Duty::Sleep,
        };
        self.sleepers.retain(|other| other.id != sleeper.id);
        if duty == Duty::Sleep || sleeper.role == Role::Dozes {
            self.sleepers.push(sleeper);
        }
        duty
    }

    /// Strikes somebody off. If it had the duty, the one that sleeps longest has it now, and is returned to be called. If
    /// nobody is left but listeners, one is called to look: the last interrupt may have been taken for what had ended
    /// before.
    pub(super) fn resign(&mut self, me: Id) -> Option<Call> {
        self.sleepers.retain(|other| other.id != me);
        if self.poller.is_none_or(|(id, _)| id != me) {
            return None;
        }
        self.poller = None;
        let next = self.sleepers.iter().position(|other| other.role != Role::Listens);
        let next = next.or((!self.sleepers.is_empty()).then_some(0))?;
        // It comes back to the roster, or leaves it.
        let next = self.sleepers.remove(next);
        if next.role != Role::Listens {
            self.poller = Some((next.id, next.role));
        }
        Some(next.call)
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
            *free = Some(self.sleepers.remove(at).call);
        }
        true
    }
}

impl Woken {
    /// Wakes them. Never under a lock.
    pub(super) fn wake(self) {
        self.0.into_iter().flatten().for_each(Call::make);
    }
}

/// More take another turn.
const WOKEN_AT_ONCE: usize = 16;
