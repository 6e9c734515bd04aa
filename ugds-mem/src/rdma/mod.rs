//! Regions that a network adapter reaches: RDMA registration through `libibverbs.so.1`.
//!
//! The library is loaded when [`Verbs::load`] is called. GPU memory is registered by its DMA-buf (`ibv_reg_dmabuf_mr`),
//! host memory by its address (`ibv_reg_mr`).
//!
//! UNSAFETY: calls the verbs library, and reads what it allocated.

#![allow(unsafe_code)]

use crate::dmabuf::{Dmabuf, Held};
use crate::gpu::load::{Loaded, table};
use crate::gpu::{GpuError, Path, WhyStaged};
use crate::{Region, Token};
use core::ffi::{c_int, c_void};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use nix::errno::Errno;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The verbs library.
#[derive(Debug)]
pub struct Verbs {
    api: Api,
}

/// `struct ibv_mr`, whose first members are public.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Mr {
    context: *mut c_void,
    pd: *mut c_void,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    lkey: u32,
    rkey: u32,
}

table! {
    /// Functions of libibverbs, by its names.
    Api
    needs {
        ibv_reg_mr(*mut c_void, *mut c_void, usize, c_int) -> *mut Mr;
        ibv_dereg_mr(*mut Mr) -> c_int;
    }
    may_lack {
        ibv_reg_dmabuf_mr(*mut c_void, u64, usize, u64, c_int, c_int) -> *mut Mr;
    }
}

/// An error of an RDMA registration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// The library is not there, or is too old.
    #[error(transparent)]
    Library(#[from] GpuError),
    /// The GPU's memory has no DMA-buf that the adapter could be given.
    #[error("the adapter is not given the memory: {0}")]
    Staged(WhyStaged),
    /// The adapter's driver refused.
    #[error("{call} failed: {reason} ({errno})")]
    Failed {
        /// The function.
        call: &'static str,
        /// The number of the error.
        errno: i32,
        /// The operating system's words for it.
        reason: &'static str,
    },
}

impl Verbs {
    /// Loads the library from where the system looks for libraries.
    ///
    /// # Errors
    ///
    /// [`RdmaError::Library`].
    pub fn load() -> Result<Arc<Self>, RdmaError> {
        Ok(Arc::new(Self { api: Api::of(Loaded::load(None, &[LIBRARY], REMEDY)?)? }))
    }

    /// The same from a folder.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_from(folder: &std::path::Path) -> Result<Arc<Self>, RdmaError> {
        Ok(Arc::new(Self { api: Api::of(Loaded::load(Some(folder), &[LIBRARY], REMEDY)?)? }))
    }

    /// Registers a region with the protection domain `pd` for `access` (`ibv_access_flags`). The region counts as in use
    /// until the registration is gone.
    ///
    /// # Errors
    ///
    /// [`RdmaError::Staged`] for memory of a GPU without a DMA-buf, [`RdmaError::Failed`] with the adapter's reason.
    ///
    /// # Safety
    ///
    /// `pd` is a protection domain (`struct ibv_pd`) of libibverbs that is there until the registration is gone.
    pub unsafe fn register(
        self: &Arc<Self>,
        region: &Region,
        pd: NonNull<c_void>,
        access: i32,
    ) -> Result<RdmaRegion, RdmaError> {
        let iova = region.address() as u64;
        let (call, mr) = match region.gpu().map(|registration| registration.path()) {
            Some(Path::Staged(why)) => return Err(RdmaError::Staged(why.clone())),
            // SAFETY: the caller's promise for `pd`.
            Some(Path::Direct(dmabuf)) => unsafe { self.register_dmabuf(dmabuf, iova, pd, access) }?,
            None => {
                let start = core::ptr::with_exposed_provenance_mut(region.address());
                // SAFETY: `pd` by the caller's promise; the region keeps the memory, and is kept by `Held` below.
                let mr = unsafe { (self.api.ibv_reg_mr)(pd.as_ptr(), start, region.len_bytes(), access) };
                ("ibv_reg_mr", mr)
            }
        };
        let mr = NonNull::new(mr).ok_or_else(|| failed(call, Errno::last()))?;
        // SAFETY: the library says that it registered, and answered with a structure of its own.
        let (lkey, rkey) = unsafe { ((*mr.as_ptr()).lkey, (*mr.as_ptr()).rkey) };
        let held = ManuallyDrop::new(Held::new(region));
        // INVARIANT: just registered.
        Ok(RdmaRegion {
            verbs: Arc::clone(self),
            mr: Some(mr),
            held,
            token: Token::fresh(),
            iova,
            lkey,
            rkey,
        })
    }

    /// # Safety
    ///
    /// As [`register`](Self::register).
    unsafe fn register_dmabuf(
        &self,
        dmabuf: &Dmabuf,
        iova: u64,
        pd: NonNull<c_void>,
        access: i32,
    ) -> Result<(&'static str, *mut Mr), RdmaError> {
        let function = self.api.ibv_reg_dmabuf_mr.clone()?;
        let (offset, len) = (dmabuf.offset(), dmabuf.len_bytes() as usize);
        // SAFETY: the caller's promise for `pd`; the descriptor is open, and the adapter's driver keeps its memory.
        let mr = unsafe { function(pd.as_ptr(), offset, len, iova, dmabuf.fd().as_raw_fd(), access) };
        Ok(("ibv_reg_dmabuf_mr", mr))
    }
}

