//! Requests as futures.

mod future;
mod line;
mod shared;
mod state;

pub use future::Pending;

use crate::error::Error;
use crate::namespace::Namespace;
use crate::region::Region;
use future::{Request, What};
use nvme_proto::Lba;
pub(crate) use shared::Shared;
use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use ugds_sched::Completion;

/// Reads, writes and flushes as futures, under any executor. Clones are the same queue.
///
/// A request is given to the device when its future is first polled, and keeps its region until it has ended. Dropping a
/// future is safe at any time: what the device has of it goes on without it, and what it does not have is not begun.
///
/// Where the device's queues interrupt ([`completion`](Self::completion)), somebody has to look when the queue's
/// descriptor is readable, and call [`drive`](Self::drive): a task under the executor's reactor, or any loop that polls
/// descriptors. That wakes the futures. Where they don't, each future looks by itself whenever it is polled, and asks to
/// be polled again at once, which keeps a thread of the executor busy.
///
/// # Examples
///
/// ```
/// use std::os::fd::AsFd;
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use ugds::{Device, nvme::Lba};
///
/// let device = Device::open("emu:?size=16M&lba=4096")?;
/// let (namespace, region) = (device.namespace()?, device.alloc(4096)?);
/// let queue = device.async_queue(32)?;
///
/// // The smallest of all executors. `cargo run --example tokio` shows a real one.
/// let mut read = pin!(queue.read(namespace, &region, 0..4096, Lba(7)));
/// let mut context = Context::from_waker(Waker::noop());
/// let ended = loop {
///     match read.as_mut().poll(&mut context) {
///         Poll::Ready(ended) => break ended,
///         Poll::Pending => queue.drive()?,
///     };
/// };
/// ended?;
/// # Ok::<(), ugds::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncQueue {
    shared: Arc<Shared>,
}

impl AsyncQueue {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Reads blocks from `lba` on into the bytes `range` of `region`.
    ///
    /// # Errors
    ///
    /// The future ends with those of [`Namespace::read`], or [`Error::ForeignNamespace`].
    pub fn read(&self, namespace: &Namespace, region: &Region, range: Range<usize>, lba: Lba) -> Pending {
        self.request(What::Read(region.clone(), range, lba), namespace)
    }

    /// Writes the bytes `range` of `region` to the blocks from `lba` on.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn write(&self, namespace: &Namespace, region: &Region, range: Range<usize>, lba: Lba) -> Pending {
        self.request(What::Write(region.clone(), range, lba), namespace)
    }

    /// Makes durable what was written and had ended before this was polled first.
    ///
    /// # Errors
    ///
    /// The future ends with those of [`Namespace::flush`], or [`Error::ForeignNamespace`].
    pub fn flush(&self, namespace: &Namespace) -> Pending {
        self.request(What::Flush, namespace)
    }

    fn request(&self, what: What, namespace: &Namespace) -> Pending {
        Pending::new(Arc::clone(&self.shared), Request { what, namespace: namespace.clone() })
    }

    /// Takes what has ended and wakes the futures that waited for it, without waiting itself. Returns how many requests
    /// that were. It is to be called when the descriptor is readable; more often does no harm.
    ///
    /// # Errors
    ///
    /// [`Error::Wedged`], [`Error::Closed`] or [`Error::Forked`]; the futures are told, too.
    pub fn drive(&self) -> Result<usize, Error> {
        self.shared.drive()
    }

    /// How completions are noticed: whether somebody has to call [`drive`](Self::drive).
    #[must_use]
    pub fn completion(&self) -> Completion {
        self.shared.completion()
    }

    /// The most requests at a time. The futures of others wait in line.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.shared.depth()
    }

    /// Requests under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight()
    }
}

/// It is readable when [`AsyncQueue::drive`] may have something to do.
impl AsFd for AsyncQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.as_fd()
    }
}

/// For reactors that know raw descriptors only.
impl std::os::fd::AsRawFd for AsyncQueue {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for AsyncQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncQueue")
            .field("depth", &self.depth())
            .field("in_flight", &self.in_flight())
            .field("completion", &self.completion())
            .finish_non_exhaustive()
    }
}
