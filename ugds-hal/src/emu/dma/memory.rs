//! Memory of our own, and foreign memory, put into the map.
//!
//! UNSAFETY: allocates memory, maps pages of descriptors, and vouches that a mapping reaches it until it is taken away.

#![allow(unsafe_code)]

use super::DmaMap;
use super::region::Region;
use crate::{Direction, Dma, HalError, Layout, Mapping, SharedMemory};
use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::{Whence, lseek};
use std::alloc;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Allocates zeroed memory and maps it as one run of bus addresses.
pub(in crate::emu) fn allocate(map: &Arc<DmaMap>, need: Layout) -> Result<Dma, HalError> {
    let refused = |reason: &str| HalError::Memory {
        len_bytes: need.len_bytes,
        align_bytes: need.align_bytes,
        reason: reason.to_owned(),
    };
    if need.len_bytes == 0 || !need.align_bytes.is_power_of_two() {
        return Err(refused("at least one byte, and a power of two as alignment, is accepted"));
    }
    let layout = alloc::Layout::from_size_align(need.len_bytes, need.align_bytes.max(HOST_PAGE_BYTES))
        .map_err(|_| refused("the length is out of reach"))?;
    let owned = Owned::new(layout).ok_or_else(|| refused("the allocator has none"))?;
    let ptr = owned.ptr;
    // SAFETY: `owned` is valid for its whole length, and it outlives the region: `Unmap` drops the region first.
    let memory = unsafe { SharedMemory::new(ptr, need.len_bytes) };
    let region = Region::whole(memory, need.direction);
    let mapping = insert(map, region, layout.align() as u64, Backing::Ours(owned))
        .ok_or_else(|| refused("no bus addresses are left"))?;
    // SAFETY: the mapping was just made for this memory, which is zeroed and freed with it; nobody else knows it.
    Ok(unsafe { Dma::new(ptr, mapping) })
}

/// Maps memory that belongs to somebody else.
///
/// # Safety
///
/// The memory stays allocated until the returned mapping is gone.
pub(in crate::emu) unsafe fn map_host(
    map: &Arc<DmaMap>,
    ptr: NonNull<u8>,
    len_bytes: usize,
    direction: Direction,
) -> Result<Arc<Mapping>, HalError> {
    let refused =
        |reason: &str| HalError::Map { address: ptr.addr().get(), len_bytes, reason: reason.to_owned() };
    if len_bytes == 0 || ptr.addr().get().checked_add(len_bytes).is_none() {
        return Err(refused("the length is 0 or wraps around; at least one byte is accepted"));
    }
    // SAFETY: the caller keeps the memory valid until the mapping is gone, and the region goes with the mapping.
    let memory = unsafe { SharedMemory::new(ptr, len_bytes) };
    foreign(map, memory, direction, Backing::Elsewhere).map_err(refused)
}

/// Maps memory behind a descriptor, if it can be mapped into this process: the model has no other way to it.
///
/// # Safety
///
/// The descriptor is open now, and its memory does not shrink until the returned mapping is gone.
pub(in crate::emu) unsafe fn map_dmabuf(
    map: &Arc<DmaMap>,
    fd: i32,
    offset: u64,
    len_bytes: u64,
    direction: Direction,
) -> Result<Arc<Mapping>, HalError> {
    let refused = |reason: &str| HalError::Map {
        address: offset as usize,
        len_bytes: len_bytes as usize,
        reason: format!("the DMA-buf {reason}"),
    };
    // SAFETY: the caller's promise.
    let (ptr, view) = unsafe { View::of(fd, offset, len_bytes) }.map_err(|reason| refused(&reason))?;
    // SAFETY: `view` keeps the pages mapped, and goes after the region: `Unmap` drops the region first.
    let memory = unsafe { SharedMemory::new(ptr, len_bytes as usize) };
    foreign(map, memory, direction, Backing::View(view)).map_err(refused)
}

/// Maps memory that is not the model's, in one run or in pieces as the model is made.
fn foreign(
    map: &Arc<DmaMap>,
    memory: SharedMemory,
    direction: Direction,
    backing: Backing,
) -> Result<Arc<Mapping>, &'static str> {
    let region = match &map.scatter {
        None => Region::whole(memory, direction),
        Some((piece, draws)) => {
            // Relaxed: only the number matters.
            let seed = draws.fetch_add(1, Ordering::Relaxed);
            Region::pieces(memory, direction, *piece, seed).ok_or("is of too many pieces")?
        }
    };
    insert(map, region, 1, backing).ok_or("finds no bus addresses left")
}

