//! Threads that move the lanes, asleep while there is nothing to do.

use super::lane::Progress;
use super::model::Core;
use crate::Process;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};

/// Wakes one worker.
#[derive(Debug, Default)]
pub(super) struct Waker {
    sleeping: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Wakes the worker if it sleeps, or is about to.
    pub(super) fn wake(&self) {
        // Full fence: what there is to do was stored before the look at who sleeps. The worker says that it sleeps
        // before it looks for something to do. So one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && self.sleeping.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn about_to_sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }
}

/// The threads of a controller. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    core: Arc<Core>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    process: Process,
}

impl Workers {
    pub(super) fn start(core: &Arc<Core>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let workers =
            Self { core: Arc::clone(core), stop, threads: Mutex::default(), process: Process::this() };
        for index in 0..core.wakers.len() {
            let (core, stop) = (Arc::clone(core), Arc::clone(&workers.stop));
            let thread = thread::Builder::new()
                .name(format!("emu-{index}"))
                .spawn(move || Worker { core: &core, index, stop: &stop }.run())?;
            workers.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let threads = core::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if !self.process.is_current() {
            // The threads stayed with the parent; waiting for them here would never end.
            return core::mem::forget(threads);
        }
        self.core.wakers.iter().for_each(Waker::wake);
        for thread in threads {
            // A worker that panicked has said so; there is nothing left to do for it.
            let _ = thread.join();
        }
    }
}

struct Worker<'a> {
    core: &'a Core,
    index: usize,
    stop: &'a AtomicBool,
}

impl Worker<'_> {
    fn run(&self) {
        let waker = &self.core.wakers[self.index];
        let _ = waker.thread.set(thread::current());
        let mut fruitless = 0;
        while !self.stop.load(Ordering::Acquire) {
            if self.core.is_paused() {
                thread::yield_now();
            } else if self.pass().worked {
                fruitless = 0;
            } else if fruitless < YIELDS {
                // The next command often follows soon, and waking a thread costs more than this.
                fruitless += 1;
                thread::yield_now();
            } else {
                fruitless = 0;
                waker.about_to_sleep();
                self.sleep();
                waker.awake();
            }
        }
    }

    fn sleep(&self) {
        for lane in self.lanes() {
            self.core.lane(lane).ask_for_doorbells(self.core);
        }
        let progress = self.pass();
        if progress.worked || self.stop.load(Ordering::Acquire) {
            return;
        }
        match progress.next_due {
            None => thread::park(),
            Some(due) => {
                let wait = Duration::from_nanos(due.saturating_sub(self.core.now()));
                if wait > SHORTEST_SLEEP {
                    thread::park_timeout(wait - SHORTEST_SLEEP);
                } else {
                    thread::yield_now();
                }
            }
        }
    }

    fn pass(&self) -> Progress {
        self.lanes()
            .map(|lane| self.core.service(lane, FETCHES, EXECUTIONS))
            .fold(Progress::default(), Progress::and)
    }

    /// The first worker serves the admin lane beside its own.
    fn lanes(&self) -> impl Iterator<Item = usize> {
        (self.index == 0).then_some(0).into_iter().chain([self.index + 1])
    }
}

/// Some 20 us: a thread takes about as long to be woken.
const YIELDS: u32 = 40;
/// What the kernel's timer may be late by.
const SHORTEST_SLEEP: Duration = Duration::from_micros(60);
/// How much is done under the lock of a lane. It bounds how long a reset waits.
const FETCHES: usize = 32;
const EXECUTIONS: usize = 8;
