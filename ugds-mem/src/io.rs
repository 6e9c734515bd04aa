//! Commands that are right by construction.
//!
//! UNSAFETY: vouches for commands, each built here from a live mapping or without any address.

#![allow(unsafe_code)]

use crate::{MAX_TRANSFER_BYTES, Mapped, MemError, Transfer};
use alloc::sync::Arc;
use nvme_proto::admin::{
    Abort, AsyncEventRequest, FeatureId, GetLogPage, Identify, LogId, NumberOfQueues, SetFeatures,
};
use nvme_proto::nvm::{Flush, ReadWrite};
use nvme_proto::{Count16, Lba, Nsid, Sqe, identify};
use ugds_hal::pcie::ShadowPages;
use ugds_hal::{Command, Direction, QueueCommand};

/// A command and the memory it moves.
///
/// The constructors, and those of [`ListedIo`](crate::ListedIo), are the only safe way to a [`Command`]: each takes as much memory as the command moves, mapped
/// for the direction in which it moves it.
#[derive(Clone, Copy, Debug)]
pub struct Io<'a> {
    command: Command<'a>,
    mapped: Option<&'a Arc<Mapped>>,
    len_bytes: u32,
}

impl<'a> Io<'a> {
    /// Reads blocks from `slba` on; as many as the transfer holds.
    ///
    /// # Errors
    ///
    /// [`MemError::Direction`], or [`MemError::Blocks`] when the transfer is not a whole number of blocks.
    #[inline(always)]
    pub fn read(nsid: Nsid, format: Format, slba: Lba, to: Transfer<'a>) -> Result<Self, MemError> {
        let blocks = format.blocks_of(&to, Direction::DeviceWrites)?;
        Ok(Self::blocks(&ReadWrite::read(nsid, slba, blocks), to))
    }

    /// Writes blocks from `slba` on; as many as the transfer holds.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[inline(always)]
    pub fn write(nsid: Nsid, format: Format, slba: Lba, from: Transfer<'a>) -> Result<Self, MemError> {
        let blocks = format.blocks_of(&from, Direction::DeviceReads)?;
        Ok(Self::blocks(&ReadWrite::write(nsid, slba, blocks), from))
    }

    /// Reads `len_bytes` into `to` from `offset` on, the shortest way: for loops that are to be tight, over memory that
    /// is told by PRPs which follow each other. `None` with other memory, and wherever [`Mapped::transfer`] and
    /// [`read`](Self::read) would fail; they are the way then.
    #[inline(always)]
    #[must_use]
    pub fn read_run(
        nsid: Nsid,
        format: Format,
        slba: Lba,
        to: &'a Arc<Mapped>,
        offset: u64,
        len_bytes: u32,
    ) -> Option<Self> {
        let transfer = to.run_transfer(offset, len_bytes, Direction::DeviceWrites)?;
        let blocks = format.blocks_in(len_bytes)?;
        Some(Self::blocks(&ReadWrite::read(nsid, slba, blocks), transfer))
    }

    /// Writes the same way; see [`read_run`](Self::read_run).
    #[inline(always)]
    #[must_use]
    pub fn write_run(
        nsid: Nsid,
        format: Format,
        slba: Lba,
        from: &'a Arc<Mapped>,
        offset: u64,
        len_bytes: u32,
    ) -> Option<Self> {
        let transfer = from.run_transfer(offset, len_bytes, Direction::DeviceReads)?;
        let blocks = format.blocks_in(len_bytes)?;
        Some(Self::blocks(&ReadWrite::write(nsid, slba, blocks), transfer))
    }

    /// Makes what was written to `nsid` durable.
    #[must_use]
    pub fn flush(nsid: Nsid) -> Self {
        Self::without_data(Flush { nsid }.to_sqe())
    }

    /// Fetches an Identify structure, 4096 bytes.
    ///
    /// # Errors
    ///
    /// [`MemError::Direction`] and [`MemError::ExactLength`].
    pub fn identify(identify: &Identify, to: Transfer<'a>) -> Result<Self, MemError> {
        check_direction(&to, Direction::DeviceWrites)?;
        if to.len_bytes() != IDENTIFY_BYTES {
            return Err(MemError::ExactLength { len_bytes: to.len_bytes(), required_bytes: IDENTIFY_BYTES });
        }
        Ok(Self::moving(&identify.to_sqe(), to))
    }

