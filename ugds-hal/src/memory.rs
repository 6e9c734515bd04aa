//! Memory that a device can reach.
//!
//! UNSAFETY: holds the one set of raw accesses to memory that changes under our hands. Everything is copied in and
//! out by relaxed atomics; no reference to such memory but to an atomic is ever made.

#![allow(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use nvme_proto::BusAddr;

/// One address domain: the addresses that one device uses. Two devices are two domains even behind one IOMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DomainId(u32);

impl DomainId {
    /// Returns an identifier that this process has not used before.
    ///
    /// # Panics
    ///
    /// After four billion of them: reuse would let one device's addresses pass for another's.
    #[must_use]
    pub fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        // Relaxed: the number only has to be unique.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        assert_ne!(id, 0, "more than u32::MAX address domains in one process");
        Self(id)
    }
}

/// Who moves data which way, as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The device reads the memory: data of writes, submission rings, lists.
    DeviceReads,
    /// The device writes the memory: data of reads, completion rings.
    DeviceWrites,
    /// Both.
    Both,
}

impl Direction {
    /// Whether memory mapped this way may be used that way.
    #[inline]
    #[must_use]
    pub const fn allows(self, used: Self) -> bool {
        matches!(
            (self, used),
            (Self::Both, _)
                | (Self::DeviceReads, Self::DeviceReads)
                | (Self::DeviceWrites, Self::DeviceWrites)
        )
    }
}

/// A run of bus addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it starts.
    pub addr: BusAddr,
    /// Its length in bytes, not 0.
    pub len_bytes: u64,
}

/// What memory is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes, not 0.
    pub len_bytes: usize,
    /// The alignment of both addresses, a power of two; at least a page is given.
    pub align_bytes: usize,
    /// What the device does with it.
    pub direction: Direction,
}

/// Memory mapped for one device. The mapping lasts as long as this value.
///
/// # Invariants
///
/// The extents, in order, are the bus addresses of the memory's bytes, and their lengths add up to its length. They
/// stay valid until `release` is dropped, which first takes them from the device.
pub struct Mapping {
    extents: Box<[Extent]>,
    len_bytes: u64,
    direction: Direction,
    domain: DomainId,
    /// Whatever undoes the mapping, and then frees the memory if it is ours.
    _release: Box<dyn Any + Send + Sync>,
}

impl Mapping {
    /// Describes a mapping that dropping `release` undoes.
    ///
    /// # Safety
    ///
    /// Until `release` is dropped, the device of `domain` reaches memory at `extents` in `direction`, and that
    /// memory belongs to whoever asked for the mapping.
    #[must_use]
    pub unsafe fn new(
        extents: Box<[Extent]>,
        direction: Direction,
        domain: DomainId,
        release: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let len_bytes = extents.iter().map(|extent| extent.len_bytes).sum();
        // INVARIANT: promised by the caller.
        Self { extents, len_bytes, direction, domain, _release: release }
    }

