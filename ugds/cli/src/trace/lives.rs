//! The lives of commands, put together from what was written down about them.

use std::collections::BTreeMap;

use ugds::Instant;
use ugds::nvme::{Cid, Qid, Status};
use ugds::traced::{Event, Step, Trace};

use super::load::Request;

/// Requests, and the commands that they were made of.
pub(super) struct Lives {
    pub(super) requests: Vec<Request>,
    /// In the order in which they were staged.
    pub(super) commands: Vec<Life>,
    pub(super) lba_bytes: u32,
    /// Events that made room for others.
    pub(super) dropped: u64,
    /// Commands of which something is missing, or that belong to no request.
    pub(super) others: u64,
}

/// A command that has completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) qid: Qid,
    pub(super) cid: Cid,
    /// Which of the requests.
    pub(super) request: usize,
    pub(super) opcode: u8,
    pub(super) nsid: u32,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) status: Status,
    /// Entered, staged, rung, completed, returned.
    pub(super) times: [Instant; 5],
}

/// The stretches between the times of a [`Life`].
pub(super) const PHASES: [&str; 4] = ["submit", "doorbell", "device", "return"];

impl Life {
    /// The time that each phase took.
    pub(super) fn phases_ns(&self) -> [u64; 4] {
        std::array::from_fn(|at| self.times[at + 1].0.saturating_sub(self.times[at].0))
    }

    pub(super) fn name(&self) -> &'static str {
        match self.opcode {
            1 => "write",
            2 => "read",
            0 => "flush",
            _ => "command",
        }
    }
}

impl Lives {
    pub(super) fn of(trace: &Trace, requests: Vec<Request>, lba_bytes: u32) -> Self {
        let mut begun: BTreeMap<(Qid, Cid), Vec<Event>> = BTreeMap::new();
        let (mut commands, mut others) = (Vec::new(), 0);
        for event in trace.events.iter().filter(|event| !event.qid.is_admin()) {
            let life = begun.entry((event.qid, event.cid)).or_default();
            match event.step {
                Step::Completed(status) => {
                    let life = std::mem::take(life);
                    match command(&requests, &life, event, status) {
                        Some(life) => commands.push(life),
                        None => others += 1,
                    }
                }
                _ => life.push(*event),
            }
        }
        commands.sort_by_key(|life| life.times[1]);
        Self { requests, commands, lba_bytes, dropped: trace.dropped, others }
    }
}

/// The command that `end` ended, if it is known from its start and belongs to a request.
fn command(requests: &[Request], begun: &[Event], end: &Event, status: Status) -> Option<Life> {
    let [Event { at: staged, step: Step::Staged, .. }, Event { at: rung, step: Step::Published, .. }] = begun
    else {
        return None;
    };
    let (lba, blocks) = (end.about.slba.0, end.about.blocks);
    // At any time, no two requests have a block in common.
    let owns = |request: &Request| {
        (request.entered..=request.returned).contains(staged)
            && (request.lba..request.lba + request.blocks).contains(&lba)
    };
    // They begin in order.
    let last = requests.partition_point(|request| request.entered <= *staged);
    let request = requests[..last].iter().rposition(owns)?;
    let Request { entered, returned, .. } = requests[request];
    Some(Life {
        qid: end.qid,
        cid: end.cid,
        request,
        opcode: end.about.opcode,
        nsid: end.about.nsid.0,
        lba,
        blocks,
        status,
        times: [entered, *staged, *rung, end.at, returned],
    })
}
