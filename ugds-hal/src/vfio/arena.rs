//! Memory for rings, lists and command data, in few large mappings.
//!
//! A container holds at most 65,535 mappings, and each costs the IOMMU work. So small pieces are cut from chunks.
//!
//! UNSAFETY: maps anonymous memory and has VFIO map it for the device.

#![allow(unsafe_code)]

use super::container::Container;
use crate::memory::SharedMemory;
use crate::{Direction, Dma, DomainId, Extent, HalError, Layout, Mapping};
use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nvme_proto::BusAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The chunks of one direction.
#[derive(Debug)]
pub(super) struct Arena {
    direction: Direction,
    hugepages: bool,
    chunks: Mutex<Vec<Weak<Chunk>>>,
}

impl Arena {
    pub(super) fn new(direction: Direction, hugepages: bool) -> Self {
        Self { direction, hugepages, chunks: Mutex::default() }
    }

    /// Cuts a zeroed piece from a chunk with room, or from a new one.
    pub(super) fn take(
        &self,
        container: &Arc<Container>,
        domain: DomainId,
        need: Layout,
    ) -> Result<Dma, HalError> {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.retain(|chunk| chunk.strong_count() != 0);
        let piece = match chunks.iter().filter_map(Weak::upgrade).find_map(|chunk| Piece::cut(&chunk, need)) {
            Some(piece) => piece,
            None => {
                let chunk = Arc::new(Chunk::map(container, self.direction, self.hugepages, need)?);
                chunks.push(Arc::downgrade(&chunk));
                Piece::cut(&chunk, need).ok_or_else(|| refused(need, "the chunk made for it is too small"))?
            }
        };
        piece.into_dma(need, self.direction, domain)
    }
}

/// One run of memory mapped for the device.
///
/// # Invariants
///
/// `base` is one `mmap` of `len_bytes` bytes, which VFIO has mapped at `iova`.
#[derive(Debug)]
struct Chunk {
    base: NonNull<c_void>,
    len_bytes: usize,
    iova: u64,
    free: Mutex<FreeList>,
    container: Arc<Container>,
}

// SAFETY: the memory belongs to no thread, and pieces of it do not overlap.
unsafe impl Send for Chunk {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn map(
        container: &Arc<Container>,
        direction: Direction,
        hugepages: bool,
        need: Layout,
    ) -> Result<Self, HalError> {
        // The chunk begins at any page, so the alignment may cost that much.
        let slack = need.align_bytes.saturating_sub(PAGE);
        let wanted =
            need.len_bytes.checked_add(slack).and_then(|bytes| bytes.checked_next_multiple_of(CHUNK));
        let length = wanted.and_then(NonZeroUsize::new).ok_or_else(|| refused(need, "it is too large"))?;
        let base = anonymous(length, hugepages).map_err(|errno| refused(need, errno.desc()))?;
        // SAFETY: the memory is ours until `drop`, which unmaps it from the device first.
        match unsafe { container.map(base.cast(), length.get() as u64, direction) } {
            Ok(iova) => Ok(Self {
                base,
                len_bytes: length.get(),
                iova,
                free: Mutex::new(FreeList::new(length.get())),
                container: Arc::clone(container),
            }),
            Err(error) => {
                // SAFETY: just mapped, and known to nobody.
                let _ = unsafe { munmap(base, length.get()) };
                Err(error)
            }
        }
    }

    fn free(&self) -> MutexGuard<'_, FreeList> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // Memory that the device may still reach is leaked rather than freed.
        if self.container.is_ours() && self.container.unmap(self.iova, self.len_bytes as u64).is_ok() {
            // SAFETY: exactly what was mapped (type invariant); its pieces held the chunk, so there are none.
            let _ = unsafe { munmap(self.base, self.len_bytes) };
        }
    }
}

fn anonymous(length: NonZeroUsize, hugepages: bool) -> Result<NonNull<c_void>, nix::errno::Errno> {
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let plain = MapFlags::MAP_PRIVATE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let map = |flags| unsafe { mmap_anonymous(None, length, protection, flags) };
    if hugepages
        && let Ok(base) = map(plain | MapFlags::MAP_HUGETLB | MapFlags::MAP_HUGE_2MB | MapFlags::MAP_POPULATE)
    {
        return Ok(base);
    }
    map(plain)
}

