//! Many requests at once.

use crate::device::Inner;
use crate::engine::{Kind, Order, Span, What, Work};
use crate::error::Error;
use crate::namespace::{Namespace, SMALL_BYTES};
use crate::region::Region;
use nvme_proto::Lba;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use ugds_hal::Event;

/// Requests that are given to the device together and whose outcomes are collected later, in the order in which they
/// come. Reads, writes and flushes, namespaces and sizes may be mixed.
///
/// An entry is put in by [`read`](Self::read), [`write`](Self::write) or [`flush`](Self::flush) and keeps its region
/// until its outcome was handed out. [`submit`](Self::submit) gives the device what it has room for;
/// [`harvest`](Self::harvest) hands outcomes out and gives it what was left. Nothing is allocated from then on, but
/// for a region that is new to the batch.
///
/// The entries are in no order. A flush makes durable what had ended before it was submitted, and nothing else of its
/// batch.
///
/// Dropping a batch waits for what the device has of it. One that is forgotten instead keeps its memory and its slots.
///
/// # Examples
///
/// ```
/// use ugds::{Device, nvme::Lba};
///
/// let device = Device::open("emu:?size=16M&lba=4096")?;
/// let (namespace, region) = (device.namespace()?, device.alloc(64 << 10)?);
/// let mut batch = device.batch(16)?;
/// for n in 0..16 {
///     batch.read(namespace, &region, n * 4096..(n + 1) * 4096, Lba(n as u64 * 7), n as u64)?;
/// }
/// batch.submit()?;
/// let mut outcomes = Vec::with_capacity(16);
/// batch.harvest(16, None, &mut outcomes)?;
/// assert!(outcomes.iter().all(|outcome| outcome.result.is_ok() && outcome.bytes == 4096));
/// # Ok::<(), ugds::Error>(())
/// ```
pub struct Batch {
    work: Work,
    // Goes last.
    device: Arc<Inner>,
}

/// How an entry ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The caller's name for the entry.
    pub cookie: u64,
    /// The bytes from its start that are known to be done. All of them, if it ended well.
    pub bytes: u64,
    /// Nothing, or why it failed: [`Error::Io`], [`Error::Cancelled`], [`Error::Wedged`], [`Error::Closed`]. Other
    /// entries are not touched by it.
    pub result: Result<(), Error>,
}

impl Batch {
    /// The most entries of a batch.
    pub const DEPTH_MAX: usize = 1 << 16;

    pub(crate) fn new(device: Arc<Inner>, work: Work) -> Self {
        Self { work, device }
    }

    /// Puts in a read of blocks from `lba` on into the bytes `range` of `region`.
    ///
    /// # Errors
    ///
    /// Nothing was put in.
    ///
    /// - [`Error::BatchFull`];
    /// - [`Error::Alignment`], [`Error::ByteRange`], [`Error::BlockRange`], as for [`Namespace::read`];
    /// - [`Error::ForeignNamespace`], [`Error::ForeignRegion`].
    #[inline]
    pub fn read(
        &mut self,
        namespace: &Namespace,
        region: &Region,
        range: Range<usize>,
        lba: Lba,
        cookie: u64,
    ) -> Result<(), Error> {
        self.transfer(What::Read, namespace, region, range, lba, cookie)
    }

    /// Puts in a write of the bytes `range` of `region` to the blocks from `lba` on.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[inline]
    pub fn write(
        &mut self,
        namespace: &Namespace,
        region: &Region,
        range: Range<usize>,
        lba: Lba,
        cookie: u64,
    ) -> Result<(), Error> {
        self.transfer(What::Write, namespace, region, range, lba, cookie)
    }

    /// Puts in a flush of what was written and had ended before this is submitted.
    ///
    /// # Errors
    ///
    /// [`Error::BatchFull`] or [`Error::ForeignNamespace`]; nothing was put in.
    pub fn flush(&mut self, namespace: &Namespace, cookie: u64) -> Result<(), Error> {
        if !namespace.is_of(&self.device) {
            return Err(Error::ForeignNamespace { nsid: namespace.nsid() });
        }
        let order = Order {
            cookie,
            kind: Kind::new(What::Flush, namespace.ordinal()),
            memory: 0,
            offset: 0,
            len_bytes: 0,
            lba: Lba(0),
        };
        if self.work.push_other(order, None) { Ok(()) } else { Err(self.full()) }
    }

