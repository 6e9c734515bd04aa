//! Doorbells, and their shadows in memory.
//!
//! UNSAFETY: frees shadow pages by hand, once the device is proved to have stopped.

#![allow(unsafe_code)]

use crate::memory::{Dma, SharedMemory};
use crate::order;
use crate::{Backend, Direction, Era, HalError, Layout, Stopped};
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use nvme_proto::register::DoorbellKind;
use nvme_proto::{BusAddr, PageSize, Qid, dbbuf};

/// One doorbell register: a store to a mapped BAR, or the trap of a model.
///
/// # Implementation safety
///
/// A write becomes visible to the device after every store that the caller made before.
pub trait Doorbell: Send {
    /// Tells the device the new tail of a submission queue, or the new head of a completion queue.
    fn write(&self, value: u32);
}

/// The shadow doorbells and event indices of one controller, for Doorbell Buffer Config.
///
/// The controller uses them until it is reset. So they are leaked when they are dropped, unless
/// [`release`](Self::release) has seen the proof of a stop.
#[derive(Debug)]
pub struct ShadowPages {
    shadow: ManuallyDrop<Dma>,
    event_index: ManuallyDrop<Dma>,
    doorbell_stride: u8,
    era: Era,
    released: AtomicBool,
}

impl ShadowPages {
    /// Allocates both buffers, one page each, zeroed. `doorbell_stride` is `CAP.DSTRD`.
    ///
    /// # Errors
    ///
    /// The backend's.
    pub fn allocate<B: Backend + ?Sized>(
        backend: &B,
        page: PageSize,
        doorbell_stride: u8,
    ) -> Result<Self, HalError> {
        let bytes = usize::try_from(page.bytes()).unwrap_or(usize::MAX);
        let layout = |direction| Layout { len_bytes: bytes, align_bytes: bytes, direction };
        // The device should only read the shadows, but QEMU's stores its own positions there first.
        let shadow = backend.memory(layout(Direction::Both))?;
        // Only when both are there is anything to leak: the device knows of neither yet.
        let event_index = backend.memory(layout(Direction::DeviceWrites))?;
        Ok(Self {
            shadow: ManuallyDrop::new(shadow),
            event_index: ManuallyDrop::new(event_index),
            doorbell_stride,
            era: backend.traits().era(),
            released: AtomicBool::new(false),
        })
    }

    /// Lets the pages be freed with their last user. A proof that does not cover them changes nothing.
    pub fn release(&self, proof: &Stopped) {
        if proof.covers(self.era) {
            // Relaxed: the last drop of the `Arc` around the pages orders it.
            self.released.store(true, Ordering::Relaxed);
        }
    }

    /// The bus addresses of the shadow and of the event index buffer, for the command's PRP1 and PRP2.
    #[must_use]
    pub fn addresses(&self) -> Option<(BusAddr, BusAddr)> {
        Some((self.shadow.mapping().contiguous()?, self.event_index.mapping().contiguous()?))
    }

    fn entry(&self, qid: Qid, kind: DoorbellKind) -> Option<usize> {
        usize::try_from(dbbuf::entry_offset(qid, kind, self.doorbell_stride)).ok()
    }
}

impl Drop for ShadowPages {
    fn drop(&mut self) {
        if *self.released.get_mut() {
            // SAFETY: this is the only place that drops them, and nothing uses them afterwards.
            unsafe { ManuallyDrop::drop(&mut self.shadow) };
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut self.event_index) };
        }
    }
}

/// A doorbell with its shadow, where the controller has been given one.
#[derive(Debug)]
pub(super) struct Bell<D> {
    register: D,
    shadow: Option<Shadow>,
}

impl<D: Doorbell> Bell<D> {
    /// Joins a doorbell register with its entries in `pages`. A queue whose entries lie beyond the page has none.
    pub(super) fn new(register: D, pages: Option<Arc<ShadowPages>>, qid: Qid, kind: DoorbellKind) -> Self {
        Self { register, shadow: pages.and_then(|pages| Shadow::new(pages, qid, kind)) }
    }

    /// Publishes `value`, by the register unless the device asked not to be told.
    #[inline]
    pub(super) fn write(&mut self, value: u16) {
        order::before_doorbell();
        if self.shadow.is_some() {
            return self.write_shadow(value);
        }
        self.register.write(u32::from(value));
    }

    /// Out of line, since few controllers offer shadows.
    #[inline(never)]
    fn write_shadow(&mut self, value: u16) {
        if self.shadow.as_mut().is_none_or(|shadow| shadow.store(value)) {
            self.register.write(u32::from(value));
        }
    }
}

#[derive(Debug)]
struct Shadow {
    pages: Arc<ShadowPages>,
    offset: usize,
    last: u16,
}

impl Shadow {
    fn new(pages: Arc<ShadowPages>, qid: Qid, kind: DoorbellKind) -> Option<Self> {
        let offset = pages.entry(qid, kind)?;
        // A queue identifier that is used again must not meet the values of its last life.
        word(pages.shadow.shared(), offset)?.store(0, Ordering::Relaxed);
        word(pages.event_index.shared(), offset)?.store(0, Ordering::Relaxed);
        Some(Self { pages, offset, last: 0 })
    }

    /// Stores the shadow and says whether the register must be written too.
    fn store(&mut self, value: u16) -> bool {
        let (Some(shadow), Some(event_index)) = (
            word(self.pages.shadow.shared(), self.offset),
            word(self.pages.event_index.shared(), self.offset),
        ) else {
            return true;
        };
        // Release: the device that sees the new value must see the entries behind it.
        shadow.store(u32::from(value).to_le(), Ordering::Release);
        order::between_shadow_and_event_index();
        // Relaxed: ordered by the fence; a stale value only costs a doorbell.
        let event = u32::from_le(event_index.load(Ordering::Relaxed)) as u16;
        let last = core::mem::replace(&mut self.last, value);
        dbbuf::need_doorbell(event, value, last)
    }
}

fn word(memory: &SharedMemory, offset: usize) -> Option<&AtomicU32> {
    memory.word(offset)
}