/// A region that a network adapter reaches, until it is unregistered or dropped.
///
/// # Invariants
///
/// `mr` is a registration of `verbs` that belongs to this value alone, until it is `None`.
#[derive(Debug)]
pub struct RdmaRegion {
    verbs: Arc<Verbs>,
    mr: Option<NonNull<Mr>>,
    /// Dropped only when the adapter has let go of the memory.
    held: ManuallyDrop<Held>,
    token: Token,
    iova: u64,
    lkey: u32,
    rkey: u32,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for RdmaRegion {}
// SAFETY: nothing is done with `mr` through a shared reference.
unsafe impl Sync for RdmaRegion {}

impl RdmaRegion {
    /// The library's `struct ibv_mr`, for whoever posts requests with it. Null once it is unregistered.
    #[must_use]
    pub fn mr(&self) -> *mut c_void {
        self.mr.map_or(core::ptr::null_mut(), |mr| mr.as_ptr().cast())
    }

    /// The address that the adapter knows the region's first byte by: that of the memory itself.
    #[must_use]
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// The key of local requests.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The key that peers use.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// The registration's identity, unlike that of any region or other registration of this process.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Takes the region from the adapter.
    ///
    /// # Errors
    ///
    /// The registration and [`RdmaError::Failed`], when the adapter's driver says that it is in use.
    #[expect(clippy::result_large_err, reason = "the registration comes back, as it was")]
    pub fn unregister(mut self) -> Result<(), (Self, RdmaError)> {
        match self.end() {
            Ok(()) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    fn end(&mut self) -> Result<(), RdmaError> {
        let Some(mr) = self.mr else { return Ok(()) };
        // SAFETY: ours alone (type invariant), and not used after success.
        match unsafe { (self.verbs.api.ibv_dereg_mr)(mr.as_ptr()) } {
            0 => {
                self.mr = None;
                // SAFETY: `mr` is none from now on, so this is not reached again, and the value is not used elsewhere.
                unsafe { ManuallyDrop::drop(&mut self.held) };
                Ok(())
            }
            errno => Err(failed("ibv_dereg_mr", Errno::from_raw(errno))),
        }
    }
}

impl Drop for RdmaRegion {
    fn drop(&mut self) {
        // If the adapter does not let go, the region stays in use for good: it may be written to at any time.
        let _ = self.end();
    }
}

fn failed(call: &'static str, errno: Errno) -> RdmaError {
    RdmaError::Failed { call, errno: errno as i32, reason: errno.desc() }
}

const LIBRARY: &str = "libibverbs.so.1";
const REMEDY: &str = "it comes with rdma-core: install that, or 34 or newer for DMA-bufs";
