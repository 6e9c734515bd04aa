//! Memory of NVIDIA's GPUs, through the CUDA driver library `libcuda.so.1`.
//!
//! The library is loaded when [`Cuda::load`] is called, and is part of NVIDIA's driver: no CUDA toolkit is needed. No
//! context is made. Function names in this module are those of the CUDA driver API.

mod context;
#[cfg(feature = "cudarc")]
pub mod cudarc;
mod describe;
mod export;
mod lane;
mod pinned;
mod table;

use crate::gpu::load::Loaded;
use crate::gpu::{Code, GpuError, Lane, PeerWrites, Pointer, Vendor, VendorName, WhyStaged};
use crate::{Memory, dmabuf::Dmabuf};
use std::boxed::Box;
use std::format;
use std::path::Path;
use std::string::String;
use std::sync::{Arc, Weak};
use table::Api;

/// The CUDA driver.
#[derive(Debug)]
pub struct Cuda {
    api: Api,
    version: i32,
    /// Itself, for what outlives a call.
    this: Weak<Self>,
}

impl Cuda {
    /// Loads the library from where the system looks for libraries, and initialises it (`cuInit`).
    ///
    /// # Errors
    ///
    /// [`GpuError::Library`] on a machine without NVIDIA's driver, [`GpuError::Symbol`] and [`GpuError::Version`] for
    /// one that is too old, [`GpuError::Call`] when it does not start: code 100 without a GPU.
    pub fn load() -> Result<Arc<Self>, GpuError> {
        Self::start(Loaded::load(None, &[LIBRARY], REMEDY)?)
    }

    /// The same from a folder: a driver of one's own choice, or a stand-in for one.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_from(folder: &Path) -> Result<Arc<Self>, GpuError> {
        Self::start(Loaded::load(Some(folder), &[LIBRARY], REMEDY)?)
    }

    fn start(library: Loaded) -> Result<Arc<Self>, GpuError> {
        let api = Api::of(library)?;
        let version = table::version(&api)?;
        if version < VERSION_MIN {
            return Err(GpuError::Version {
                library: LIBRARY,
                found: shown(version),
                needed: "11.4",
                remedy: "install a newer NVIDIA driver",
            });
        }
        table::init(&api)?;
        Ok(Arc::new_cyclic(|this| Self { api, version, this: this.clone() }))
    }

    /// Itself, shared.
    fn shared(&self) -> Result<Arc<Self>, GpuError> {
        self.this.upgrade().ok_or(GpuError::Broken { reason: "the driver was let go".into() })
    }

    /// `Ok` for success, else the code with the driver's own name for it.
    fn said(&self, call: &'static str, code: i32) -> Result<(), GpuError> {
        if Code(code) == Code::SUCCESS { Ok(()) } else { Err(table::failed(&self.api, call, code)) }
    }
}

impl Vendor for Cuda {
    fn name(&self) -> VendorName {
        VendorName::Cuda
    }

    fn version(&self) -> String {
        shown(self.version)
    }

    fn describe(&self, address: u64) -> Result<Pointer, GpuError> {
        describe::describe(self, address)
    }

    fn export(&self, pointer: &Pointer, len_bytes: u64) -> Result<Dmabuf, WhyStaged> {
        export::export(self, pointer, len_bytes)
    }

    fn peer_writes(&self, pointer: &Pointer) -> Result<PeerWrites, GpuError> {
        describe::peer_writes(self, pointer.ordinal)
    }

    fn flush_peer_writes(&self, pointer: &Pointer) -> Result<(), GpuError> {
        export::flush(self, pointer)
    }

    fn pin(&self, near: &Pointer, len_bytes: usize) -> Result<Memory, GpuError> {
        pinned::allocate(&self.shared()?, near, len_bytes)
    }

    fn lane(&self, near: &Pointer, events: usize) -> Result<Box<dyn Lane>, GpuError> {
        Ok(Box::new(lane::Stream::open(self.shared()?, near, events)?))
    }
}

/// `cuDriverGetVersion` counts 1000 for a major version and 10 for a minor one.
fn shown(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

const LIBRARY: &str = "libcuda.so.1";
const REMEDY: &str = "it comes with NVIDIA's driver: install that, or a newer one";
/// 11.4: the first whose drivers tell all attributes that are asked for. Without 11.7 there is no export.
const VERSION_MIN: i32 = 11_040;
