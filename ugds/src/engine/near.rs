//! The queue that this thread used last: its lines are likely in this core's cache.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static NEAR: Cell<usize> = const { Cell::new(NONE) };
}

/// The queue that this thread used last. Before the first time, none that there is.
#[inline(always)]
pub(super) fn last() -> usize {
    NEAR.with(Cell::get)
}

/// The queue that this thread used last, or one of `count` that threads begin with in turn.
#[inline]
pub(super) fn near(count: usize) -> usize {
    let near = NEAR.with(Cell::get);
    if near == NONE { first(count) } else { near }
}

/// Remembers the queue.
#[inline]
pub(super) fn remember(queue: usize) {
    NEAR.with(|near| near.set(queue));
}

#[cold]
fn first(count: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: two threads that begin with the same queue harm nothing.
    let near = NEXT.fetch_add(1, Ordering::Relaxed) % count.max(1);
    remember(near);
    near
}

const NONE: usize = usize::MAX;
