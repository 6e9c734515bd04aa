//! A cap on bytes in flight, handed out in the order of asking.

use crate::atomic::{AtomicU64, Ordering};
use crate::line::{Line, Tickets};

/// Credits for the bytes that a whole device may have in flight.
#[derive(Debug)]
pub struct Credits {
    tickets: Tickets,
    out: Out,
}

/// A cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Out(AtomicU64);

/// The right to have bytes in flight, to be given back by [`Credits::release`]. One that is lost is never handed out
/// again.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a credit that is lost is lost for ever"]
pub struct Credit {
    bytes: u32,
}

impl Credit {
    /// The bytes that it is for.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// A credit as a number, for a place where nothing but numbers fit.
    #[inline]
    pub(crate) fn into_bytes(self) -> u32 {
        self.bytes
    }

    /// The credit that became a number.
    #[inline]
    pub(crate) fn from_bytes(bytes: u32) -> Self {
        Self { bytes }
    }
}

/// No credit is left, or others came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{out_bytes} background bytes are in flight, and {waiting} callers wait for their turn")]
pub struct Full {
    /// Bytes in flight.
    pub out_bytes: u64,
    /// Callers in line.
    pub waiting: u32,
}

impl Credits {
    /// Nothing in flight, nobody in line.
    #[must_use]
    pub fn new() -> Self {
        Self { tickets: Tickets::new(), out: Out(AtomicU64::new(0)) }
    }

    /// Takes `bytes` while no more than `cap_bytes` are out then. More than the cap is lent when nothing else is out.
    ///
    /// Whoever is refused gets a place in `line`, if there is one left (there are 256), and keeps it until it is served.
    ///
    /// # Errors
    ///
    /// [`Full`]: ask again after something completed.
    pub fn try_acquire(&self, bytes: u32, cap_bytes: u64, line: &mut Line) -> Result<Credit, Full> {
        self.tickets.ask(line, || self.take(bytes, cap_bytes)).ok_or_else(|| self.full())
    }

    /// Gives a credit back.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a credit is given back once")]
    pub fn release(&self, credit: Credit) {
        let Credit { bytes } = credit;
        // Relaxed: a count; the queue's own lock orders the commands.
        self.out.0.fetch_sub(bytes.into(), Ordering::Relaxed);
    }

    /// Gives a place in line up, if one is held.
    #[inline]
    pub fn leave(&self, line: &mut Line) {
        self.tickets.leave(line);
    }

    /// Bytes in flight.
    #[must_use]
    pub fn out_bytes(&self) -> u64 {
        // Relaxed: a count, old as soon as it is read.
        self.out.0.load(Ordering::Relaxed)
    }

    /// Callers in line, some of which may have left.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.tickets.waiting()
    }

    fn take(&self, bytes: u32, cap_bytes: u64) -> Option<Credit> {
        let more = u64::from(bytes);
        let fits = |out: u64| (out == 0 || out + more <= cap_bytes).then_some(out + more);
        // Relaxed: a count. A loop, so that it is never above the cap, not even for a moment.
        self.out.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok().map(|_| Credit { bytes })
    }

    #[cold]
    fn full(&self) -> Full {
        Full { out_bytes: self.out_bytes(), waiting: self.waiting() }
    }
}

impl Default for Credits {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use crate::line::{PATIENCE, PLACES};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    #[test]
    fn the_line_is_served_in_order() {
        let credits = Credits::new();
        let [mut first, mut second, mut third] = [Line::new(), Line::new(), Line::new()];
        let held = credits.try_acquire(100, 100, &mut Line::new()).unwrap();
        assert_eq!(credits.try_acquire(50, 100, &mut first), Err(Full { out_bytes: 100, waiting: 1 }));
        assert!(credits.try_acquire(50, 100, &mut second).is_err());
        assert!(credits.try_acquire(50, 100, &mut third).is_err());
        credits.release(held);
        assert!(credits.try_acquire(50, 100, &mut second).is_err(), "the first has not had its turn");
        credits.leave(&mut first);
        let held = credits.try_acquire(50, 100, &mut second).unwrap();
        assert!(!second.is_waiting());
        credits.leave(&mut third);
        assert_eq!((credits.out_bytes(), credits.waiting()), (50, 0));
        credits.release(held);
    }

