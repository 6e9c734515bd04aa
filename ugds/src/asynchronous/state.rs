//! The requests of an asynchronous queue, and who waits for them.

use super::future::{Request, What};
use super::line::Line;
use crate::batch::{Batch, Outcome};
use crate::error::Error;
use std::task::Waker;
use std::time::Duration;

pub(super) struct State {
    pub(super) batch: Batch,
    places: Box<[Place]>,
    free: Vec<u32>,
    pub(super) line: Line,
    /// Whether the alarm is set, and the queues know whom to call.
    pub(super) is_watched: bool,
    /// Kept for its room.
    outcomes: Vec<Outcome>,
}

/// A request of the batch, and its future.
#[derive(Debug)]
enum Place {
    Free,
    Waiting(Waker),
    Ended(Result<(), Error>),
    /// Its future was dropped.
    Forsaken,
}

impl State {
    pub(super) fn new(batch: Batch) -> Self {
        let depth = batch.depth();
        Self {
            batch,
            places: (0..depth).map(|_| Place::Free).collect(),
            free: (0..depth as u32).rev().collect(),
            line: Line::default(),
            is_watched: false,
            outcomes: Vec::with_capacity(depth),
        }
    }

    /// Places that are free.
    pub(super) fn room(&self) -> usize {
        self.free.len()
    }

    /// Requests that have a place.
    pub(super) fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Gives the device a request, whose future `waker` wakes. `None` when no place is free.
    pub(super) fn begin(&mut self, request: &Request, waker: &Waker) -> Option<Result<u32, Error>> {
        let place = self.free.pop()?;
        let cookie = u64::from(place);
        let Request { what, namespace } = request;
        let put = match what {
            What::Read(region, range, lba) => self.batch.read(namespace, region, range.clone(), *lba, cookie),
            What::Write(region, range, lba) => {
                self.batch.write(namespace, region, range.clone(), *lba, cookie)
            }
            What::Flush => self.batch.flush(namespace, cookie),
        };
        if let Err(error) = put {
            self.free.push(place);
            return Some(Err(error));
        }
        self.places[place as usize] = Place::Waiting(waker.clone());
        // An error ends the request, and its outcome is harvested as any.
        let _ = self.batch.submit();
        Some(Ok(place))
    }

    /// Takes what has ended, without waiting. Adds those to `woken` who wait for it. Returns how many requests ended.
    pub(super) fn collect(&mut self, woken: &mut Vec<Waker>) -> Result<usize, Error> {
        let harvested = self.batch.harvest(0, Some(Duration::ZERO), &mut self.outcomes);
        for Outcome { cookie, result, .. } in self.outcomes.drain(..) {
            let place = &mut self.places[cookie as usize];
            match std::mem::replace(place, Place::Ended(result)) {
                Place::Waiting(waker) => woken.push(waker),
                Place::Forsaken | Place::Free | Place::Ended(_) => {
                    *place = Place::Free;
                    self.free.push(cookie as u32);
                }
            }
        }
        self.line.call(self.free.len(), woken);
        harvested
    }

    /// The outcome of a request. Its place is free then. `None` while it is under way; then `waker` is woken at its end.
    pub(super) fn take(&mut self, place: u32, waker: &Waker) -> Option<Result<(), Error>> {
        let at = &mut self.places[place as usize];
        if let Place::Waiting(old) = at {
            old.clone_from(waker);
            return None;
        }
        self.free.push(place);
        match std::mem::replace(at, Place::Free) {
            Place::Ended(result) => Some(result),
            // No future has such a place.
            _ => Some(Err(Error::Cancelled)),
        }
    }

    /// Nobody waits for a request any more. What the device does not have of it is not begun.
    pub(super) fn forsake(&mut self, place: u32) {
        match self.places[place as usize] {
            Place::Waiting(_) => {
                self.places[place as usize] = Place::Forsaken;
                self.batch.cancel(place.into());
            }
            Place::Ended(_) => {
                self.places[place as usize] = Place::Free;
                self.free.push(place);
            }
            Place::Free | Place::Forsaken => {}
        }
    }
}
