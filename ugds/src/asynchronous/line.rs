//! Those who wait for a place, in the order of coming.

use std::collections::VecDeque;
use std::task::Waker;

/// A line of tasks.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: VecDeque<(u64, Waker)>,
    next: u64,
}

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u64);

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Joins at the end.
    pub(super) fn join(&mut self, waker: &Waker) -> Number {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back((number, waker.clone()));
        Number(number)
    }

    /// Whether `number` is one of the first `places`. If it is not, `waker` is woken once that may have changed.
    pub(super) fn is_among_first(&mut self, number: Number, places: usize, waker: &Waker) -> bool {
        match self.waiting.iter_mut().enumerate().find(|(_, (other, _))| *other == number.0) {
            Some((at, _)) if at < places => true,
            Some((_, (_, old))) => {
                old.clone_from(waker);
                false
            }
            None => false,
        }
    }

    /// Leaves it.
    pub(super) fn leave(&mut self, number: Number) {
        self.waiting.retain(|(other, _)| *other != number.0);
    }

    /// Adds the first `places` of them to `woken`.
    pub(super) fn call(&self, places: usize, woken: &mut Vec<Waker>) {
        woken.extend(self.waiting.iter().take(places).map(|(_, waker)| waker.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_come_first() {
        let (mut line, waker) = (Line::default(), Waker::noop());
        let numbers: Vec<_> = (0..3).map(|_| line.join(waker)).collect();
        assert!(line.is_among_first(numbers[0], 1, waker) && !line.is_among_first(numbers[1], 1, waker));
        line.leave(numbers[0]);
        assert!(line.is_among_first(numbers[1], 1, waker) && !line.is_among_first(numbers[0], 1, waker));
        let mut woken = Vec::new();
        line.call(9, &mut woken);
        assert_eq!(woken.len(), 2);
    }
}
