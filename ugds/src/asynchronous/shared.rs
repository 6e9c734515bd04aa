//! What an asynchronous queue and its futures share.

use super::future::Request;
use super::line::Number;
use super::state::State;
use crate::batch::Batch;
use crate::device::Inner;
use crate::error::Error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use ugds_hal::{Event, EventSet};
use ugds_sched::{Class, Completion};

pub(crate) struct Shared {
    /// Lock order: before the engine's. Wakers are called when it is free.
    state: Mutex<State>,
    depth: usize,
    completion: Completion,
    /// Called when another reaps for this queue.
    bell: Event,
    readable: EventSet,
    // Goes last.
    device: Arc<Inner>,
}

/// How far a request got.
pub(super) enum Step {
    InLine(Number),
    Placed(u32),
    Over(Result<(), Error>),
}

impl Shared {
    pub(crate) fn new(batch: Batch, device: Arc<Inner>) -> io::Result<Self> {
        let bell = Event::new()?;
        let interrupts = device.engine().interrupts(Class::Batch);
        let completion = if interrupts.is_empty() { Completion::Poll } else { Completion::Interrupt };
        let readable = EventSet::new(interrupts.iter().chain([&bell]))?;
        let depth = batch.depth();
        Ok(Self { state: Mutex::new(State::new(batch)), depth, completion, bell, readable, device })
    }

    pub(super) fn completion(&self) -> Completion {
        self.completion
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn in_flight(&self) -> usize {
        self.lock().in_flight()
    }

    /// Begins a request, or joins the line for a place.
    pub(super) fn begin(&self, request: &Request, waker: &Waker) -> Step {
        let mut woken = Vec::new();
        let mut state = self.lock();
        let begun = if state.line.is_empty() { state.begin(request, waker) } else { None };
        let step = match begun {
            None => Step::InLine(state.line.join(waker)),
            Some(Err(error)) => Step::Over(Err(error)),
            Some(Ok(place)) => self.look_once(&mut state, place, waker, &mut woken),
        };
        finish(state, woken);
        step
    }

    /// Goes on with a request that stands in line.
    pub(super) fn go_on(&self, number: Number, request: &Request, waker: &Waker) -> Step {
        let mut woken = Vec::new();
        let mut state = self.lock();
        if state.room() == 0 && self.completion == Completion::Poll {
            let _ = state.collect(&mut woken);
        }
        let room = state.room();
        let begun = if state.line.is_among_first(number, room, waker) {
            state.line.leave(number);
            state.begin(request, waker)
        } else {
            None
        };
        let step = match begun {
            None => Step::InLine(number),
            Some(Err(error)) => Step::Over(Err(error)),
            Some(Ok(place)) => self.look_once(&mut state, place, waker, &mut woken),
        };
        finish(state, woken);
        step
    }

    /// Takes the outcome of a request, if it has ended.
    pub(super) fn take(&self, place: u32, waker: &Waker) -> Step {
        let mut woken = Vec::new();
        let mut state = self.lock();
        let mut taken = state.take(place, waker);
        if taken.is_none() && self.completion == Completion::Poll {
            let _ = state.collect(&mut woken);
            taken = state.take(place, waker);
        }
        state.line.call(state.room(), &mut woken);
        finish(state, woken);
        taken.map_or(Step::Placed(place), Step::Over)
    }

    /// A future was dropped that had a place, or stood in line.
    pub(super) fn forsake(&self, step: &Step) {
        let mut woken = Vec::new();
        let mut state = self.lock();
        match step {
            Step::InLine(number) => state.line.leave(*number),
            Step::Placed(place) => state.forsake(*place),
            Step::Over(_) => return,
        }
        // What was cancelled has ended, and somebody may have its place.
        let _ = state.collect(&mut woken);
        finish(state, woken);
    }

    pub(super) fn drive(&self) -> Result<usize, Error> {
        let mut woken = Vec::new();
        let mut state = self.lock();
        let driven = self.drive_locked(&mut state, &mut woken);
        finish(state, woken);
        driven
    }

    fn drive_locked(&self, state: &mut State, woken: &mut Vec<Waker>) -> Result<usize, Error> {
        let _ = self.bell.clear();
        if self.readable.take_alarm().unwrap_or(true) {
            state.batch.check_soon();
        }
        let mut count = 0;
        loop {
            let looked = self.device.engine().look_through(Class::Batch);
            // The futures are told, whatever the look came to.
            count += state.collect(woken)?;
            looked?;
            if self.rest(state) {
                return Ok(count);
            }
        }
    }

    /// A quick device may be done already; else the queue's descriptor will tell.
    fn look_once(&self, state: &mut State, place: u32, waker: &Waker, woken: &mut Vec<Waker>) -> Step {
        loop {
            let _ = state.collect(woken);
            if let Some(ended) = state.take(place, waker) {
                return Step::Over(ended);
            }
            if self.rest(state) {
                return Step::Placed(place);
            }
        }
    }

    /// Sees to it that the descriptor becomes readable when something ends. `false` when it has ended already.
    fn rest(&self, state: &mut State) -> bool {
        if self.completion == Completion::Poll {
            return true;
        }
        let is_busy = state.in_flight() != 0;
        if is_busy != state.is_watched {
            state.is_watched = is_busy;
            // Without an alarm, a device that falls silent is noticed by whoever looks next.
            let _ = if is_busy { self.readable.set_alarm(ALARM) } else { self.readable.stop_alarm() };
            if !is_busy {
                state.batch.ignore();
            }
        }
        !is_busy || state.batch.listen(&self.bell)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whatever panicked under it, each place is still in one state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.lock().batch.ignore();
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

fn finish(state: MutexGuard<'_, State>, woken: Vec<Waker>) {
    drop(state);
    woken.into_iter().for_each(Waker::wake);
}

/// How often a device is looked after that does not interrupt.
const ALARM: Duration = Duration::from_millis(10);
