//! The controller's side: from the descriptor in a command to the pieces of the host's buffer.

use super::{DESCRIPTOR_BYTES, SglDescriptor, SglSubType, SglType};
use crate::identify::Sgls;
use crate::status::{Status, generic};
use crate::types::BusAddr;
use zerocopy::{FromZeros, IntoBytes};

/// Walks the `len_bytes` that `sgl1` describes, as an iterator over pieces.
///
/// `read` copies host memory from an address into the bytes given: a batch of at most 16 descriptors, never past
/// the end of their segment.
pub fn walk<R, E>(sgl1: SglDescriptor, len_bytes: u64, direction: Direction, rules: Rules, read: R) -> Walk<R>
where
    R: FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
{
    Walk {
        rules,
        direction,
        state: State::First(sgl1),
        remaining: len_bytes,
        budget: rules.max_descriptors,
        segment: Segment::default(),
        read,
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A read: the controller writes host memory, and a bit bucket takes data.
    ToHost,
    /// A write: the controller reads host memory, and a bit bucket counts as empty.
    FromHost,
}

/// What a controller accepts, as it says in SGLS of Identify Controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What becomes of an SGL that is longer than the transfer (SGLS bit 18).
    pub excess: Excess,
    /// Whether bit buckets are supported (SGLS bit 16).
    pub bit_bucket: bool,
    /// The alignment of each data block's address and length in bytes: 1 or 4 (SGLS bits 1:0).
    pub align_bytes: u32,
    /// The largest number of descriptors in all, those that point to segments included. A chain that runs in
    /// circles ends here.
    pub max_descriptors: u32,
}

impl Default for Rules {
    /// Byte alignment and bit buckets, nothing longer than the transfer, at most 65 536 descriptors.
    fn default() -> Self {
        Self { excess: Excess::Refused, bit_bucket: true, align_bytes: 1, max_descriptors: 1 << 16 }
    }
}

impl Rules {
    /// The rules that Identify Controller tells in SGLS. `None` where SGLs are not supported.
    #[must_use]
    pub fn of(sgls: Sgls) -> Option<Self> {
        let excess = if sgls.larger_than_data() { Excess::Allowed } else { Excess::Refused };
        let align_bytes = sgls.align_bytes()?;
        Some(Self { excess, bit_bucket: sgls.bit_bucket(), align_bytes, ..Self::default() })
    }
}

/// What becomes of an SGL that describes more than the transfer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The command fails.
    Refused,
    /// The rest is not used and not looked at.
    Allowed,
}

/// A piece of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Host memory.
    Data {
        /// Where it begins.
        addr: BusAddr,
        /// Its length in bytes, never 0.
        len_bytes: u64,
    },
    /// Data that the host does not want.
    Discard {
        /// Its length in bytes, never 0.
        len_bytes: u64,
    },
}

impl Piece {
    /// The length in bytes.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        match *self {
            Self::Data { len_bytes, .. } | Self::Discard { len_bytes } => len_bytes,
        }
    }
}

/// What is wrong with an SGL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A segment has no or not a whole number of descriptors, an address that is no multiple of 8, an end that
    /// does not point on although it is not the last, or a pointer in the last one.
    Segment,
    /// A pointer to a segment stands before the end of its segment, or there are more descriptors than allowed.
    Count,
    /// The lengths do not add up to the transfer's.
    Length,
    /// The type or sub type is not supported.
    Type,
    /// A data block runs over the end of the address space.
    Offset,
    /// A data block's address or length is not aligned as the controller needs it.
    Granularity,
}

/// Why a walk ended before the end of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError<E> {
    /// The list is not well formed.
    #[error("SGL refused ({reason:?}) at {descriptor:?}")]
    Invalid {
        /// What is wrong.
        reason: Reason,
        /// The descriptor at which it was found.
        descriptor: SglDescriptor,
    },
    /// A segment could not be read.
    #[error("SGL segment at {addr} could not be read")]
    Read {
        /// The address that was to be read.
        addr: BusAddr,
        /// What the reader said.
        error: E,
    },
}