    /// The bus addresses, in the order of the memory.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// What the device may do.
    #[inline]
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// The device's address domain.
    #[inline]
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
    }

    /// The address of the first byte, when all of it is one contiguous run.
    #[must_use]
    pub fn contiguous(&self) -> Option<BusAddr> {
        match *self.extents {
            [only] => Some(only.addr),
            _ => None,
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("len_bytes", &self.len_bytes)
            .field("extents", &self.extents.len())
            .field("direction", &self.direction)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

/// An access beyond the end of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len_bytes} bytes at offset {offset} do not lie within {size_bytes} bytes")]
pub struct OutOfRange {
    /// Where the access starts.
    pub offset: usize,
    /// How long it is.
    pub len_bytes: usize,
    /// How much memory there is.
    pub size_bytes: usize,
}

/// Memory that a device, or a model of one, may access at the same time.
///
/// It is read and written by copying, in relaxed atomic words and, at the ends, bytes. A copy that races with a device
/// gives bytes of before or after, in any mixture. One that races with another copy in this process, such as the
/// controller model's, is defined for whole aligned words only.
///
/// # Invariants
///
/// `ptr` is valid for reads and writes of `len_bytes` bytes for the life of this value.
#[derive(Debug)]
pub struct SharedMemory {
    ptr: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the memory is reached through atomic accesses only, and it belongs to no thread (type invariant).
unsafe impl Send for SharedMemory {}
// SAFETY: as for Send; every method takes `&self` and accesses atomically.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Describes `len_bytes` at `ptr`.
    ///
    /// # Safety
    ///
    /// For as long as the value lives, the memory is valid for reads and writes, and nothing in this process holds
    /// a reference to it or accesses it other than atomically while this value is used.
    #[must_use]
    pub const unsafe fn new(ptr: NonNull<u8>, len_bytes: usize) -> Self {
        // INVARIANT: promised by the caller.
        Self { ptr, len_bytes }
    }

    /// The length in bytes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The first byte. Following it is the reader's own responsibility.
    #[must_use]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Copies from `offset` on into `to`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], and `to` is untouched.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.check(offset, to.len())?;
        let (head, words) = to.split_at_mut(bytes_to_word(from, to.len()));
        load_bytes(from, head);
        let mut at = from.wrapping_add(head.len());
        let mut chunks = words.chunks_exact_mut(WORD);
        for chunk in &mut chunks {
            // SAFETY:
            // - `check` put the whole run inside the memory, which is valid by the type invariant;
            // - `bytes_to_word` made `at` a multiple of 8, and it advances by 8.
            let word = unsafe { &*at.cast::<AtomicU64>() };
            // Relaxed: order comes from the completion's phase tag, not from the data.
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            at = at.wrapping_add(WORD);
        }
        load_bytes(at, chunks.into_remainder());
        Ok(())
    }

    /// Copies `from` to `offset`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], and nothing is copied.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), OutOfRange> {
        let to = self.check(offset, from.len())?;
        let (head, words) = from.split_at(bytes_to_word(to, from.len()));
        store_bytes(to, head);
        let mut at = to.wrapping_add(head.len());
        let (chunks, tail) = words.as_chunks::<WORD>();
        for chunk in chunks {
            // SAFETY: as in `copy_out`.
            let word = unsafe { &*at.cast::<AtomicU64>() };
            // Relaxed: order comes from the doorbell.
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
            at = at.wrapping_add(WORD);
        }
        store_bytes(at, tail);
        Ok(())
    }

    /// Copies words to `offset`, a multiple of eight, one after the other in the host's byte order.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], and nothing is copied.
    #[inline]
    pub fn copy_in_words(
        &self,
        offset: usize,
        words: impl ExactSizeIterator<Item = u64>,
    ) -> Result<(), OutOfRange> {
        let len_bytes = words.len().saturating_mul(WORD);
        let at = self.check(offset, len_bytes)?;
        if !at.addr().is_multiple_of(WORD) {
            return Err(OutOfRange { offset, len_bytes, size_bytes: self.len_bytes });
        }
        // SAFETY: `check` put the whole run inside the memory, which is valid by the type invariant, and it begins at
        // a multiple of 8.
        let run = unsafe { core::slice::from_raw_parts(at.cast::<AtomicU64>(), len_bytes / WORD) };
        // No more than was checked, even if an iterator is longer than it said.
        for (word, value) in run.iter().zip(words) {
            // Relaxed: order comes from the doorbell.
            word.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sets `len_bytes` from `offset` on to `byte`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], and nothing is written.
    pub fn fill(&self, offset: usize, len_bytes: usize, byte: u8) -> Result<(), OutOfRange> {
        self.check(offset, len_bytes)?;
        let pattern = [byte; 256];
        let mut done = 0;
        while done < len_bytes {
            let step = (len_bytes - done).min(pattern.len());
            self.copy_in(offset + done, &pattern[..step])?;
            done += step;
        }
        Ok(())
    }

    /// The 32-bit word at `offset`, to be loaded or stored with an order of the caller's choice. `None` outside of
    /// the memory or off a multiple of four.
    #[must_use]
    pub fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.check(offset, size_of::<u32>()).ok()?;
        if !at.addr().is_multiple_of(size_of::<u32>()) {
            return None;
        }
        // SAFETY: inside the memory (`check`), aligned (just tested), alive for `&self` (type invariant).
        Some(unsafe { &*at.cast::<AtomicU32>() })
    }

    fn check(&self, offset: usize, len_bytes: usize) -> Result<*mut u8, OutOfRange> {
        match offset.checked_add(len_bytes) {
            Some(end) if end <= self.len_bytes => Ok(self.ptr.as_ptr().wrapping_add(offset)),
            _ => Err(OutOfRange { offset, len_bytes, size_bytes: self.len_bytes }),
        }
    }
}