    /// Fetches as much of a log page, from its start, as the transfer holds.
    ///
    /// # Errors
    ///
    /// [`MemError::Direction`]; [`MemError::Length`] cannot happen, since every transfer is a whole number of dwords.
    pub fn log_page(lid: LogId, to: Transfer<'a>) -> Result<Self, MemError> {
        check_direction(&to, Direction::DeviceWrites)?;
        let len_bytes = u64::from(to.len_bytes());
        let log = GetLogPage::new(lid, len_bytes)
            .map_err(|error| MemError::Length { len_bytes: error.len_bytes, max_bytes: len_bytes })?;
        Ok(Self::moving(&log.to_sqe(), to))
    }

    /// Asks for `pairs` I/O queue pairs (Set Features, Number of Queues), at least one.
    #[must_use]
    pub fn number_of_queues(pairs: u16) -> Self {
        let pairs = Count16::new(pairs.into()).unwrap_or(Count16::ONE);
        Self::without_data(SetFeatures::new(NumberOfQueues::of_pairs(pairs)).to_sqe())
    }

    /// Sets a feature whose value is in the command itself. `None` for one that takes memory, and for those that
    /// are not known here: the command could hold an address.
    #[must_use]
    pub fn set_features(set: &SetFeatures) -> Option<Self> {
        FEATURES_WITHOUT_MEMORY.contains(&set.id).then(|| Self::without_data(set.to_sqe()))
    }

    /// Asks the controller to abort a command.
    #[must_use]
    pub fn abort(abort: &Abort) -> Self {
        Self::without_data(abort.to_sqe())
    }

    /// Gives the controller a command that it completes when something happens.
    #[must_use]
    pub fn async_event_request() -> Self {
        Self::without_data(AsyncEventRequest.to_sqe())
    }

    /// Tells the controller where the shadow doorbells are. `None` when they are not contiguous on the bus.
    #[must_use]
    pub fn doorbell_buffer_config(pages: &'a ShadowPages) -> Option<Self> {
        let (shadow, event_idx) = pages.addresses()?;
        // No mapping to hold: the pages are leaked unless the device is proved to have stopped.
        Some(Self::without_data(nvme_proto::admin::DoorbellBufferConfig { shadow, event_idx }.to_sqe()))
    }

    /// The creation or deletion of a queue, whose rings are its maker's to keep.
    #[must_use]
    pub fn of_queue(command: &'a QueueCommand) -> Self {
        Self { command: *command.command(), mapped: None, len_bytes: 0 }
    }

    /// A command of the caller's own making, with the transfer's data pointer if there is one: vendor commands, and
    /// whatever has no constructor here.
    ///
    /// # Safety
    ///
    /// - The command moves no more than the transfer's length, in its direction, or nothing without one.
    /// - Every other address in it is that of memory mapped for the device, which stays so until the command
    ///   completed or the device is proved to have stopped.
    #[must_use]
    pub unsafe fn raw(sqe: &Sqe, transfer: Option<Transfer<'a>>) -> Self {
        match transfer {
            Some(transfer) => Self::moving(sqe, transfer),
            None => Self::without_data(*sqe),
        }
    }

    /// The command itself.
    #[inline]
    #[must_use]
    pub fn command(&self) -> &Command<'a> {
        &self.command
    }

    /// The memory it moves.
    #[inline]
    #[must_use]
    pub fn mapped(&self) -> Option<&'a Arc<Mapped>> {
        self.mapped
    }

    /// The bytes it moves.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    #[inline(always)]
    fn blocks(command: &ReadWrite, transfer: Transfer<'a>) -> Self {
        let words = command.to_words(transfer.data_pointer());
        // SAFETY: as in `moving`.
        let command = unsafe { Command::from_words_unchecked(words) };
        Self { command, mapped: Some(transfer.mapped()), len_bytes: transfer.len_bytes() }
    }

    fn moving(sqe: &Sqe, transfer: Transfer<'a>) -> Self {
        let sqe = sqe.with_data_pointer(transfer.data_pointer());
        // SAFETY:
        // - the data pointer is that of a transfer, so of memory that is mapped for its direction and length;
        // - the callers checked that the command moves as much, in that direction;
        // - `'a` borrows the mapping, and `mapped` lets the queue hold it until the command completed.
        let command = unsafe { Command::new_unchecked(sqe) };
        Self { command, mapped: Some(transfer.mapped()), len_bytes: transfer.len_bytes() }
    }

    #[inline]
    fn without_data(sqe: Sqe) -> Self {
        // SAFETY: the callers pass commands that hold no address, or only those of `ShadowPages`, which outlive the
        // controller's use of them.
        let command = unsafe { Command::new_unchecked(sqe) };
        Self { command, mapped: None, len_bytes: 0 }
    }
}

