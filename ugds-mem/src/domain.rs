//! One device's view of memory.
//!
//! UNSAFETY: asks the backend to map memory, and keeps that memory for the mapping's life.

#![allow(unsafe_code)]

use crate::lists::Lists;
use crate::mapped::Pages;
use crate::region::Memory;
use crate::{Mapped, MemError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use nvme_proto::PageSize;
use spin::Mutex;
use ugds_hal::{Backend, Direction, Dma, DomainId, Mapping, Source};

/// Maps memory for one controller: its backend, its page size, and whether it takes SGLs.
#[derive(Debug)]
pub struct Domain<B> {
    backend: Arc<B>,
    page: PageSize,
    sgl: bool,
    indices: Arc<Indices>,
}

impl<B: Backend> Domain<B> {
    /// Describes the controller behind `backend`, which runs with pages of `page` (`CC.MPS`). With `sgl`, contiguous
    /// memory is told by one SGL descriptor instead of PRPs.
    #[must_use]
    pub fn new(backend: Arc<B>, page: PageSize, sgl: bool) -> Self {
        Self { backend, page, sgl, indices: Arc::default() }
    }

    /// The address domain.
    #[must_use]
    pub fn id(&self) -> DomainId {
        self.backend.traits().domain
    }

    /// The controller's page.
    #[must_use]
    pub fn page(&self) -> PageSize {
        self.page
    }

    /// Maps memory of a region for reading and writing.
    pub(crate) fn map(&self, memory: &Arc<Memory>) -> Result<Arc<Mapped>, MemError> {
        let shared = memory.shared();
        let source = Source::Host { ptr: shared.as_ptr(), len_bytes: shared.len_bytes() };
        // SAFETY: `memory` goes into the same `Mapped` as the mapping, behind it in drop order, and the mapping's
        // `Arc` never leaves that value.
        let mapping = unsafe { self.backend.map(source, Direction::Both) }?;
        self.describe(mapping, Some(Arc::clone(memory)))
    }

    /// Describes memory that the backend allocated, such as a buffer for admin commands.
    ///
    /// # Errors
    ///
    /// [`MemError::Pages`] and [`MemError::AddressMask`]; the backend's, for the list pages.
    pub fn adopt(&self, memory: &Dma) -> Result<Arc<Mapped>, MemError> {
        self.describe(Arc::clone(memory.mapping()), None)
    }

    fn describe(&self, mapping: Arc<Mapping>, memory: Option<Arc<Memory>>) -> Result<Arc<Mapped>, MemError> {
        let traits = self.backend.traits();
        for extent in mapping.extents() {
            if extent.addr.0.saturating_add(extent.len_bytes - 1) & !traits.address_mask != 0 {
                return Err(MemError::AddressMask { addr: extent.addr, mask: traits.address_mask });
            }
        }
        // One descriptor tells a contiguous run whatever its alignment, so no pages are needed then.
        let descriptor = self.sgl.then(|| mapping.contiguous()).flatten();
        let pages = match descriptor {
            Some(_) => None,
            None => {
                let pages = Pages::new(&mapping, self.page)?;
                let lists = Lists::build(&*self.backend, &pages)?;
                Some((pages, lists))
            }
        };
        let index = Indices::take(&self.indices);
        Ok(Arc::new(Mapped::new(mapping, memory, pages, descriptor, index)))
    }
}

/// The numbers of this domain's mappings: small and dense, so that a queue can look one up in an array.
#[derive(Debug, Default)]
struct Indices {
    state: Mutex<IndexState>,
}

#[derive(Debug, Default)]
struct IndexState {
    free: Vec<u32>,
    next: u32,
}

/// A number that goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Index {
    value: u32,
    home: Arc<Indices>,
}

impl Indices {
    fn take(home: &Arc<Self>) -> Index {
        let mut state = home.state.lock();
        let value = state.free.pop().unwrap_or_else(|| {
            state.next += 1;
            state.next - 1
        });
        Index { value, home: Arc::clone(home) }
    }
}

impl Index {
    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.value
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.home.state.lock().free.push(self.value);
    }
}