/// Bytes from `at` to the next multiple of a word, at most `len`.
fn bytes_to_word(at: *mut u8, len: usize) -> usize {
    (at.addr().wrapping_neg() & (WORD - 1)).min(len)
}

/// Copies single bytes out. `from` is inside a checked run of at least `to.len()` bytes.
fn load_bytes(from: *mut u8, to: &mut [u8]) {
    for (i, byte) in to.iter_mut().enumerate() {
        // SAFETY: the callers' `check` covers `from + i`; a byte is always aligned.
        let shared = unsafe { &*from.wrapping_add(i).cast::<AtomicU8>() };
        *byte = shared.load(Ordering::Relaxed);
    }
}

/// Copies single bytes in. `to` is inside a checked run of at least `from.len()` bytes.
fn store_bytes(to: *mut u8, from: &[u8]) {
    for (i, byte) in from.iter().enumerate() {
        // SAFETY: the callers' `check` covers `to + i`; a byte is always aligned.
        let shared = unsafe { &*to.wrapping_add(i).cast::<AtomicU8>() };
        shared.store(*byte, Ordering::Relaxed);
    }
}

const WORD: usize = size_of::<u64>();

/// Memory that the library owns and a device reaches: rings, lists, command data.
///
/// The memory lives as long as its [`Mapping`], which may outlast this value.
#[derive(Debug)]
pub struct Dma {
    shared: SharedMemory,
    mapping: Arc<Mapping>,
}

impl Dma {
    /// Joins memory and its mapping.
    ///
    /// # Safety
    ///
    /// `ptr` is the zeroed memory that `mapping` describes, valid until the last clone of `mapping` is gone, and no
    /// other part of the process accesses it.
    #[must_use]
    pub unsafe fn new(ptr: NonNull<u8>, mapping: Arc<Mapping>) -> Self {
        let len_bytes = usize::try_from(mapping.len_bytes()).unwrap_or(0);
        // SAFETY: the caller's promise, and `self.mapping` keeps the memory valid for the life of `self`.
        let shared = unsafe { SharedMemory::new(ptr, len_bytes) };
        Self { shared, mapping }
    }

    /// The memory.
    #[must_use]
    pub fn shared(&self) -> &SharedMemory {
        &self.shared
    }

    /// The mapping, which keeps the memory alive.
    #[must_use]
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn shared(bytes: &mut [u8]) -> SharedMemory {
        let len = bytes.len();
        // SAFETY: the tests use the slice through this value only while it lives.
        unsafe { SharedMemory::new(NonNull::from(bytes).cast(), len) }
    }

    #[test]
    fn accesses_beyond_the_end_are_refused_and_change_nothing() {
        let mut bytes = [7u8; 16];
        let memory = shared(&mut bytes);
        let mut out = [1u8; 9];
        let refused = OutOfRange { offset: 8, len_bytes: 9, size_bytes: 16 };
        assert_eq!(memory.copy_out(8, &mut out), Err(refused));
        assert_eq!(memory.copy_in(8, &out), Err(refused));
        assert!(memory.fill(usize::MAX, 2, 0).is_err());
        assert!(memory.word(13).is_none());
        assert_eq!(out, [1; 9]);
        assert_eq!(bytes, [7; 16]);
    }

    #[test]
    fn directions_allow_what_they_say() {
        use Direction::*;
        for (mapped, used, allowed) in [
            (Both, DeviceReads, true),
            (Both, DeviceWrites, true),
            (DeviceReads, DeviceReads, true),
            (DeviceReads, DeviceWrites, false),
            (DeviceWrites, DeviceReads, false),
            (DeviceReads, Both, false),
        ] {
            assert_eq!(mapped.allows(used), allowed, "{mapped:?} used as {used:?}");
        }
    }

    proptest! {
        #[test]
        fn copies_agree_with_slices(
            start in 0usize..40,
            data in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut bytes = vec![0xaau8; 256];
            let mut expected = bytes.clone();
            expected[start..start + data.len()].copy_from_slice(&data);
            let memory = shared(&mut bytes);
            memory.copy_in(start, &data).unwrap();
            let mut back = Vec::from_iter(core::iter::repeat_n(0, data.len()));
            memory.copy_out(start, &mut back).unwrap();
            prop_assert_eq!(back, data);
            prop_assert_eq!(bytes, expected);
        }
    }
}
