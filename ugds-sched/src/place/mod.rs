//! Choosing a queue.

mod held;
mod least_loaded;
mod round_robin;

pub use held::HeldQueue;
pub use least_loaded::LeastLoaded;
pub use round_robin::RoundRobin;

use crate::loads::View;
use crate::want::Want;
use alloc::boxed::Box;
use alloc::sync::Arc;

/// A rule that chooses a queue for each command. It is asked from many threads at once, before every command: it should
/// take no lock and allocate nothing.
///
/// # Examples
///
/// Reads to the first queue, writes to the second, if there is one:
///
/// ```
/// use ugds_sched::{Direction, Place, View, Want};
///
/// struct ByDirection;
///
/// impl Place for ByDirection {
///     fn choose(&self, view: View<'_>, want: &Want) -> usize {
///         match want.direction {
///             Direction::Read => 0,
///             Direction::Write => 1.min(view.len() - 1),
///         }
///     }
/// }
/// ```
pub trait Place: Send + Sync {
    /// Returns the queue, below `view.len()`, that the next command of `want` goes to. Anything larger is taken as the
    /// last queue.
    fn choose(&self, view: View<'_>, want: &Want) -> usize;

    /// Whether a small request goes to its caller's queue whenever nothing is outstanding there. Then the policy is not
    /// asked: it is one step to find the queue idle and to take it.
    #[inline]
    fn keeps_idle(&self) -> bool {
        false
    }
}

/// Where in its request a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is the first.
    First,
    /// One before it was placed.
    Next,
}

impl<P: Place + ?Sized> Place for Box<P> {
    #[inline]
    fn choose(&self, view: View<'_>, want: &Want) -> usize {
        (**self).choose(view, want)
    }
}

impl<P: Place + ?Sized> Place for Arc<P> {
    #[inline]
    fn choose(&self, view: View<'_>, want: &Want) -> usize {
        (**self).choose(view, want)
    }
}
