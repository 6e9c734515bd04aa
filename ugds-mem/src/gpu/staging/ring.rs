//! The ring behind the chunks: who has which, and what becomes of it when copies fail.
//!
//! UNSAFETY: frees, or does not free, what a copy engine may still use.

#![allow(unsafe_code)]

use super::StagingOptions;
use crate::bits::Bits;
use crate::gpu::{GpuError, Lane, Registration, Vendor};
use crate::{Memory, Region};
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr::NonNull;
use std::boxed::Box;
use std::string::ToString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Vec;
use ugds_hal::SharedMemory;

/// The chunks and the stream.
///
/// # Invariants
///
/// A chunk's number is in exactly one place: free, in a `Chunk` or `Copying`, or parked. One that is free has no copy
/// under way.
#[derive(Debug)]
pub(super) struct Ring {
    free: Bits,
    state: Mutex<State>,
    chunk_bytes: usize,
    /// The first byte of all.
    start: NonNull<u8>,
    // Dropped by hand: left alone if the GPU may still use them.
    lane: ManuallyDrop<Box<dyn Lane>>,
    memory: ManuallyDrop<Region>,
    near: ManuallyDrop<Option<Arc<Registration>>>,
    vendor: Arc<dyn Vendor>,
}

#[derive(Debug, Default)]
struct State {
    /// Chunks whose copies nobody waits for, with the GPU memory that they move.
    parked: Vec<(usize, Arc<Registration>)>,
    broken: Option<GpuError>,
}

// SAFETY: `start` is the address of `memory`, which belongs to no thread; everything else may be sent by itself.
unsafe impl Send for Ring {}
// SAFETY: as above; chunks are accessed by whoever has their number only.
unsafe impl Sync for Ring {}

impl Ring {
    pub(super) fn new(
        of: &Registration,
        near: Option<Arc<Registration>>,
        options: StagingOptions,
    ) -> Result<Arc<Self>, GpuError> {
        let StagingOptions { chunk_bytes, chunks } = options;
        let option = |what, value, accepted| GpuError::Option { what, value: value as u64, accepted };
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(4096) {
            return Err(option("a chunk of bytes", chunk_bytes, "a multiple of 4096"));
        }
        if !(1..=CHUNKS_MAX).contains(&chunks) {
            return Err(option("a number of chunks of", chunks, "1 to 4096"));
        }
        let Some(len_bytes) = chunk_bytes.checked_mul(chunks).filter(|len| *len <= isize::MAX as usize)
        else {
            return Err(option("a chunk of bytes", chunk_bytes, "what fits in the memory"));
        };
        let pinned = |reason| GpuError::Pinned { len_bytes, reason };
        let memory = of.vendor().pin(of.pointer(), len_bytes)?;
        let start = memory.host().filter(|host| host.len_bytes() == len_bytes).map(SharedMemory::as_ptr);
        let start = start.ok_or_else(|| pinned("it is of another length".into()))?;
        // The region may be kept by others for longer than the ring: then it keeps the context in which it is freed.
        let memory = match &near {
            // SAFETY: `memory`, which goes along, keeps the bytes, and nobody else has it.
            Some(near) => unsafe { Memory::owned(start, len_bytes, Box::new((memory, Arc::clone(near)))) },
            None => memory,
        };
        let memory = Region::new(memory).map_err(|error| pinned(error.to_string()))?;
        let lane = of.vendor().lane(of.pointer(), chunks)?;
        // INVARIANT: all are free, and no copy has begun.
        Ok(Arc::new(Self {
            free: Bits::set(chunks),
            state: Mutex::default(),
            chunk_bytes,
            start,
            lane: ManuallyDrop::new(lane),
            memory: ManuallyDrop::new(memory),
            near: ManuallyDrop::new(near),
            vendor: Arc::clone(of.vendor()),
        }))
    }

    pub(super) fn memory(&self) -> &Region {
        &self.memory
    }

    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    pub(super) fn lane(&self) -> &dyn Lane {
        &**self.lane
    }

    pub(super) fn vendor(&self) -> &Arc<dyn Vendor> {
        &self.vendor
    }