impl<E> WalkError<E> {
    /// The status that the command completes with, for an SGL that describes data.
    #[must_use]
    pub const fn status(&self) -> Status {
        let status = match self {
            Self::Read { .. } => return generic::DATA_TRANSFER_ERROR,
            Self::Invalid { reason, .. } => match reason {
                Reason::Segment => generic::INVALID_SGL_SEGMENT_DESCRIPTOR,
                Reason::Count => generic::INVALID_SGL_DESCRIPTOR_COUNT,
                Reason::Length => generic::DATA_SGL_LENGTH_INVALID,
                Reason::Type => generic::SGL_DESCRIPTOR_TYPE_INVALID,
                Reason::Offset => generic::SGL_OFFSET_INVALID,
                Reason::Granularity => generic::SGL_GRANULARITY_INVALID,
            },
        };
        status.with_do_not_retry()
    }

    /// The status that the command completes with, for an SGL that describes metadata.
    #[must_use]
    pub const fn metadata_status(&self) -> Status {
        match self {
            Self::Invalid { reason: Reason::Length, .. } => {
                generic::METADATA_SGL_LENGTH_INVALID.with_do_not_retry()
            }
            _ => self.status(),
        }
    }
}

/// An iterator over the pieces of a transfer. After an error it ends.
///
/// An SGL that is too long is found out only after its pieces: with [`Excess::Refused`], whoever must not move a
/// byte of a refused command walks to the end first.
#[derive(Debug)]
#[must_use = "a walk does nothing until it is iterated"]
pub struct Walk<R> {
    rules: Rules,
    direction: Direction,
    state: State,
    /// The bytes that no piece covers yet.
    remaining: u64,
    /// The descriptors that may still be looked at.
    budget: u32,
    segment: Segment,
    read: R,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The descriptor in the command comes next.
    First(SglDescriptor),
    /// The descriptors of the current segment come next.
    Inside,
    /// Nothing comes next.
    Done,
}

/// The segment that is being walked.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// The descriptor that is looked at.
    current: SglDescriptor,
    /// The address of the next descriptor to read.
    at: BusAddr,
    /// The descriptors not read yet.
    unread: u32,
    is_last: bool,
    batch: [SglDescriptor; BATCH],
    used: usize,
    filled: usize,
}

impl<R, E> Iterator for Walk<R>
where
    R: FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
{
    type Item = Result<Piece, WalkError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.next_piece().transpose();
        if !matches!(result, Some(Ok(_))) {
            self.state = State::Done;
        }
        result
    }
}

