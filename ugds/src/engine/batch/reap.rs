//! From a landed command to a request that ended.

use super::entry::State;
use super::pieces;
use super::work::Work;
use crate::engine::policy::Rule;
use crate::engine::record::Event;
use nvme_proto::{Qid, Status};
use ugds_sched::{Load, Scheduler};

impl Work {
    /// Takes in everything that landed. Returns how many commands that were.
    #[inline]
    pub(super) fn collect(
        &mut self,
        scheduler: &Scheduler<Rule>,
        mut note: impl FnMut(usize, Status),
    ) -> usize {
        let mut tally = Tally { queue: 0, load: Load::default() };
        let mut count = 0;
        while let Some((token, status)) = self.landing.take(&mut self.head) {
            count += 1;
            if pieces::is_piece(token) {
                self.piece_landed(scheduler, token, status, &mut note);
                continue;
            }
            let Some(entry) = self.entries.get_mut(token as usize) else { continue };
            let flying = &mut self.flying;
            tally.add(entry.queue.into(), entry.order.len_bytes, |queue, load| {
                flying[queue] -= load.commands;
                scheduler.done_run(queue, load);
            });
            if !status.is_success() {
                note(entry.queue.into(), status);
            }
            entry.status = status;
            entry.state = State::Done;
            self.ended.push(token);
        }
        let Tally { queue, load } = tally;
        if load.commands != 0 {
            self.flying[queue] -= load.commands;
            scheduler.done_run(queue, load);
        }
        count
    }

    #[inline(never)]
    fn piece_landed(
        &mut self,
        scheduler: &Scheduler<Rule>,
        token: u32,
        status: Status,
        note: &mut impl FnMut(usize, Status),
    ) {
        let Some(airborne) = self.pieces.land(token) else { return };
        let queue = airborne.placement.queue();
        scheduler.done(airborne.placement);
        self.flying[queue] -= 1;
        let rare = &mut self.rare[airborne.entry as usize];
        rare.flying -= 1;
        if !status.is_success() {
            note(queue, status);
            rare.fail(airborne.piece, status);
        }
        let is_open = self.opened.as_ref().is_some_and(|opened| opened.entry == airborne.entry);
        if !is_open {
            self.settle_large(airborne.entry);
        }
    }
}

/// What ended on one queue in a row: it is taken off the queue's load at once.
struct Tally {
    queue: usize,
    load: Load,
}

impl Tally {
    #[inline]
    fn add(&mut self, queue: usize, bytes: u64, mut settle: impl FnMut(usize, Load)) {
        if queue != self.queue {
            if self.load.commands != 0 {
                settle(self.queue, self.load);
            }
            *self = Self { queue, load: Load::default() };
        }
        self.load.commands += 1;
        self.load.bytes += bytes;
    }
}

/// Writes failures of commands down.
pub(super) fn failed(qid: Qid, status: Status) -> Event {
    Event::CommandFailed { qid, status }
}