    pub(super) fn range(&self, index: usize) -> Range<usize> {
        index * self.chunk_bytes..(index + 1) * self.chunk_bytes
    }

    /// The first byte of a chunk.
    pub(super) fn ptr(&self, index: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(index * self.chunk_bytes)
    }

    pub(super) fn check(&self, index: usize, offset: usize, len_bytes: usize) -> Result<(), GpuError> {
        match offset.checked_add(len_bytes) {
            Some(end) if end <= self.chunk_bytes => Ok(()),
            _ => {
                let start = (self.memory.address() + self.range(index).start) as u64;
                Err(GpuError::Range {
                    address: start.saturating_add(offset as u64),
                    len_bytes: len_bytes as u64,
                    limit_address: start,
                    limit_bytes: self.chunk_bytes as u64,
                })
            }
        }
    }

    pub(super) fn read(&self, index: usize, offset: usize, to: &mut [u8]) -> Result<(), GpuError> {
        self.check(index, offset, to.len())?;
        let copied = self.memory.copy_out(self.range(index).start + offset, to);
        copied.map_err(|error| GpuError::Pinned { len_bytes: to.len(), reason: error.to_string() })
    }

    pub(super) fn write(&self, index: usize, offset: usize, from: &[u8]) -> Result<(), GpuError> {
        self.check(index, offset, from.len())?;
        let copied = self.memory.copy_in(self.range(index).start + offset, from);
        copied.map_err(|error| GpuError::Pinned { len_bytes: from.len(), reason: error.to_string() })
    }

    pub(super) fn take(&self) -> Option<usize> {
        self.free.take().or_else(|| {
            self.reclaim(&mut self.state());
            self.free.take()
        })
    }

    /// Takes a chunk back that nothing uses.
    pub(super) fn give_back(&self, index: usize) {
        // INVARIANT: a `Chunk` has no copy under way.
        self.free.give_back(index);
    }

    /// Takes a chunk back whose copy may still be under way.
    pub(super) fn park(&self, index: usize, gpu: Arc<Registration>) {
        self.state().parked.push((index, gpu));
    }

    /// No copy is begun any more, and what is parked is never used again.
    pub(super) fn breaks(&self, error: &GpuError) {
        self.state().broken.get_or_insert_with(|| GpuError::Broken { reason: error.to_string() });
    }

    pub(super) fn broken(&self) -> Option<GpuError> {
        self.state().broken.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees parked chunks whose copies are done.
    fn reclaim(&self, state: &mut State) {
        let State { parked, broken } = state;
        if broken.is_some() {
            return;
        }
        parked.retain(|(index, _)| match self.lane.is_done(*index) {
            Ok(true) => {
                // INVARIANT: its copy is done.
                self.free.give_back(*index);
                false
            }
            Ok(false) => true,
            Err(error) => {
                broken.get_or_insert(GpuError::Broken { reason: error.to_string() });
                true
            }
        });
    }

    /// Whether no copy is under way, after at most [`SETTLE`].
    fn settles(&self) -> bool {
        let start = Instant::now();
        loop {
            let mut state = self.state();
            self.reclaim(&mut state);
            if state.parked.is_empty() {
                return state.broken.is_none();
            }
            if state.broken.is_some() || start.elapsed() > SETTLE {
                return false;
            }
            drop(state);
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Memory that a copy engine may still write to is not given back, nor is the stream that might tell. Nor is
        // the GPU's memory: what is parked is forgotten, so its owner is never told that it may free it.
        if !self.settles() {
            core::mem::forget(core::mem::take(&mut self.state().parked));
            return;
        }
        // SAFETY: each is dropped here only, and not used after: this is the drop of what holds them.
        unsafe {
            ManuallyDrop::drop(&mut self.lane);
            ManuallyDrop::drop(&mut self.memory);
            ManuallyDrop::drop(&mut self.near);
        }
    }
}

const CHUNKS_MAX: usize = 4096;
/// How long a dropped ring waits for copies that nobody waited for. Those of all chunks take milliseconds.
const SETTLE: Duration = Duration::from_secs(2);
