//! A region: one piece of memory that data moves to and from.
//!
//! UNSAFETY: takes raw pointers from callers, who promise that the memory lasts.

#![allow(unsafe_code)]

use crate::domain::Listing;
use crate::{Domain, Mapped, MemError};
#[cfg(feature = "std")]
use crate::{
    dmabuf::Export,
    gpu::{Path, Registration},
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use spin::Mutex;
#[cfg(feature = "std")]
use std::{os::fd::AsRawFd, string::ToString};
use ugds_hal::{Backend, DomainId, SharedMemory, Source};

/// The identity of one registration. It is never used again, even when the same address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    pub(crate) const MIN: Self = Self(0);
    pub(crate) const MAX: Self = Self(u64::MAX);

    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the number only has to be unique, and 64 bits do not wrap.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The token as a number, for interfaces that have no types.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Memory together with whatever keeps it allocated.
pub struct Memory {
    place: Place,
}

enum Place {
    /// Memory of this process.
    Host {
        shared: SharedMemory,
        /// The owner of the memory; nothing when the caller of [`Memory::foreign`] is.
        _owner: Option<Box<dyn Any + Send + Sync>>,
    },
    /// Memory of a GPU.
    #[cfg(feature = "std")]
    Gpu(Arc<Registration>),
}

impl Memory {
    /// Takes host memory that `owner` keeps allocated.
    ///
    /// # Safety
    ///
    /// The `len_bytes` bytes at `ptr` are valid until `owner` is dropped, and nothing else accesses them.
    #[must_use]
    pub unsafe fn owned(ptr: NonNull<u8>, len_bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        // SAFETY: the caller's promise; `_owner` lives as long as `shared`.
        let shared = unsafe { SharedMemory::new(ptr, len_bytes) };
        Self { place: Place::Host { shared, _owner: Some(owner) } }
    }

    /// Takes host memory that somebody else allocated and will free.
    ///
    /// # Safety
    ///
    /// The `len_bytes` bytes at `ptr` stay allocated until this value is dropped, which is when the region made of
    /// it and all its mappings are gone. Whoever else accesses them does it atomically, or while neither a copy through
    /// this value nor a transfer is under way.
    #[must_use]
    pub unsafe fn foreign(ptr: NonNull<u8>, len_bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        let shared = unsafe { SharedMemory::new(ptr, len_bytes) };
        Self { place: Place::Host { shared, _owner: None } }
    }

    /// Takes memory of a GPU, for as long as it is registered.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn gpu(registration: Arc<Registration>) -> Self {
        Self { place: Place::Gpu(registration) }
    }

    /// The bytes, if they are the host's.
    #[must_use]
    pub fn host(&self) -> Option<&SharedMemory> {
        match &self.place {
            Place::Host { shared, .. } => Some(shared),
            #[cfg(feature = "std")]
            Place::Gpu(_) => None,
        }
    }

    /// The address of the first byte: the host's, or the GPU's.
    #[must_use]
    pub fn address(&self) -> usize {
        match &self.place {
            Place::Host { shared, .. } => shared.as_ptr().addr().get(),
            #[cfg(feature = "std")]
            Place::Gpu(registration) => registration.address() as usize,
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match &self.place {
            Place::Host { shared, .. } => shared.len_bytes(),
            #[cfg(feature = "std")]
            Place::Gpu(registration) => registration.len_bytes(),
        }
    }

    /// What a backend maps.
    ///
    /// # Errors
    ///
    /// [`MemError::Staged`] for memory that no device can be given.
    pub(crate) fn source(&self) -> Result<Source, MemError> {
        match &self.place {
            Place::Host { shared, .. } => {
                Ok(Source::Host { ptr: shared.as_ptr(), len_bytes: shared.len_bytes() })
            }
            #[cfg(feature = "std")]
            Place::Gpu(registration) => match registration.path() {
                Path::Direct(dmabuf) => Ok(Source::DmaBuf {
                    fd: dmabuf.fd().as_raw_fd(),
                    offset: dmabuf.offset(),
                    len_bytes: dmabuf.len_bytes(),
                }),
                Path::Staged(why) => Err(MemError::Staged(why.clone().into())),
            },
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("address", &self.address())
            .field("len_bytes", &self.len_bytes())
            .finish_non_exhaustive()
    }
}

/// A piece of registered memory. Clones are the same region.
///
/// DMA memory is never borrowed: data goes in and out by copying, so nothing the device writes can be seen through a
/// reference. The region keeps its memory allocated, and each mapping of it keeps the memory too.
#[derive(Clone, Debug)]
pub struct Region {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped before `memory`: a mapping must go before what it maps. (Each `Mapped` holds the memory as well.)
    mapped: Mutex<Vec<Arc<Mapped>>>,
    memory: Arc<Memory>,
    token: Token,
    /// Exports and RDMA registrations of it.
    holds: AtomicUsize,
}

impl Region {
    /// Makes a region of `memory`, mapped for no device yet.
    ///
    /// # Errors
    ///
    /// [`MemError::Misaligned`] when it does not start at a multiple of four bytes, [`MemError::RegionLength`] when it
    /// is empty.
    pub fn new(memory: Memory) -> Result<Self, MemError> {
        let address = memory.address();
        if !address.is_multiple_of(4) {
            return Err(MemError::Misaligned { address });
        }
        if memory.len_bytes() == 0 {
            return Err(MemError::RegionLength { len_bytes: 0 });
        }
        let (memory, holds) = (Arc::new(memory), AtomicUsize::new(0));
        let inner = Inner { mapped: Mutex::default(), memory, token: Token::fresh(), holds };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The registration's identity.
    #[must_use]
    pub fn token(&self) -> Token {
        self.inner.token
    }

    /// The address of the first byte, as a key; following it is up to who registered the memory.
    #[must_use]
    pub fn address(&self) -> usize {
        self.inner.memory.address()
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.inner.memory.len_bytes()
    }

    /// Maps the region for a device, or returns the mapping it already has there.
    ///
    /// # Errors
    ///
    /// The backend's, or [`MemError::Pages`] when the addresses do not fit the controller.
    pub fn attach<B: Backend>(&self, domain: &Domain<B>) -> Result<Arc<Mapped>, MemError> {
        self.attach_with(domain, Listing::Beforehand)
    }

    /// Maps the region for a device without building lists for it: a transfer of more than two pages then needs a page
    /// of a [`ListPool`](crate::ListPool). A mapping that the region already has there is returned as it is.
    ///
    /// # Errors
    ///
    /// As [`attach`](Self::attach).
    pub fn attach_unlisted<B: Backend>(&self, domain: &Domain<B>) -> Result<Arc<Mapped>, MemError> {
        self.attach_with(domain, Listing::OnDemand)
    }

    fn attach_with<B: Backend>(&self, domain: &Domain<B>, listing: Listing) -> Result<Arc<Mapped>, MemError> {
        if let Some(known) = self.known(domain.id()) {
            return Ok(known);
        }
        // Outside of the lock, which spins: mapping pins memory, and may take seconds. Of two at once, each keeps its
        // own.
        let new = domain.map(&self.inner.memory, listing)?;
        self.inner.mapped.lock().push(Arc::clone(&new));
        Ok(new)
    }

    fn known(&self, domain: DomainId) -> Option<Arc<Mapped>> {
        self.inner.mapped.lock().iter().find(|known| known.domain() == domain).cloned()
    }

    /// Forgets the region's mappings for the device of `domain`. A mapping itself goes with its last user.
    pub fn detach(&self, domain: DomainId) {
        let mut mapped = self.inner.mapped.lock();
        let (gone, kept) = mapped.drain(..).partition(|known: &Arc<Mapped>| known.domain() == domain);
        *mapped = kept;
        drop(mapped);
        // Outside of the lock, which spins: unmapping takes time.
        drop::<Vec<_>>(gone);
    }

    /// Copies bytes from the region at `offset` to `to`.
    ///
    /// Bytes that a device writes at the same time come out as before or after, in any mixture.
    ///
    /// # Errors
    ///
    /// [`MemError::Range`]; [`MemError::Gpu`] for memory of a GPU, which waits for the GPU's copy engine.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<(), MemError> {
        match &self.inner.memory.place {
            Place::Host { shared, .. } => Ok(shared.copy_out(offset, to)?),
            #[cfg(feature = "std")]
            Place::Gpu(registration) => Ok(registration.copy_out(offset, to)?),
        }
    }

    /// Copies `from` to the region at `offset`.
    ///
    /// # Errors
    ///
    /// As [`copy_out`](Self::copy_out).
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), MemError> {
        match &self.inner.memory.place {
            Place::Host { shared, .. } => Ok(shared.copy_in(offset, from)?),
            #[cfg(feature = "std")]
            Place::Gpu(registration) => Ok(registration.copy_in(offset, from)?),
        }
    }

    /// The GPU's memory that it is, if it is a GPU's.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn gpu(&self) -> Option<&Arc<Registration>> {
        match &self.inner.memory.place {
            Place::Host { .. } => None,
            Place::Gpu(registration) => Some(registration),
        }
    }

    /// Gives a copy of the DMA-buf out: a descriptor, and where in it the region lies. The region counts as in use until
    /// the export is dropped.
    ///
    /// # Errors
    ///
    /// [`MemError::NoDmabuf`] for host memory, [`MemError::Staged`] for GPU memory without one, [`MemError::Descriptor`].
    #[cfg(feature = "std")]
    pub fn export_dmabuf(&self) -> Result<Export, MemError> {
        match self.gpu().map(|registration| registration.path()) {
            None => Err(MemError::NoDmabuf),
            Some(Path::Staged(why)) => Err(MemError::Staged(why.clone().into())),
            Some(Path::Direct(dmabuf)) => {
                Export::new(dmabuf, self).map_err(|error| MemError::Descriptor { reason: error.to_string() })
            }
        }
    }

    /// How many exports and RDMA registrations of it there are. Its memory is in use while there is one.
    #[must_use]
    pub fn holds(&self) -> usize {
        // Acquire: pairs with `let_go`, so that whoever sees none sees what the last one did.
        self.inner.holds.load(Ordering::Acquire)
    }

    #[cfg(feature = "std")]
    pub(crate) fn hold(&self) {
        // Relaxed: the region that is held is here, so nobody can be asking whether it may go.
        self.inner.holds.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "std")]
    pub(crate) fn let_go(&self) {
        // Release: pairs with `holds`.
        self.inner.holds.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn downgrade(&self) -> WeakRegion {
        WeakRegion(Arc::downgrade(&self.inner))
    }
}

/// A region that may be gone.
#[derive(Debug)]
pub(crate) struct WeakRegion(alloc::sync::Weak<Inner>);

impl WeakRegion {
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() != 0
    }

    pub(crate) fn upgrade(&self) -> Option<Region> {
        self.0.upgrade().map(|inner| Region { inner })
    }
}
