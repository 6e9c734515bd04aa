//! Memory of AMD's GPUs, through the HIP runtime `libamdhip64.so` and, for exports, `libhsa-runtime64.so.1`.
//!
//! Both are loaded when [`Hip::load`] is called. Function names in this module are those of HIP and of HSA. It was
//! written against their documentation and is tried with stand-ins; no AMD GPU was at hand.

mod describe;
mod device;
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
use table::{Api, Hsa};

/// The HIP runtime, and the HSA runtime if it is there.
#[derive(Debug)]
pub struct Hip {
    api: Api,
    /// Without it everything but exports works.
    hsa: Result<Hsa, GpuError>,
    version: i32,
    /// Itself, for what outlives a call.
    this: Weak<Self>,
}

impl Hip {
    /// Loads the libraries from where the system looks for them, and initialises HIP (`hipInit`).
    ///
    /// # Errors
    ///
    /// [`GpuError::Library`] on a machine without ROCm, [`GpuError::Symbol`] and [`GpuError::Version`] for one older
    /// than 6.0, [`GpuError::Call`] when it does not start: code 100 without a GPU. A missing HSA library is no error: see
    /// [`WhyStaged::Export`].
    pub fn load() -> Result<Arc<Self>, GpuError> {
        Self::start(None)
    }

    /// The same from a folder: libraries of one's own choice, or stand-ins.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_from(folder: &Path) -> Result<Arc<Self>, GpuError> {
        Self::start(Some(folder))
    }

    fn start(folder: Option<&Path>) -> Result<Arc<Self>, GpuError> {
        let api = Api::of(Loaded::load(folder, LIBRARIES, REMEDY)?)?;
        let version = table::version(&api)?;
        if version < VERSION_MIN {
            return Err(GpuError::Version {
                library: LIBRARIES[0],
                found: shown(version),
                needed: "6.0",
                remedy: "install a newer ROCm",
            });
        }
        table::init(&api)?;
        let hsa = Loaded::load(folder, &[HSA_LIBRARY], HSA_REMEDY).and_then(Hsa::of).and_then(table::started);
        Ok(Arc::new_cyclic(|this| Self { api, hsa, version, this: this.clone() }))
    }

    /// Itself, shared.
    fn shared(&self) -> Result<Arc<Self>, GpuError> {
        self.this.upgrade().ok_or(GpuError::Broken { reason: "the driver was let go".into() })
    }

    /// `Ok` for success, else the code with HIP's own name for it.
    fn said(&self, call: &'static str, code: i32) -> Result<(), GpuError> {
        if Code(code) == Code::SUCCESS { Ok(()) } else { Err(table::failed(&self.api, call, code)) }
    }
}

impl Vendor for Hip {
    fn name(&self) -> VendorName {
        VendorName::Hip
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

    fn peer_writes(&self, _: &Pointer) -> Result<PeerWrites, GpuError> {
        Ok(PeerWrites::Unproven)
    }

    fn flush_peer_writes(&self, _: &Pointer) -> Result<(), GpuError> {
        Err(GpuError::Symbol {
            library: LIBRARIES[0],
            symbol: "to flush what peers wrote",
            remedy: "HIP has none; use fine-grained memory, or the staged way",
        })
    }

    fn pin(&self, near: &Pointer, len_bytes: usize) -> Result<Memory, GpuError> {
        pinned::allocate(&self.shared()?, near, len_bytes)
    }

    fn lane(&self, near: &Pointer, events: usize) -> Result<Box<dyn Lane>, GpuError> {
        Ok(Box::new(lane::Stream::open(self.shared()?, near, events)?))
    }
}

/// `hipRuntimeGetVersion` counts 10,000,000 for a major version and 100,000 for a minor one.
fn shown(version: i32) -> String {
    format!("{}.{}", version / 10_000_000, version / 100_000 % 100)
}

/// By the versions that this module knows, then what a development package brings.
const LIBRARIES: &[&str] = &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"];
const REMEDY: &str = "it comes with AMD's ROCm: install that, or a newer one";
const HSA_LIBRARY: &str = "libhsa-runtime64.so.1";
const HSA_REMEDY: &str = "it comes with AMD's ROCm: install its runtime for DMA-bufs";
/// 6.0: it numbers the kinds of memory differently than those before.
const VERSION_MIN: i32 = 60_000_000;
