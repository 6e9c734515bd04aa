//! From a landed command to a request that ended.

use super::entry::{Order, State};
use super::pieces;
use super::work::Work;
use crate::batch::Outcome;
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

    /// Appends the outcomes of what was caught on `queue`, but no more than `room`: the others wait among the ended.
    /// Returns how many were appended.
    #[inline(always)]
    pub(super) fn take_caught(
        &mut self,
        scheduler: &Scheduler<Rule>,
        queue: usize,
        room: usize,
        into: &mut Vec<Outcome>,
    ) -> usize {
        let Self { caught, entries, held, .. } = self;
        let mut free = self.free;
        let tokens = caught.tokens();
        let (handed, kept) = tokens.split_at(tokens.len().min(room));
        let mut bytes = 0;
        into.extend(handed.iter().map(|&token| {
            let entry = &mut entries[token as usize];
            let Order { cookie, len_bytes, memory, .. } = entry.order;
            (entry.state, entry.next_free) = (State::Free, free);
            free = token;
            held.release(memory);
            bytes += len_bytes;
            Outcome { cookie, bytes: len_bytes, result: Ok(()) }
        }));
        self.free = free;
        self.used -= handed.len();
        for &token in kept {
            let entry = &mut entries[token as usize];
            (entry.state, entry.status) = (State::Done, Status::SUCCESS);
            bytes += entry.order.len_bytes;
            self.ended.push(token);
        }
        let commands = tokens.len() as u32;
        if commands != 0 {
            self.flying[queue] -= commands;
            scheduler.done_run(queue, Load { bytes, commands });
        }
        handed.len()
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