fn insert(map: &Arc<DmaMap>, region: Region, align: u64, backing: Backing) -> Option<Arc<Mapping>> {
    let direction = region.direction;
    let host = region.memory.as_ptr().addr().get() as u64;
    // The first slot of a scattered window begins a piece, so the window itself begins at an aligned address.
    let is_ours = matches!(backing, Backing::Ours(_));
    let host = if map.scatter.is_some() && !is_ours { 0 } else { host };
    let base = map.take_addresses(host, region.window_bytes(), align)?;
    let extents = region.extents(base);
    map.insert(base, region);
    let release = Box::new(Unmap { map: Arc::clone(map), base, _backing: backing });
    // SAFETY: the map now leads accesses at `extents` to this memory, and does so until `release` is dropped.
    Some(Arc::new(unsafe { Mapping::new(extents, direction, map.domain, release) }))
}

/// Takes a mapping from the device, then frees the memory if it is ours: fields are dropped after `drop`.
struct Unmap {
    map: Arc<DmaMap>,
    base: u64,
    _backing: Backing,
}

/// Where the memory comes from.
enum Backing {
    /// The model allocated it.
    Ours(#[expect(dead_code, reason = "it frees the memory when it is dropped")] Owned),
    /// Pages behind a descriptor.
    View(#[expect(dead_code, reason = "it unmaps the pages when it is dropped")] View),
    /// Somebody else's.
    Elsewhere,
}

/// Pages of a descriptor, in this process.
///
/// # Invariants
///
/// `start` and `len_bytes` are those of one `mmap` that belongs to this value alone.
struct View {
    start: NonNull<c_void>,
    len_bytes: usize,
}

// SAFETY: the pages belong to no thread.
unsafe impl Send for View {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for View {}

impl View {
    /// The pages around `len_bytes` at `offset`, and where those begin.
    ///
    /// # Safety
    ///
    /// The descriptor is open.
    unsafe fn of(fd: i32, offset: u64, len_bytes: u64) -> Result<(NonNull<u8>, Self), String> {
        // SAFETY: the caller's promise; it is not closed here.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let size = lseek(fd, 0, Whence::SeekEnd).map_err(|errno| format!("has no size: {}", errno.desc()))?;
        // Beyond its end, an access would be a signal.
        if offset.checked_add(len_bytes).is_none_or(|end| end > size as u64) {
            return Err(format!("has {size} bytes; {len_bytes} at offset {offset} are none of them"));
        }
        let lead = offset % HOST_PAGE_BYTES as u64;
        let mapped = usize::try_from(lead + len_bytes).ok().and_then(NonZeroUsize::new);
        let mapped = mapped.filter(|_| len_bytes > 0).ok_or("is of a length that can't be mapped")?;
        let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let start = (offset - lead) as i64;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap(None, mapped, both, MapFlags::MAP_SHARED, fd, start) }.map_err(|_| {
            // A vendor's driver may answer numbers that no list has: 524.
            let error = std::io::Error::last_os_error();
            format!("can't be mapped into this process: {error}")
        })?;
        // SAFETY: less than a page into pages that were just mapped.
        let ptr = unsafe { start.cast::<u8>().byte_add(lead as usize) };
        // INVARIANT: just mapped.
        Ok((ptr, Self { start, len_bytes: mapped.get() }))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: type invariant; nobody uses the pages any more, since the mapping is gone.
        let unmapped = unsafe { munmap(self.start, self.len_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping failed");
    }
}

impl Drop for Unmap {
    fn drop(&mut self) {
        self.map.remove(self.base);
    }
}

/// Zeroed memory.
///
/// # Invariants
///
/// `ptr` came from the global allocator with `layout`, whose size is not 0.
struct Owned {
    ptr: NonNull<u8>,
    layout: alloc::Layout,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Owned {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Owned {}

impl Owned {
    fn new(layout: alloc::Layout) -> Option<Self> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the size is not 0.
        let ptr = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        // INVARIANT: just allocated with this layout.
        Some(Self { ptr, layout })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: type invariant; nobody uses the memory any more, since the mapping is gone.
        unsafe { alloc::dealloc(self.ptr.as_ptr(), self.layout) };
    }
}

/// "At least a page is given": the smallest page of a controller, too.
const HOST_PAGE_BYTES: usize = 4096;
