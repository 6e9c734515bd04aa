//! A namespace of an opened device.

use crate::device::Inner;
use crate::engine::{Direction, Request};
use crate::error::Error;
use crate::region::Region;
use nvme_proto::{Lba, Nsid, identify};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use ugds_sched::Limits;

/// A namespace: blocks that are read and written. Clones are the same namespace, and it can be used from many
/// threads at once.
#[derive(Clone)]
pub struct Namespace {
    device: Arc<Inner>,
    found: Arc<Found>,
}

struct Found {
    /// Its place among the namespaces of its device.
    ordinal: u16,
    /// NSZE: beside what every request looks at.
    blocks: u64,
    /// The bytes of a block, less one.
    block_mask: u64,
    /// The most bytes of a request that is small and one command wherever it lies. 0 with boundaries.
    small_bytes: u64,
    described: ugds_queue::controller::Namespace,
    limits: Limits,
}

/// Requests of up to so many bytes are small in a batch, as to the scheduler.
pub(crate) const SMALL_BYTES: u64 = 16 << 10;

impl Namespace {
    pub(crate) fn new(
        device: Arc<Inner>,
        ordinal: u16,
        described: ugds_queue::controller::Namespace,
    ) -> Result<Self, Error> {
        let limits = Limits::new(described.format().block_shift(), described.max_transfer_bytes())?
            .with_boundary(described.boundary_blocks());
        let (blocks, block_mask) = (described.blocks(), (1 << limits.block_shift()) - 1);
        let small_bytes = match described.boundary_blocks() {
            0 => SMALL_BYTES.min(described.max_transfer_bytes().into()),
            _ => 0,
        };
        let found = Found { ordinal, blocks, block_mask, small_bytes, described, limits };
        Ok(Self { device, found: Arc::new(found) })
    }

    /// Its identifier.
    #[inline]
    #[must_use]
    pub fn nsid(&self) -> Nsid {
        self.found.described.nsid()
    }

    /// Its size in blocks (NSZE).
    #[inline]
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.found.blocks
    }

    /// The size of a block in bytes.
    #[must_use]
    pub fn lba_bytes(&self) -> u32 {
        1 << self.found.limits.block_shift()
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.blocks().saturating_mul(1 << self.found.limits.block_shift())
    }

    /// Its Identify data.
    #[must_use]
    pub fn identify(&self) -> &identify::Namespace {
        self.found.described.identify()
    }

    /// Reads blocks from `lba` on into the bytes `range` of `region`, and returns when all are there.
    ///
    /// # Errors
    ///
    /// - [`Error::Alignment`] when the range's length is no multiple of a block, or its start none of four bytes;
    /// - [`Error::ByteRange`], [`Error::BlockRange`], [`Error::ForeignRegion`];
    /// - [`Error::Io`] with the device's status and how much was done before the command that failed; nothing is
    ///   said about the bytes after that;
    /// - [`Error::Wedged`] or [`Error::Closed`].
    #[inline]
    pub fn read(&self, region: &Region, range: Range<usize>, lba: Lba) -> Result<(), Error> {
        self.run(region, range, lba, Direction::Read)
    }

    /// Writes the bytes `range` of `region` to the blocks from `lba` on, and returns when the device has taken
    /// them. They are durable after a [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[inline]
    pub fn write(&self, region: &Region, range: Range<usize>, lba: Lba) -> Result<(), Error> {
        self.run(region, range, lba, Direction::Write)
    }

    /// Makes everything written durable that was written before.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::Wedged`] or [`Error::Closed`].
    pub fn flush(&self) -> Result<(), Error> {
        self.device.engine().flush(self.nsid())
    }

    #[inline]
    fn run(&self, region: &Region, range: Range<usize>, lba: Lba, direction: Direction) -> Result<(), Error> {
        self.check(region, &range, lba)?;
        let request = Request {
            namespace: &self.found.described,
            limits: &self.found.limits,
            mapped: region.mapped(),
            offset: range.start as u64,
            len_bytes: (range.end - range.start) as u64,
            lba,
            direction,
        };
        match direction {
            Direction::Read => self.device.engine().read(&request),
            Direction::Write => self.device.engine().write(&request),
        }
    }

    #[inline]
    pub(crate) fn ordinal(&self) -> u16 {
        self.found.ordinal
    }

    #[inline]
    pub(crate) fn described(&self) -> &ugds_queue::controller::Namespace {
        &self.found.described
    }

    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.found.limits
    }

    #[inline]
    pub(crate) fn is_of(&self, device: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// The length of a request that is possible, and small enough to be one command wherever it lies. `None` for any other
    /// request: [`check`](Self::check) says whether it is possible.
    #[inline(always)]
    pub(crate) fn small(&self, region: &Region, range: &Range<usize>, lba: Lba) -> Option<u64> {
        let len = range.end.wrapping_sub(range.start) as u64;
        let found = &*self.found;
        // A range that ends before its start is longer than anything.
        let fits = len.wrapping_sub(1) < found.small_bytes
            && (len & found.block_mask) | (range.start as u64 & 3) == 0
            && range.end as u64 <= region.mapped().len_bytes()
            && lba.0 <= found.blocks
            && len >> found.limits.block_shift() <= found.blocks - lba.0
            && region.is_of(&self.device);
        fits.then_some(len)
    }

    /// Whether a request is possible at all.
    #[inline]
    pub(crate) fn check(&self, region: &Region, range: &Range<usize>, lba: Lba) -> Result<(), Error> {
        let len = range.end.wrapping_sub(range.start) as u64;
        let shift = self.found.limits.block_shift();
        let (blocks, capacity) = (len >> shift, self.found.blocks);
        let fits = range.start <= range.end
            && range.end as u64 <= region.mapped().len_bytes()
            && (len & self.found.block_mask) | (range.start as u64 & 3) == 0
            && lba.0 <= capacity
            && blocks <= capacity - lba.0
            && region.is_of(&self.device);
        if fits { Ok(()) } else { Err(self.refusal(region, range, lba)) }
    }

    /// What is wrong with a request.
    #[cold]
    fn refusal(&self, region: &Region, range: &Range<usize>, lba: Lba) -> Error {
        let (start, end) = (range.start, range.end);
        if start > end || end > region.len_bytes() {
            return Error::ByteRange { start, end, region_bytes: region.len_bytes() };
        }
        let len = (end - start) as u64;
        let multiple = u64::from(self.lba_bytes());
        if !len.is_multiple_of(multiple) {
            return Error::Alignment { what: "length", value: len, multiple };
        }
        if start & 3 != 0 {
            return Error::Alignment { what: "offset in the region", value: start as u64, multiple: 4 };
        }
        let (blocks, capacity) = (len / multiple, self.blocks());
        if lba.0 > capacity || blocks > capacity - lba.0 {
            return Error::BlockRange { nsid: self.nsid(), lba, blocks, capacity };
        }
        Error::ForeignRegion
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace")
            .field("nsid", &self.nsid())
            .field("blocks", &self.blocks())
            .field("lba_bytes", &self.lba_bytes())
            .finish_non_exhaustive()
    }
}
