//! A region: one piece of memory that data moves to and from.
//!
//! UNSAFETY: takes raw pointers from callers, who promise that the memory lasts.

#![allow(unsafe_code)]

use crate::domain::Listing;
use crate::{Domain, Mapped, MemError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;
use ugds_hal::{Backend, DomainId, SharedMemory};

/// The identity of one registration. It is never used again, even when the same address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    pub(crate) const MIN: Self = Self(0);
    pub(crate) const MAX: Self = Self(u64::MAX);

    fn fresh() -> Self {
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

/// Host memory together with whatever keeps it allocated.
pub struct Memory {
    shared: SharedMemory,
    /// The owner of the memory; nothing when the caller of [`Memory::foreign`] is.
    _owner: Option<Box<dyn Any + Send + Sync>>,
}

impl Memory {
    /// Takes memory that `owner` keeps allocated.
    ///
    /// # Safety
    ///
    /// The `len_bytes` bytes at `ptr` are valid until `owner` is dropped, and nothing else accesses them.
    #[must_use]
    pub unsafe fn owned(ptr: NonNull<u8>, len_bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        // SAFETY: the caller's promise; `_owner` lives as long as `shared`.
        Self { shared: unsafe { SharedMemory::new(ptr, len_bytes) }, _owner: Some(owner) }
    }

    /// Takes memory that somebody else allocated and will free.
    ///
    /// # Safety
    ///
    /// The `len_bytes` bytes at `ptr` stay allocated until this value is dropped, which is when the region made of
    /// it and all its mappings are gone. Whoever else accesses them does it atomically, or while neither a copy through
    /// this value nor a transfer is under way.
    #[must_use]
    pub unsafe fn foreign(ptr: NonNull<u8>, len_bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self { shared: unsafe { SharedMemory::new(ptr, len_bytes) }, _owner: None }
    }

    /// The bytes.
    #[must_use]
    pub fn shared(&self) -> &SharedMemory {
        &self.shared
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("shared", &self.shared).finish_non_exhaustive()
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
}

impl Region {
    /// Makes a region of `memory`, mapped for no device yet.
    ///
    /// # Errors
    ///
    /// [`MemError::Misaligned`] when it does not start at a multiple of four bytes, [`MemError::RegionLength`] when it
    /// is empty.
    pub fn new(memory: Memory) -> Result<Self, MemError> {
        let shared = memory.shared();
        let address = shared.as_ptr().addr().get();
        if !address.is_multiple_of(4) {
            return Err(MemError::Misaligned { address });
        }
        if shared.len_bytes() == 0 {
            return Err(MemError::RegionLength { len_bytes: 0 });
        }
        let inner = Inner { mapped: Mutex::default(), memory: Arc::new(memory), token: Token::fresh() };
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
        self.inner.memory.shared().as_ptr().addr().get()
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.inner.memory.shared().len_bytes()
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
    /// [`MemError::Range`].
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<(), MemError> {
        Ok(self.inner.memory.shared().copy_out(offset, to)?)
    }

    /// Copies `from` to the region at `offset`.
    ///
    /// # Errors
    ///
    /// [`MemError::Range`].
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), MemError> {
        Ok(self.inner.memory.shared().copy_in(offset, from)?)
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