    #[test]
    fn more_than_the_cap_is_lent_alone() {
        let credits = Credits::new();
        let held = credits.try_acquire(200, 100, &mut Line::new()).unwrap();
        let mut line = Line::new();
        assert!(credits.try_acquire(1, 100, &mut line).is_err());
        credits.release(held);
        let _held = credits.try_acquire(1, 100, &mut line).unwrap();
    }

    #[test]
    fn a_line_that_is_full_takes_nobody() {
        let credits = Credits::new();
        let held = credits.try_acquire(1, 1, &mut Line::new()).unwrap();
        let mut lines: Vec<Line> = (0..PLACES + 1).map(|_| Line::new()).collect();
        for line in &mut lines {
            assert!(credits.try_acquire(1, 1, line).is_err());
        }
        assert!(!lines[PLACES].is_waiting() && lines[PLACES - 1].is_waiting());
        credits.release(held);
        lines.iter_mut().for_each(|line| credits.leave(line));
        assert_eq!(credits.waiting(), 0);
        let _held = credits.try_acquire(1, 1, &mut Line::new()).unwrap();
    }

    #[test]
    fn a_caller_that_is_gone_is_overtaken_in_the_end() {
        let credits = Credits::new();
        let held = credits.try_acquire(1, 1, &mut Line::new()).unwrap();
        let (mut gone, mut patient) = (Line::new(), Line::new());
        assert!(credits.try_acquire(1, 1, &mut gone).is_err());
        credits.release(held);
        let asked = (1..).find(|_| credits.try_acquire(1, 1, &mut patient).is_ok()).unwrap();
        assert_eq!((asked, patient.is_waiting()), (PATIENCE * 8 + 1, false));
    }

    #[derive(Clone, Copy, Debug)]
    enum Move {
        Ask(usize),
        Release,
        Leave(usize),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let one = prop_oneof![
            4 => (0..CALLERS).prop_map(Move::Ask),
            3 => Just(Move::Release),
            1 => (0..CALLERS).prop_map(Move::Leave),
        ];
        proptest::collection::vec(one, 0..400)
    }

    const CALLERS: usize = 6;

    proptest! {
        /// Against a line of people: who stands first is served first, and the cap holds.
        #[test]
        fn nobody_is_overtaken_and_the_cap_is_kept(moves in moves(), bytes in 1u32..60) {
            let credits = Credits::new();
            let mut lines: Vec<Line> = (0..CALLERS).map(|_| Line::new()).collect();
            let (mut people, mut held, mut in_vain) = (VecDeque::new(), Vec::new(), 0);
            for step in moves {
                match step {
                    Move::Ask(caller) => match credits.try_acquire(bytes, 100, &mut lines[caller]) {
                        Ok(credit) => {
                            let patient = in_vain < PATIENCE * 8;
                            prop_assert!(!patient || people.front().is_none_or(|first| *first == caller));
                            in_vain = 0;
                            people.retain(|other| *other != caller);
                            held.push(credit);
                        }
                        Err(_) => {
                            if !people.contains(&caller) {
                                people.push_back(caller);
                            }
                            in_vain = if people.front() == Some(&caller) { 0 } else { in_vain + 1 };
                        }
                    },
                    Move::Release => {
                        if let Some(credit) = held.pop() {
                            credits.release(credit);
                        }
                    }
                    Move::Leave(caller) => {
                        credits.leave(&mut lines[caller]);
                        people.retain(|other| *other != caller);
                    }
                }
                prop_assert_eq!(credits.out_bytes(), held.len() as u64 * u64::from(bytes));
                prop_assert!(credits.out_bytes() <= 100);
                prop_assert_eq!(credits.waiting() == 0, people.is_empty());
            }
            held.drain(..).for_each(|credit| credits.release(credit));
            while let Some(first) = people.pop_front() {
                let credit = credits.try_acquire(bytes, 100, &mut lines[first]);
                prop_assert!(credit.is_ok(), "the first in line is served once the device is idle");
                credits.release(credit.unwrap());
            }
        }
    }
}
