//! A queue of small numbers that never allocates.

/// Numbers of entries, first in, first out. There is room for one of each.
#[derive(Debug)]
pub(super) struct Fifo {
    /// A power of two.
    slots: Box<[u32]>,
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(super) fn with_room(count: usize) -> Self {
        Self { slots: vec![0; count.next_power_of_two()].into(), head: 0, tail: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Appends a number. The caller keeps to the room.
    #[inline]
    pub(super) fn push(&mut self, number: u32) {
        let at = self.place(self.tail);
        self.slots[at] = number;
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        (!self.is_empty()).then(|| self.slots[self.place(self.head)])
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.head = self.head.wrapping_add(1);
        Some(first)
    }

    /// Takes out the first, which is there.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// Takes out those for which `keep` does not hold.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        for _ in 0..self.len() {
            if let Some(number) = self.pop()
                && keep(number)
            {
                self.push(number);
            }
        }
    }

    #[inline]
    fn place(&self, position: u32) -> usize {
        position as usize & (self.slots.len() - 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_order_around_the_end() {
        let mut fifo = Fifo::with_room(3);
        for round in 0..9 {
            (0..4).for_each(|n| fifo.push(round * 10 + n));
            fifo.retain(|number| number % 10 != 1);
            assert_eq!((fifo.len(), fifo.first()), (3, Some(round * 10)));
            assert_eq!(
                [(); 4].map(|()| fifo.pop()),
                [Some(round * 10), Some(round * 10 + 2), Some(round * 10 + 3), None]
            );
        }
    }
}