    /// Gives the device as much as it has room for, and returns how many entries it was not given all of: those wait
    /// for the next [`harvest`](Self::harvest) or [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// [`Error::Wedged`], [`Error::Closed`] or [`Error::Forked`]. Every entry of a device that is wedged or closed has
    /// ended, and is harvested as usual.
    pub fn submit(&mut self) -> Result<usize, Error> {
        self.device.engine().submit(&mut self.work)
    }

    /// Appends outcomes to `into` in the order in which they came, all that are there, and returns how many. It waits
    /// until they are `least`, or all that there will be, or until `timeout` is over; without one, for as long as it
    /// takes. A command that is late for the device is ended as that of a blocking call.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when the device is being closed before anything was submitted, or [`Error::Forked`].
    #[inline]
    pub fn harvest(
        &mut self,
        least: usize,
        timeout: Option<Duration>,
        into: &mut Vec<Outcome>,
    ) -> Result<usize, Error> {
        self.harvest_up_to(least, usize::MAX, timeout, into)
    }

    /// The same, but no more than `most` outcomes. The others stay for the next time.
    ///
    /// # Errors
    ///
    /// As [`harvest`](Self::harvest).
    pub fn harvest_up_to(
        &mut self,
        least: usize,
        most: usize,
        timeout: Option<Duration>,
        into: &mut Vec<Outcome>,
    ) -> Result<usize, Error> {
        self.device.engine().harvest(&mut self.work, Span { least, most, timeout }, into)
    }

    /// Ends the entries named `cookie` that the device was not given all of, with [`Error::Cancelled`]. What it has of
    /// them is waited for when they are harvested; an entry that it was given all of is left alone. Returns how many
    /// they are.
    pub fn cancel(&mut self, cookie: u64) -> usize {
        self.work.cancel(Some(cookie))
    }

    /// The same for every entry.
    pub fn cancel_all(&mut self) -> usize {
        self.work.cancel(None)
    }

    /// The entries that were not harvested.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.work.len()
    }

    /// Whether there is no entry.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most entries at a time.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.work.depth()
    }

    /// See [`Work::check_soon`].
    pub(crate) fn check_soon(&mut self) {
        self.work.check_soon();
    }

    /// Asks for `bell` to be rung when somebody else finds an outcome. `false` when there is one already.
    pub(crate) fn listen(&self, bell: &Event) -> bool {
        self.device.engine().listen(&self.work, bell)
    }

    /// Takes back what [`listen`](Self::listen) asked for.
    pub(crate) fn ignore(&self) {
        self.device.engine().ignore(&self.work);
    }

    #[inline(always)]
    fn transfer(
        &mut self,
        what: What,
        namespace: &Namespace,
        region: &Region,
        range: Range<usize>,
        lba: Lba,
        cookie: u64,
    ) -> Result<(), Error> {
        if namespace.is_of(&self.device)
            && let Some(len_bytes) = namespace.small(region, &range, lba)
        {
            let kind = Kind::new(what, namespace.ordinal());
            let order = Order { cookie, kind, memory: 0, offset: range.start as u64, len_bytes, lba };
            if self.work.push_small(order, region) {
                return Ok(());
            }
        }
        self.transfer_other(what, namespace, region, range, lba, cookie)
    }

    /// Whatever is not small, and what is wrong.
    #[inline(never)]
    fn transfer_other(
        &mut self,
        what: What,
        namespace: &Namespace,
        region: &Region,
        range: Range<usize>,
        lba: Lba,
        cookie: u64,
    ) -> Result<(), Error> {
        if !namespace.is_of(&self.device) {
            return Err(Error::ForeignNamespace { nsid: namespace.nsid() });
        }
        namespace.check(region, &range, lba)?;
        let len_bytes = (range.end - range.start) as u64;
        let kind = Kind::new(what, namespace.ordinal());
        let order = Order { cookie, kind, memory: 0, offset: range.start as u64, len_bytes, lba };
        let is_small =
            namespace.limits().single(lba, len_bytes).is_some_and(|len| u64::from(len) <= SMALL_BYTES);
        let pushed = if is_small {
            self.work.push_small(order, region)
        } else {
            self.work.push_other(order, Some(region))
        };
        if pushed { Ok(()) } else { Err(self.full()) }
    }

    #[cold]
    fn full(&self) -> Error {
        Error::BatchFull { depth: self.depth() }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.device.engine().close_batch(&mut self.work);
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("depth", &self.depth())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
