//! The device, in virtual time: it fetches from its queues in turn, needs an access time for each command, and moves the
//! data of all of them through one pipe, first in, first out. Nothing is preempted.

use std::collections::VecDeque;

/// A time or a duration in picoseconds: a byte at 7 GB/s takes 143 of them.
pub(crate) type Picos = u64;

/// What a device is able to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) bytes_per_s: u64,
    pub(crate) access_ns: u64,
    pub(crate) queues: usize,
}

/// The device of the performance goals.
pub(crate) const MODEL: Model = Model { bytes_per_s: 7_000_000_000, access_ns: 10_000, queues: 4 };

impl Model {
    /// How long the pipe needs for `bytes`.
    pub(crate) fn pipe_ps(&self, bytes: u64) -> Picos {
        bytes * 1_000_000 / (self.bytes_per_s / 1_000_000)
    }
}

/// A command that the device has, until it ends.
pub(crate) struct Ending<T> {
    pub(crate) at_ps: Picos,
    pub(crate) tag: T,
}

/// The device with its submission queues. `T` is whatever the host remembers of a command.
pub(crate) struct Device<T> {
    model: Model,
    queues: Vec<Queue<T>>,
    next_queue: usize,
    pipe_free_ps: Picos,
    pub(crate) doorbells: u64,
}

struct Queue<T> {
    staged: Vec<(u32, T)>,
    published: VecDeque<(u32, T)>,
}

impl<T> Device<T> {
    pub(crate) fn new(model: Model) -> Self {
        let queues = (0..model.queues).map(|_| Queue { staged: Vec::new(), published: VecDeque::new() });
        Self { model, queues: queues.collect(), next_queue: 0, pipe_free_ps: 0, doorbells: 0 }
    }

    /// Writes a command into a queue; the device does not know of it yet.
    pub(crate) fn stage(&mut self, queue: usize, bytes: u32, tag: T) {
        self.queues[queue].staged.push((bytes, tag));
    }

    /// Publishes what is staged on a queue.
    pub(crate) fn ring(&mut self, queue: usize) {
        let Queue { staged, published } = &mut self.queues[queue];
        published.extend(staged.drain(..));
        self.doorbells += 1;
    }

    /// Fetches all published commands, one from each queue in turn, and tells when each will end.
    pub(crate) fn fetch(&mut self, now_ps: Picos) -> Vec<Ending<T>> {
        let mut endings = Vec::new();
        let mut empty = 0;
        while empty < self.queues.len() {
            let queue = self.next_queue;
            self.next_queue = (queue + 1) % self.queues.len();
            match self.queues[queue].published.pop_front() {
                None => empty += 1,
                Some((bytes, tag)) => {
                    empty = 0;
                    endings.push(Ending { at_ps: self.transfer(now_ps, bytes), tag });
                }
            }
        }
        endings
    }

    /// Sends a command's data through the pipe, behind all before it, and returns when the last byte is through.
    fn transfer(&mut self, now_ps: Picos, bytes: u32) -> Picos {
        let ready_ps = now_ps + self.model.access_ns * 1000;
        self.pipe_free_ps = self.pipe_free_ps.max(ready_ps) + self.model.pipe_ps(bytes.into());
        self.pipe_free_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishes `commands` (queue, bytes) at once and returns what ended when, in ns.
    fn run(commands: &[(usize, u32)]) -> Vec<(usize, u64)> {
        let mut device = Device::new(MODEL);
        for (at, (queue, bytes)) in commands.iter().enumerate() {
            device.stage(*queue, *bytes, at);
        }
        (0..MODEL.queues).for_each(|queue| device.ring(queue));
        device.fetch(0).into_iter().map(|ending| (ending.tag, ending.at_ps / 1000)).collect()
    }

    #[test]
    fn a_small_read_alone_takes_10_6_us() {
        assert_eq!(run(&[(0, 4096)]), [(0, 10_585)]);
    }

    #[test]
    fn access_times_overlap_and_transfers_do_not() {
        assert_eq!(run(&[(0, 7000), (1, 7000)]), [(0, 11_000), (1, 12_000)]);
    }

    #[test]
    fn queues_are_fetched_in_turn() {
        let order: Vec<usize> =
            run(&[(0, 7000), (0, 7000), (2, 7000)]).into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(order, [0, 2, 1]);
    }

    #[test]
    fn nothing_is_preempted() {
        let ends = run(&[(0, 1 << 20), (1, 4096)]);
        assert_eq!(ends[1], (1, 10_000 + (MODEL.pipe_ps((1 << 20) + 4096)) / 1000));
    }

    #[test]
    fn what_is_only_staged_is_not_fetched() {
        let mut device = Device::new(MODEL);
        device.stage(0, 512, ());
        assert!(device.fetch(0).is_empty());
        device.ring(0);
        assert_eq!((device.fetch(0).len(), device.doorbells), (1, 1));
    }
}