impl<R, E> Walk<R>
where
    R: FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
{
    fn next_piece(&mut self) -> Result<Option<Piece>, WalkError<E>> {
        while !self.is_covered() {
            let Some(descriptor) = self.next_descriptor()? else {
                let is_short = self.remaining != 0 && !matches!(self.state, State::Done);
                return if is_short { Err(self.invalid(Reason::Length)) } else { Ok(None) };
            };
            self.segment.current = descriptor;
            if let Some(piece) = self.use_descriptor(descriptor)? {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// Whether nothing more needs looking at.
    fn is_covered(&self) -> bool {
        self.remaining == 0 && self.rules.excess == Excess::Allowed
    }

    fn next_descriptor(&mut self) -> Result<Option<SglDescriptor>, WalkError<E>> {
        let next = match self.state {
            State::Done => None,
            State::First(descriptor) => {
                self.state = State::Inside;
                self.segment.is_last = !descriptor.is_segment();
                Some(descriptor)
            }
            State::Inside => self.segment.next(&mut self.read)?,
        };
        if next.is_some() {
            self.budget = self.budget.checked_sub(1).ok_or_else(|| self.invalid(Reason::Count))?;
        }
        Ok(next)
    }

    fn use_descriptor(&mut self, descriptor: SglDescriptor) -> Result<Option<Piece>, WalkError<E>> {
        if descriptor.sub_type() != SglSubType::ADDRESS {
            return Err(self.invalid(Reason::Type));
        }
        if self.segment.must_point_on() && !descriptor.is_segment() {
            return Err(self.invalid(Reason::Segment));
        }
        match descriptor.kind() {
            SglType::DATA_BLOCK => self.data(descriptor),
            SglType::BIT_BUCKET if self.rules.bit_bucket => self.discard(descriptor),
            SglType::SEGMENT | SglType::LAST_SEGMENT => self.enter(descriptor).map(|()| None),
            _ => Err(self.invalid(Reason::Type)),
        }
    }

    fn data(&mut self, descriptor: SglDescriptor) -> Result<Option<Piece>, WalkError<E>> {
        let (addr, len) = (descriptor.addr(), u64::from(descriptor.len_bytes()));
        if len == 0 {
            return Ok(None);
        }
        let align = u64::from(self.rules.align_bytes.max(1));
        if !addr.0.is_multiple_of(align) || !len.is_multiple_of(align) {
            return Err(self.invalid(Reason::Granularity));
        }
        if addr.checked_add(len - 1).is_none() {
            return Err(self.invalid(Reason::Offset));
        }
        let len_bytes = self.cover(len)?;
        Ok(Some(Piece::Data { addr, len_bytes }))
    }

    fn discard(&mut self, descriptor: SglDescriptor) -> Result<Option<Piece>, WalkError<E>> {
        let len = u64::from(descriptor.len_bytes());
        if len == 0 || self.direction == Direction::FromHost {
            return Ok(None);
        }
        let len_bytes = self.cover(len)?;
        Ok(Some(Piece::Discard { len_bytes }))
    }

    /// Takes up to `len` from what remains.
    fn cover(&mut self, len: u64) -> Result<u64, WalkError<E>> {
        if len > self.remaining && self.rules.excess == Excess::Refused {
            return Err(self.invalid(Reason::Length));
        }
        let taken = len.min(self.remaining);
        self.remaining -= taken;
        Ok(taken)
    }

    fn enter(&mut self, descriptor: SglDescriptor) -> Result<(), WalkError<E>> {
        let (addr, len) = (descriptor.addr(), descriptor.len_bytes());
        if self.segment.has_more() {
            return Err(self.invalid(Reason::Count));
        }
        let is_well_formed = len != 0 && len.is_multiple_of(DESCRIPTOR_BYTES) && addr.0.is_multiple_of(8);
        let ends = addr.checked_add(u64::from(len).saturating_sub(1)).is_some();
        if self.segment.is_last || !is_well_formed || !ends {
            return Err(self.invalid(Reason::Segment));
        }
        self.segment.at = addr;
        self.segment.unread = len / DESCRIPTOR_BYTES;
        self.segment.is_last = descriptor.kind() == SglType::LAST_SEGMENT;
        Ok(())
    }

    const fn invalid(&self, reason: Reason) -> WalkError<E> {
        WalkError::Invalid { reason, descriptor: self.segment.current }
    }
}

impl Segment {
    fn next<E>(
        &mut self,
        read: &mut impl FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
    ) -> Result<Option<SglDescriptor>, WalkError<E>> {
        if self.used == self.filled {
            self.fill(read)?;
        }
        let next = self.batch[..self.filled].get(self.used).copied();
        self.used += usize::from(next.is_some());
        Ok(next)
    }

    fn fill<E>(
        &mut self,
        read: &mut impl FnMut(BusAddr, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), WalkError<E>> {
        let filled = (self.unread as usize).min(BATCH);
        (self.used, self.filled) = (0, filled);
        if filled == 0 {
            return Ok(());
        }
        let batch = &mut self.batch[..filled];
        batch.zero();
        read(self.at, batch.as_mut_bytes()).map_err(|error| WalkError::Read { addr: self.at, error })?;
        self.unread -= filled as u32;
        self.at = BusAddr(self.at.0.wrapping_add(size_of_val(batch) as u64));
        Ok(())
    }

    const fn has_more(&self) -> bool {
        self.used != self.filled || self.unread != 0
    }

    /// Whether the current descriptor ends a segment that is not the last.
    const fn must_point_on(&self) -> bool {
        !self.is_last && !self.has_more()
    }
}

/// The number of descriptors that are read at once.
const BATCH: usize = 16;

#[cfg(test)]
mod tests;
