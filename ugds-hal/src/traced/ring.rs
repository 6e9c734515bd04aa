//! A ring with one writer that never waits and drops the oldest.

use super::event::Words;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A ring of events. Whoever has the [`Pen`] writes; anybody reads, and notices what was written over meanwhile.
///
/// It is a sequence lock for each entry, made of plain loads and stores.
#[derive(Debug)]
pub(super) struct Ring {
    entries: Box<[Entry]>,
    /// Events written so far.
    written: AtomicU64,
    /// Events that were drained, or dropped before they could be.
    drained: AtomicU64,
    /// Of these, those that were dropped.
    dropped: AtomicU64,
    taken: AtomicBool,
}

#[derive(Debug, Default)]
struct Entry {
    /// The number of its event, from 1 on, or 0 while it is being written.
    number: AtomicU64,
    words: [AtomicU64; 4],
}

/// The right to write to a ring. There is one at a time.
#[derive(Debug)]
pub(super) struct Pen(std::sync::Arc<Ring>);

/// What was read from a ring, oldest first.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) events: Vec<Words>,
    pub(super) dropped: u64,
}

impl Ring {
    /// A ring of at least `entries` entries.
    pub(super) fn new(entries: usize) -> Self {
        Self {
            entries: (0..entries.max(1).next_power_of_two()).map(|_| Entry::default()).collect(),
            written: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            taken: AtomicBool::new(false),
        }
    }

    /// Takes the right to write, if nobody has it.
    pub(super) fn pen(self: &std::sync::Arc<Self>) -> Option<Pen> {
        // Acquire: the next writer goes on where the last one stopped.
        let free = !self.taken.swap(true, Ordering::Acquire);
        free.then(|| Pen(std::sync::Arc::clone(self)))
    }

    /// Reads what is there, and takes nothing away. Dropped is what was written over without having been drained.
    pub(super) fn snapshot(&self) -> Read {
        // Acquire: see `read`.
        let (drained, written) = (self.drained.load(Ordering::Acquire), self.written.load(Ordering::Acquire));
        let (events, skipped) = self.read(drained, written);
        // Relaxed: a count that stands for itself.
        Read { events, dropped: self.dropped.load(Ordering::Relaxed) + skipped }
    }

    /// Reads what is there and takes it away. Readers exclude each other by themselves.
    pub(super) fn drain(&self) -> Read {
        let (drained, written) = (self.drained.load(Ordering::Acquire), self.written.load(Ordering::Acquire));
        let (events, skipped) = self.read(drained, written);
        self.drained.store(written, Ordering::Release);
        // Relaxed: one reader at a time changes it.
        let dropped = self.dropped.swap(0, Ordering::Relaxed) + skipped;
        Read { events, dropped }
    }

    /// The events from `from` up to before `to` that are still there, and how many are not.
    fn read(&self, from: u64, to: u64) -> (Vec<Words>, u64) {
        let start = from.max(to.saturating_sub(self.entries.len() as u64));
        let mut events = Vec::with_capacity((to - start) as usize);
        let mut skipped = start - from;
        for number in start..to {
            match self.entry(number).read(number + 1) {
                Some(words) => events.push(words),
                None => skipped += 1,
            }
        }
        (events, skipped)
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[number as usize & (self.entries.len() - 1)]
    }
}

impl Entry {
    #[inline]
    fn write(&self, number: u64, words: Words) {
        // Relaxed: the stores of the words order it before themselves.
        self.number.store(0, Ordering::Relaxed);
        for (place, word) in self.words.iter().zip(words) {
            // Release: whoever sees the word sees the 0 above, or a later number.
            place.store(word, Ordering::Release);
        }
        // Release: whoever sees the number sees the words.
        self.number.store(number, Ordering::Release);
    }

    /// The words of event `number`, unless they were, or are being, written over.
    fn read(&self, number: u64) -> Option<Words> {
        // Acquire: pairs with the store of the number, so that the words are no older.
        if self.number.load(Ordering::Acquire) != number {
            return None;
        }
        // Acquire: pairs with the stores of the words, so that the number below is no older than they are.
        let words = self.words.each_ref().map(|word| word.load(Ordering::Acquire));
        // Relaxed: ordered behind the words by their loads.
        (self.number.load(Ordering::Relaxed) == number).then_some(words)
    }
}

impl Pen {
    /// Writes an event over the oldest one.
    #[inline]
    pub(super) fn write(&mut self, words: Words) {
        // Relaxed: this is the only writer.
        let number = self.0.written.load(Ordering::Relaxed);
        self.0.entry(number).write(number + 1, words);
        // Release: whoever sees the count finds the event.
        self.0.written.store(number + 1, Ordering::Release);
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        // Release: pairs with `Ring::pen`.
        self.0.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn numbers(read: &Read) -> Vec<u64> {
        read.events.iter().map(|words| words[0]).collect()
    }

    proptest! {
        /// Against a list: what a drain brings and what it says was dropped are all that was written since the last.
        #[test]
        fn what_is_read_and_what_is_dropped_are_all(steps in prop::collection::vec(0usize..20, 0..40)) {
            let ring = Arc::new(Ring::new(8));
            let mut pen = ring.pen().unwrap();
            let (mut next, mut since) = (0u64, Vec::new());
            for step in steps {
                if step == 0 {
                    let kept: Vec<u64> = since.iter().copied().rev().take(8).rev().collect();
                    let snapshot = ring.snapshot();
                    prop_assert_eq!(numbers(&snapshot), kept.clone());
                    prop_assert_eq!(snapshot.dropped, (since.len() - kept.len()) as u64);
                    let drained = ring.drain();
                    prop_assert_eq!(numbers(&drained), kept);
                    prop_assert_eq!(drained.dropped, snapshot.dropped);
                    since.clear();
                } else {
                    for _ in 0..step {
                        pen.write([next, !next, next, next]);
                        since.push(next);
                        next += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn a_ring_has_one_writer_at_a_time() {
        let ring = Arc::new(Ring::new(3));
        let mut pen = ring.pen().unwrap();
        assert!(ring.pen().is_none());
        pen.write([1; 4]);
        drop(pen);
        ring.pen().unwrap().write([2; 4]);
        assert_eq!(numbers(&ring.snapshot()), [1, 2]);
    }

    /// A reader that is slower than the writer counts what it missed, and never gets half of two events.
    #[test]
    fn whoever_reads_while_it_is_written_gets_whole_events_or_none() {
        const EVENTS: u64 = 200_000;
        let ring = Arc::new(Ring::new(16));
        let mut pen = ring.pen().unwrap();
        let (mut seen, mut next) = (0, 0);
        let mut look = |read: Read| {
            for words in &read.events {
                assert!(words.iter().all(|word| *word == words[0]), "torn: {words:?}");
                assert!(words[0] >= next, "out of order");
                next = words[0] + 1;
            }
            seen += read.events.len() as u64 + read.dropped;
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || (0..EVENTS).for_each(|n| pen.write([n; 4])));
            while !writer.is_finished() {
                look(ring.drain());
            }
        });
        look(ring.drain());
        assert_eq!(seen, EVENTS);
    }
}
