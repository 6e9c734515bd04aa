//! A queue of small numbers that never allocates.

/// Numbers of entries, first in, first out. There is room for one of each.
///
/// They lie in a row, so that a loop over many has nothing to work out. When the room behind them is used up they move
/// to the front.
#[derive(Debug)]
pub(super) struct Fifo {
    slots: Box<[u32]>,
    head: usize,
    tail: usize,
}

impl Fifo {
    /// Twice the room, so that what moves is at most what was taken out since it moved last.
    pub(super) fn with_room(count: usize) -> Self {
        Self { slots: vec![0; 2 * count].into(), head: 0, tail: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tail - self.head
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Appends a number. The caller keeps to the room.
    #[inline]
    pub(super) fn push(&mut self, number: u32) {
        match self.slots.get_mut(self.tail) {
            Some(slot) => *slot = number,
            None => self.push_to_front(number),
        }
        self.tail += 1;
    }

    #[cold]
    #[inline(never)]
    fn push_to_front(&mut self, number: u32) {
        self.slots.copy_within(self.head..self.tail, 0);
        (self.head, self.tail) = (0, self.len());
        self.slots[self.tail] = number;
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.row(1).first().copied()
    }

    /// The first, up to `most`.
    #[inline]
    pub(super) fn row(&self, most: usize) -> &[u32] {
        self.slots.get(self.head..self.head + self.len().min(most)).unwrap_or_default()
    }

    /// Takes out the first `count`, which are there.
    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        self.head += count as usize;
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.skip(1);
        Some(first)
    }

    /// Takes out those for which `keep` does not hold.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        let mut tail = self.head;
        for at in self.head..self.tail {
            let number = self.slots[at];
            if keep(number) {
                self.slots[tail] = number;
                tail += 1;
            }
        }
        self.tail = tail;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_order_from_wherever_they_lie() {
        let mut fifo = Fifo::with_room(5);
        fifo.push(7);
        for round in 1..99 {
            (0..4).for_each(|n| fifo.push(round * 10 + n));
            fifo.retain(|number| number % 10 != 1);
            assert_eq!((fifo.len(), fifo.row(2)), (4, &[(round - 1) * 10 + 7, round * 10][..]));
            fifo.skip(4);
            assert_eq!((fifo.pop(), fifo.is_empty()), (None, true));
            fifo.push(round * 10 + 7);
        }
        let mut fifo = Fifo::with_room(3);
        fifo.push(0);
        for n in 1..99 {
            fifo.push(n);
            assert_eq!(fifo.pop(), Some(n - 1));
        }
    }
}