/// A part of a chunk, given back on drop.
#[derive(Debug)]
struct Piece {
    chunk: Arc<Chunk>,
    offset: usize,
    len_bytes: usize,
}

impl Piece {
    fn cut(chunk: &Arc<Chunk>, need: Layout) -> Option<Self> {
        let len_bytes = need.len_bytes.checked_next_multiple_of(PAGE)?;
        // Offsets count from the bus address; host and bus are equal modulo the chunk.
        let offset = chunk.free().take(len_bytes, need.align_bytes.max(PAGE), chunk.iova as usize)?;
        Some(Self { chunk: Arc::clone(chunk), offset, len_bytes })
    }

    fn into_dma(self, need: Layout, direction: Direction, domain: DomainId) -> Result<Dma, HalError> {
        // SAFETY: the piece lies in the chunk.
        let ptr = unsafe { self.chunk.base.cast::<u8>().byte_add(self.offset) };
        // SAFETY: mapped as long as the piece, and its alone.
        let memory = unsafe { SharedMemory::new(ptr, self.len_bytes) };
        // A piece that was used before holds what it held.
        memory.fill(0, self.len_bytes, 0).map_err(|error| refused(need, &error.to_string()))?;
        let addr = BusAddr(self.chunk.iova + self.offset as u64);
        let extents = Box::new([Extent { addr, len_bytes: need.len_bytes as u64 }]);
        // SAFETY: the device reaches the piece there until `self`, the release, is dropped.
        let mapping = unsafe { Mapping::new(extents, direction, domain, Box::new(self)) };
        // SAFETY: the mapping holds the piece, zeroed just now, and nobody else has it.
        Ok(unsafe { Dma::new(ptr, Arc::new(mapping)) })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.chunk.free().give_back(self.offset, self.len_bytes);
    }
}

/// The free runs of a chunk, by offset, never touching each other.
#[derive(Debug)]
struct FreeList {
    runs: BTreeMap<usize, usize>,
}

impl FreeList {
    fn new(len: usize) -> Self {
        Self { runs: BTreeMap::from([(0, len)]) }
    }

    /// Takes the first run of `len` bytes whose offset from `base` is a multiple of `align`, a power of two.
    fn take(&mut self, len: usize, align: usize, base: usize) -> Option<usize> {
        let (run, size, at) = self.runs.iter().find_map(|(&run, &size)| {
            let at = run + (base.wrapping_add(run).wrapping_neg() & (align - 1));
            (at.checked_add(len)? <= run + size).then_some((run, size, at))
        })?;
        self.runs.remove(&run);
        if at > run {
            self.runs.insert(run, at - run);
        }
        if at + len < run + size {
            self.runs.insert(at + len, run + size - at - len);
        }
        Some(at)
    }

    fn give_back(&mut self, at: usize, len: usize) {
        let (mut start, mut end) = (at, at + len);
        if let Some(size) = self.runs.remove(&end) {
            end += size;
        }
        if let Some((&run, &size)) = self.runs.range(..start).next_back()
            && run + size == start
        {
            start = run;
        }
        self.runs.insert(start, end - start);
    }
}

fn refused(need: Layout, reason: &str) -> HalError {
    HalError::Memory { len_bytes: need.len_bytes, align_bytes: need.align_bytes, reason: reason.into() }
}

/// A huge page.
const CHUNK: usize = 2 << 20;
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_never_overlap_and_all_comes_back(
            base in (0usize..1000).prop_map(|page| page * PAGE),
            steps in proptest::collection::vec((1usize..20, 12u32..17, any::<u8>(), any::<bool>()), 1..300),
        ) {
            let mut list = FreeList::new(CHUNK);
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (pages, shift, pick, free) in steps {
                if free && !live.is_empty() {
                    let (at, len) = live.swap_remove(usize::from(pick) % live.len());
                    list.give_back(at, len);
                } else if let Some(at) = list.take(pages * PAGE, 1 << shift, base) {
                    prop_assert_eq!((base + at) % (1 << shift), 0);
                    prop_assert!(at + pages * PAGE <= CHUNK);
                    prop_assert!(live.iter().all(|(a, l)| at >= a + l || at + pages * PAGE <= *a));
                    live.push((at, pages * PAGE));
                }
            }
            live.into_iter().for_each(|(at, len)| list.give_back(at, len));
            prop_assert_eq!(list.runs, BTreeMap::from([(0, CHUNK)]));
        }
    }
}
