//! Memory of our own, and foreign memory, put into the map.
//!
//! UNSAFETY: allocates memory, and vouches that a mapping reaches it until it is taken away.

#![allow(unsafe_code)]

use super::DmaMap;
use super::region::Region;
use crate::{Direction, Dma, HalError, Layout, Mapping, SharedMemory};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::alloc;
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
    let mapping = insert(map, region, layout.align() as u64, Some(owned))
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
    let region = match &map.scatter {
        None => Region::whole(memory, direction),
        Some((piece, draws)) => {
            // Relaxed: only the number matters.
            let seed = draws.fetch_add(1, Ordering::Relaxed);
            Region::pieces(memory, direction, *piece, seed)
                .ok_or_else(|| refused("there are too many pieces"))?
        }
    };
    insert(map, region, 1, None).ok_or_else(|| refused("no bus addresses are left"))
}

fn insert(map: &Arc<DmaMap>, region: Region, align: u64, owned: Option<Owned>) -> Option<Arc<Mapping>> {
    let direction = region.direction;
    let host = region.memory.as_ptr().addr().get() as u64;
    // The first slot of a scattered window begins a piece, so the window itself begins at an aligned address.
    let host = if map.scatter.is_some() && owned.is_none() { 0 } else { host };
    let base = map.take_addresses(host, region.window_bytes(), align)?;
    let extents = region.extents(base);
    map.insert(base, region);
    let release = Box::new(Unmap { map: Arc::clone(map), base, _owned: owned });
    // SAFETY: the map now leads accesses at `extents` to this memory, and does so until `release` is dropped.
    Some(Arc::new(unsafe { Mapping::new(extents, direction, map.domain, release) }))
}

/// Takes a mapping from the device, then frees the memory if it is ours: fields are dropped after `drop`.
struct Unmap {
    map: Arc<DmaMap>,
    base: u64,
    _owned: Option<Owned>,
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
