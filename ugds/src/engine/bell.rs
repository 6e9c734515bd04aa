//! What wakes a thread that sleeps on descriptors.

use std::cell::OnceCell;
use ugds_hal::Event;

thread_local! {
    static BELL: OnceCell<Option<Event>> = const { OnceCell::new() };
}

/// This thread's bell, the same one all its life. `None` when the process has no descriptor left: then it polls.
pub(super) fn mine() -> Option<Event> {
    BELL.with(|bell| bell.get_or_init(|| Event::new().ok()).clone())
}