/// How a namespace's blocks are laid out in memory.
///
/// The device moves as many bytes as its format says, not as many as we believe. So a format is made from the
/// device's own Identify data. It is the one thing here that is taken on trust: a format made from data that the
/// namespace did not answer with lets the device move other lengths than were checked.
///
/// # Invariants
///
/// A block has at least 512 bytes, so no transfer has more blocks than a command can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The binary logarithm of a block's size in units of 512 bytes.
    shift_of_512: u32,
    /// The bits of a length that lie within a block.
    mask: u32,
}

/// A format that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The block size is out of range.
    #[error("its format {index} has blocks of 2^{lbads} bytes (LBADS); 2^9 to 2^31 bytes are supported")]
    BlockSize {
        /// The format's number.
        index: u8,
        /// What it says.
        lbads: u8,
    },
    /// Blocks carry metadata.
    #[error(
        "its format {index} has {metadata_bytes} bytes of metadata per block; formats without are supported"
    )]
    Metadata {
        /// The format's number.
        index: u8,
        /// Bytes of metadata per block.
        metadata_bytes: u16,
    },
    /// The format in use is none of those that are described.
    #[error("it uses format {index}, which is not among the {count} that it describes")]
    Unknown {
        /// The format's number.
        index: u8,
        /// How many there are.
        count: u8,
    },
}

impl Format {
    /// The format of the namespace that `identify` describes.
    ///
    /// # Errors
    ///
    /// [`FormatError`].
    pub fn of(identify: &identify::Namespace) -> Result<Self, FormatError> {
        let index = identify.lba_format_index();
        let Some(format) = identify.lba_format() else {
            return Err(FormatError::Unknown { index, count: identify.lba_formats().len() as u8 });
        };
        match (format.ms.get(), format.lbads) {
            // INVARIANT: 2^9 bytes or more.
            (0, lbads @ 9..=31) => {
                Ok(Self { shift_of_512: u32::from(lbads) - SHIFT_512, mask: (1 << lbads) - 1 })
            }
            (0, lbads) => Err(FormatError::BlockSize { index, lbads }),
            (metadata_bytes, _) => Err(FormatError::Metadata { index, metadata_bytes }),
        }
    }

    /// The binary logarithm of the block size in bytes.
    #[inline]
    #[must_use]
    pub fn block_shift(self) -> u32 {
        SHIFT_512 + self.shift_of_512
    }

    #[inline]
    fn blocks_of(self, transfer: &Transfer<'_>, used: Direction) -> Result<Count16, MemError> {
        check_direction(transfer, used)?;
        let len = transfer.len_bytes();
        self.blocks_in(len).ok_or_else(|| no_blocks(len, self.block_shift()))
    }

    /// The blocks that the length of a transfer is a whole number of.
    #[inline(always)]
    fn blocks_in(self, len_bytes: u32) -> Option<Count16> {
        if len_bytes & self.mask != 0 {
            return None;
        }
        // A transfer has at least one byte and at most 1 MiB: 2048 blocks (invariant), which 16 bits hold.
        // Shifted by the known part first, so that the compiler sees it, too.
        Some(Count16::from_z(((len_bytes - 1) >> SHIFT_512 >> self.shift_of_512) as u16))
    }
}

#[cold]
#[inline(never)]
fn no_blocks(len_bytes: u32, block_shift: u32) -> MemError {
    MemError::Blocks { len_bytes, block_bytes: 1 << block_shift }
}

const SHIFT_512: u32 = 9;
const _: () = assert!((MAX_TRANSFER_BYTES - 1) >> SHIFT_512 <= u16::MAX as u32);

#[inline]
fn check_direction(transfer: &Transfer<'_>, used: Direction) -> Result<(), MemError> {
    if transfer.direction() == used {
        Ok(())
    } else {
        Err(MemError::Direction { mapped: transfer.direction(), used })
    }
}

const IDENTIFY_BYTES: u32 = 4096;

/// Features whose whole value is a number.
const FEATURES_WITHOUT_MEMORY: [FeatureId; 9] = [
    FeatureId::ARBITRATION,
    FeatureId::POWER_MANAGEMENT,
    FeatureId::TEMPERATURE_THRESHOLD,
    FeatureId::ERROR_RECOVERY,
    FeatureId::VOLATILE_WRITE_CACHE,
    FeatureId::INTERRUPT_COALESCING,
    FeatureId::INTERRUPT_VECTOR_CONFIG,
    FeatureId::WRITE_ATOMICITY,
    FeatureId::ASYNC_EVENT_CONFIG,
];
