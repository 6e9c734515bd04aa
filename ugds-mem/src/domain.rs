//! One device's view of memory.
//!
//! UNSAFETY: asks the backend to map memory, and keeps that memory for the mapping's life.

#![allow(unsafe_code)]

use crate::lists::Lists;
use crate::mapped::Described;
use crate::pages::Pages;
use crate::region::Memory;
use crate::{Mapped, MemError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use nvme_proto::PageSize;
use nvme_proto::register::{Cc, Property};
use spin::Mutex;
use ugds_hal::{Backend, Direction, Dma, DomainId, HalError, Mapping};

/// Maps memory for one controller: its backend, its page size, and whether it takes SGLs.
#[derive(Debug)]
pub struct Domain<B> {
    backend: Arc<B>,
    page: PageSize,
    sgl: bool,
}

impl<B: Backend> Domain<B> {
    /// Describes the controller behind `backend`. With `sgl`, contiguous memory is told by one SGL descriptor instead
    /// of PRPs.
    ///
    /// The page is read from the controller itself (`CC.MPS`): lists laid out for another would be misread.
    ///
    /// # Errors
    ///
    /// [`MemError::Disabled`] when the controller is not enabled, since its page is not settled then.
    pub fn of_enabled(backend: Arc<B>, sgl: bool) -> Result<Self, MemError> {
        let cc = Cc::from_bits(backend.property_read(Property::CC)? as u32);
        if cc.into_bits() == u32::MAX {
            return Err(HalError::Gone { offset: Property::CC.offset() }.into());
        }
        if !cc.en() {
            return Err(MemError::Disabled);
        }
        Ok(Self { page: cc.page(), backend, sgl })
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

    pub(crate) fn backend(&self) -> &B {
        &self.backend
    }

    /// Maps memory of a region for reading and writing.
    pub(crate) fn map(&self, memory: &Arc<Memory>, listing: Listing) -> Result<Arc<Mapped>, MemError> {
        let source = memory.source()?;
        // SAFETY: `memory` goes into the same `Mapped` as the mapping, behind it in drop order, and the mapping's
        // `Arc` never leaves that value.
        let mapping = unsafe { self.backend.map(source, Direction::Both) }?;
        self.describe(mapping, Some(Arc::clone(memory)), listing)
    }

    /// Describes memory that the backend allocated.
    ///
    /// # Errors
    ///
    /// [`MemError::Pages`] and [`MemError::AddressMask`]; the backend's, for the list pages.
    pub fn adopt(&self, memory: &Dma) -> Result<Arc<Mapped>, MemError> {
        self.describe(Arc::clone(memory.mapping()), None, Listing::Beforehand)
    }

    fn describe(
        &self,
        mapping: Arc<Mapping>,
        memory: Option<Arc<Memory>>,
        listing: Listing,
    ) -> Result<Arc<Mapped>, MemError> {
        let traits = self.backend.traits();
        if mapping.domain() != traits.domain {
            return Err(MemError::ForeignMapping { mapping: mapping.domain(), domain: traits.domain });
        }
        for extent in mapping.extents() {
            if extent.addr.0.saturating_add(extent.len_bytes - 1) & !traits.address_mask != 0 {
                return Err(MemError::AddressMask { addr: extent.addr, mask: traits.address_mask });
            }
        }
        // One descriptor tells a contiguous run whatever its alignment, so no pages are needed then.
        let described = if self.sgl && mapping.contiguous().is_some() {
            Described::Descriptor
        } else {
            let pages = Pages::new(&mapping, self.page)?;
            let lists = match listing {
                Listing::Beforehand => Lists::build(&*self.backend, &pages)?,
                Listing::OnDemand => Lists::none(),
            };
            Described::Prp(pages, lists)
        };
        Ok(Arc::new(Mapped::new(mapping, memory, described, Index::take())))
    }
}

/// When the PRP lists of a mapping are built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listing {
    /// All of them, with the mapping.
    Beforehand,
    /// Each with its command.
    OnDemand,
}

impl Mapped {
    /// Describes a buffer within one page, for the data of admin commands: PRP1 alone tells it, whatever page the
    /// controller runs with.
    ///
    /// # Errors
    ///
    /// [`MemError::Pages`] when it is longer than 4 KiB, not contiguous, or crosses a multiple of 4 KiB.
    pub fn of_page(memory: &Dma) -> Result<Arc<Self>, MemError> {
        let mapping = Arc::clone(memory.mapping());
        let pages = Pages::new(&mapping, PageSize::MIN)?;
        if pages.count() != 1 {
            let addr = mapping.extents().first().map(|extent| extent.addr).unwrap_or_default();
            return Err(MemError::Pages { offset: 0, addr, page: PageSize::MIN });
        }
        Ok(Arc::new(Self::new(mapping, None, Described::Prp(pages, Lists::none()), Index::take())))
    }
}

/// The number of a mapping, unlike that of any other in this process, so that a queue can look it up in an array:
/// small, dense, and used again once it was dropped.
#[derive(Debug)]
pub(crate) struct Index(u32);

/// The numbers that came back, and the first that was never used.
static INDICES: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 0));

impl Index {
    fn take() -> Self {
        let (free, next) = &mut *INDICES.lock();
        Self(free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }

    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        INDICES.lock().0.push(self.0);
    }
}
