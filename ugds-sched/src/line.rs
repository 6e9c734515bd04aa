//! A line of callers that wait for the same thing: first come, first served.
//!
//! The line is a ring of tickets: `serving` is the ticket whose turn it is, `next` the one that the next comer gets.
//! Nobody is woken from here; a caller asks again after something completed.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use alloc::boxed::Box;

/// A caller's place in line, or none.
///
/// One that holds a place should go on asking, or leave: those behind it overtake only after they asked in vain many
/// times.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    ticket: Option<u32>,
}

impl Line {
    /// Not in line.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { ticket: None }
    }

    /// Whether a place is held.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.ticket.is_some()
    }
}

/// Hands out tickets, and serves them in order.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Tickets {
    next: AtomicU32,
    serving: AtomicU32,
    /// How often others asked since the first in line did.
    impatience: AtomicU32,
    /// The marks of tickets whose holders went away before their turn, each at its number modulo the length.
    left: Box<[AtomicU64]>,
}

impl Tickets {
    /// Nobody in line.
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            impatience: AtomicU32::new(0),
            left: (0..PLACES).map(|_| AtomicU64::new(NO_MARK)).collect(),
        }
    }

    /// Tries to take something with `take`, if it is the caller's turn. Whoever gets nothing has a place in line then, if
    /// one is left, and keeps it until it gets something.
    #[inline]
    pub(crate) fn ask<T>(&self, line: &mut Line, mut take: impl FnMut() -> Option<T>) -> Option<T> {
        if self.is_empty()
            && let Some(taken) = take()
        {
            return Some(taken);
        }
        self.ask_in_line(line, take)
    }

    /// Gives a place in line up, if one is held.
    #[inline]
    pub(crate) fn leave(&self, line: &mut Line) {
        if let Some(ticket) = line.ticket.take() {
            // Relaxed: the fence in `pass_left` orders it.
            self.left[place(ticket)].store(mark(ticket), Ordering::Relaxed);
            self.pass_left();
        }
    }

    /// Whether nobody is in line. Never for somebody who is.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: whoever stands in line has seen its own ticket handed out, and its turn does not end without it.
        self.next.load(Ordering::Relaxed) == self.serving.load(Ordering::Relaxed)
    }

    /// Callers in line, some of which may have left.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        // Relaxed: a hint.
        let serving = self.serving.load(Ordering::Relaxed);
        // Relaxed: a hint.
        let waiting = self.next.load(Ordering::Relaxed).wrapping_sub(serving);
        // The two were read one after the other: the second may be older than the first.
        if waiting > PLACES as u32 { 0 } else { waiting }
    }

    #[cold]
    #[inline(never)]
    fn ask_in_line<T>(&self, line: &mut Line, mut take: impl FnMut() -> Option<T>) -> Option<T> {
        if line.ticket.is_none() {
            line.ticket = self.join();
        }
        // It may have become free, and ours, since we looked; nobody would tell.
        let ticket = line.ticket?;
        // Acquire: pairs with the stores of `serving`.
        if self.serving.load(Ordering::Acquire) != ticket {
            return self.overtake(line, take);
        }
        // Relaxed: only how patient others are.
        self.impatience.store(0, Ordering::Relaxed);
        let taken = take()?;
        line.ticket = None;
        // Release: pairs with the loads of `serving`.
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
        self.pass_left();
        Some(taken)
    }

    /// Takes something out of turn, if the first in line did not ask for long: its thread may sleep, or it may be gone.
    fn overtake<T>(&self, line: &mut Line, mut take: impl FnMut() -> Option<T>) -> Option<T> {
        // Relaxed: a count that nothing else depends on.
        let asked = self.impatience.fetch_add(1, Ordering::Relaxed);
        if asked < PATIENCE * self.waiting().max(8) {
            return None;
        }
        let taken = take()?;
        // Relaxed: as above.
        self.impatience.store(0, Ordering::Relaxed);
        self.leave(line);
        Some(taken)
    }

    fn join(&self) -> Option<u32> {
        let free = |next: u32| {
            // Acquire: a place is used again only after the turn of its last holder, whose mark was taken away by then.
            let serving = self.serving.load(Ordering::Acquire);
            (next.wrapping_sub(serving) < PLACES as u32).then(|| next.wrapping_add(1))
        };
        // Relaxed: the ticket is ours by the exchange itself.
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()
    }

    /// Ends the turns of those who left. Whoever takes a mark away ends that turn, and nobody else does.
    fn pass_left(&self) {
        loop {
            // SeqCst: one who leaves has set its mark and looks whose turn it is; one who ends a turn has set whose turn
            // it is and looks for a mark. At least one of two such sees what the other did.
            fence(Ordering::SeqCst);
            // Relaxed: the fence orders it.
            let serving = self.serving.load(Ordering::Relaxed);
            let left = &self.left[place(serving)];
            // AcqRel: a mark is taken once. It names its ticket, so that one of a later round is left alone.
            if left.compare_exchange(mark(serving), NO_MARK, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return;
            }
            // Release: pairs with the loads of `serving`.
            self.serving.store(serving.wrapping_add(1), Ordering::Release);
        }
    }
}

#[inline]
fn place(ticket: u32) -> usize {
    ticket as usize % PLACES
}

/// The mark of a ticket whose holder left: no two tickets have the same, and none has [`NO_MARK`].
#[inline]
fn mark(ticket: u32) -> u64 {
    (1 << 32) | u64::from(ticket)
}

const NO_MARK: u64 = 0;
/// Places in line: more callers than that ask without one.
#[cfg(not(loom))]
pub(crate) const PLACES: usize = 256;
/// A model needs few.
#[cfg(loom)]
pub(crate) const PLACES: usize = 4;
/// How often each in line asks, on average, before the first is overtaken. A thread that spins asks as often as the others;
/// one that sleeps for a time slice must not hold up all of them for as long.
pub(crate) const PATIENCE: u32 = 8;
