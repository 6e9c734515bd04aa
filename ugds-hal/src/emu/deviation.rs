//! Breaches of the protocol by the device, ordered for single commands.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use nvme_proto::{Cid, Qid};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the device does wrong with one command. Only the device can: its driver reads the entry from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deviation {
    /// The command completes with success before its data moved. The data follows after this time, unless the
    /// controller is reset before.
    LateData(Duration),
    /// `SQHD` of the completion is inverted in these bits.
    SubmissionHead(u16),
    /// The completion has the phase tag of the lap before.
    Phase,
}

/// What was ordered and did not happen yet.
#[derive(Debug, Default)]
pub(super) struct Deviations {
    /// The length of the list, so that a device that behaves takes no lock.
    count: AtomicUsize,
    ordered: Mutex<Vec<(Qid, Cid, Deviation)>>,
}

impl Deviations {
    pub(super) fn order(&self, qid: Qid, cid: Cid, deviation: Deviation) {
        let mut ordered = self.lock();
        ordered.push((qid, cid, deviation));
        // Relaxed: the doorbell that leads to the command orders it.
        self.count.store(ordered.len(), Ordering::Relaxed);
    }

    /// What was ordered is forgotten with the queues that it was ordered for.
    pub(super) fn clear(&self) {
        let mut ordered = self.lock();
        ordered.clear();
        self.count.store(0, Ordering::Relaxed);
    }

    /// How late the data of a command is.
    pub(super) fn late_data(&self, qid: Qid, cid: Cid) -> Option<Duration> {
        self.take(qid, cid, |deviation| match deviation {
            Deviation::LateData(delay) => Some(delay),
            _ => None,
        })
    }

    /// `SQHD` and phase tag of a command's completion, after what was ordered for them.
    pub(super) fn completion(&self, qid: Qid, cid: Cid, head: u32, phase: bool) -> (u32, bool) {
        let mask = self.take(qid, cid, |deviation| match deviation {
            Deviation::SubmissionHead(mask) => Some(mask),
            _ => None,
        });
        let flip = self.take(qid, cid, |deviation| (deviation == Deviation::Phase).then_some(()));
        (head ^ u32::from(mask.unwrap_or(0)), phase ^ flip.is_some())
    }

    fn take<T>(&self, qid: Qid, cid: Cid, wanted: impl Fn(Deviation) -> Option<T>) -> Option<T> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut ordered = self.lock();
        let mut hits = ordered.iter().enumerate().filter(|(_, (q, c, _))| (*q, *c) == (qid, cid));
        let (index, value) = hits.find_map(|(index, (.., deviation))| Some((index, wanted(*deviation)?)))?;
        ordered.swap_remove(index);
        self.count.store(ordered.len(), Ordering::Relaxed);
        Some(value)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Qid, Cid, Deviation)>> {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl super::Emu {
    /// Makes the device do something wrong with the command `cid` of queue `qid`, which it was not told about yet.
    pub fn deviate(&self, qid: Qid, cid: Cid, deviation: Deviation) {
        self.core().deviations.order(qid, cid, deviation);
    }
}
