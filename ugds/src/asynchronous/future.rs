//! One request as a future.

use super::shared::{Shared, Step};
use crate::error::Error;
use crate::namespace::Namespace;
use crate::region::Region;
use nvme_proto::Lba;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use ugds_sched::Completion;

/// A request of an [`AsyncQueue`](super::AsyncQueue). It ends as the blocking call of the same name does.
#[must_use = "nothing is read or written before the future is polled"]
pub struct Pending {
    /// Nothing once it has ended.
    shared: Option<Arc<Shared>>,
    request: Request,
    /// Nothing before the first poll.
    step: Option<Step>,
}

pub(super) struct Request {
    pub(super) what: What,
    pub(super) namespace: Namespace,
}

pub(super) enum What {
    Read(Region, Range<usize>, Lba),
    Write(Region, Range<usize>, Lba),
    Flush,
}

impl Pending {
    pub(super) fn new(shared: Arc<Shared>, request: Request) -> Self {
        Self { shared: Some(shared), request, step: None }
    }
}

impl Future for Pending {
    type Output = Result<(), Error>;

    /// Polled again after its end, it says [`Error::Cancelled`]: nothing is done twice.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(shared) = &this.shared else { return Poll::Ready(Err(Error::Cancelled)) };
        let waker = context.waker();
        let step = match this.step.take() {
            None => shared.begin(&this.request, waker),
            Some(Step::InLine(number)) => shared.go_on(number, &this.request, waker),
            Some(Step::Placed(place)) => shared.take(place, waker),
            Some(over) => over,
        };
        if let Step::Over(ended) = step {
            this.shared = None;
            return Poll::Ready(ended);
        }
        this.step = Some(step);
        if shared.completion() == Completion::Poll {
            waker.wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let (Some(shared), Some(step)) = (&self.shared, &self.step) {
            shared.forsake(step);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match (&self.shared, &self.step) {
            (None, _) | (_, Some(Step::Over(_))) => "ended",
            (_, None) => "not begun",
            (_, Some(Step::InLine(_))) => "in line",
            (_, Some(Step::Placed(_))) => "under way",
        };
        f.debug_struct("Pending").field("step", &step).finish_non_exhaustive()
    }
}
