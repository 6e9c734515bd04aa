//! Time, as the device side of the project sees it: real, or virtual when a controller model is stepped by hand.

use core::time::Duration;

/// A point in time, in nanoseconds since an arbitrary start that is fixed per clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The point that lies `duration` later, or the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this point, zero if that is negative.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A source of time and the way to wait.
///
/// Everything that waits for a device does so through this trait, so that the same code runs against hardware, a
/// model in threads, and a model that only moves when somebody waits.
///
/// # Implementation safety
///
/// [`now`](Self::now) never goes backwards. [`relax`](Self::relax) lets the device make progress: under virtual
/// time it moves the model, else a deadline would never come.
pub trait Clock: Send + Sync {
    /// Returns the present.
    fn now(&self) -> Instant;

    /// Waits a little for the device. `attempt` counts the fruitless looks in a row and lets the wait grow from a
    /// spin hint to giving up the processor.
    fn relax(&self, attempt: u32);

    /// Waits until `deadline`.
    fn wait_until(&self, deadline: Instant);

    /// Sleeps until one of `events` is signalled, at most until `deadline`. It may wake for nothing. `attempt` counts as
    /// for [`relax`](Self::relax): a clock whose device moves only when somebody waits does the same as that.
    #[cfg(feature = "std")]
    fn wait_for(&self, events: &[&crate::Event], deadline: Instant, attempt: u32) {
        let _ = attempt;
        if crate::Event::wait_any(events, deadline.since(self.now())).is_err() {
            // Out of memory in the kernel, say: the caller looks, and comes back.
            std::thread::yield_now();
        }
    }
}

/// Looks until there is an answer, at most for `limit`; `None` when the time is over.
///
/// The time is read before each look, so whoever was stopped in between looks once more.
///
/// # Errors
///
/// What a look ended with.
pub fn poll<C: Clock + ?Sized, T, E>(
    clock: &C,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let deadline = clock.now().after(limit);
    let mut attempt = 0u32;
    loop {
        let late = clock.now() >= deadline;
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if late {
            return Ok(None);
        }
        clock.relax(attempt);
        attempt = attempt.saturating_add(1);
    }
}

/// The operating system's monotonic clock.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: std::time::Instant,
}

#[cfg(feature = "std")]
impl MonotonicClock {
    /// Creates a clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

#[cfg(feature = "std")]
impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "std")]
impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    #[inline]
    fn relax(&self, attempt: u32) {
        if attempt < SPINS_BEFORE_YIELD {
            core::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    fn wait_until(&self, deadline: Instant) {
        std::thread::sleep(deadline.since(self.now()));
    }
}

/// A pause is about 40 ns on recent processors, so this is some 2.5 us: less than the fastest SSD's answer.
#[cfg(feature = "std")]
const SPINS_BEFORE_YIELD: u32 = 64;
