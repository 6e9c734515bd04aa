//! Memory of GPUs at an opened device, and what it is made of.
//!
//! UNSAFETY: takes addresses from callers, who promise that the memory lasts.

#![allow(unsafe_code)]

pub use ugds_mem::cuda::Cuda;
pub use ugds_mem::dmabuf::{Dmabuf, Export};
pub use ugds_mem::gpu::{
    Code, GpuError, How, Kind, OnTheFly, Path, PciAddress, PeerWrites, Pointer, Registration, Staging,
    StagingOptions, Vendor, VendorName, WhyStaged,
};
pub use ugds_mem::hip::Hip;
pub use ugds_mem::rdma;

use crate::device::Device;
use crate::drain::Drain;
use crate::error::Error;
use crate::region::Region;
use std::fmt;
use std::sync::{Arc, OnceLock};
use ugds_mem::{MemError, Memory};

/// Memory of a GPU, registered with a device.
///
/// Where the device reaches it, [`direct`](Self::direct) is a region like any other. Where not, data goes through pinned
/// memory ([`Staging`]), and [`why_staged`](Self::why_staged) says why.
pub struct GpuRegion {
    direct: Result<Region, WhyStaged>,
    memory: ugds_mem::Region,
    gpu: Arc<Registration>,
}

impl Device {
    /// Registers `len_bytes` of a GPU's memory at `address`, which is what `cuMemAlloc` or `hipMalloc` gave.
    ///
    /// The driver's library is loaded with the first call. Memory that the device can't reach is no error: see
    /// [`GpuRegion::why_staged`].
    ///
    /// # Errors
    ///
    /// [`Error::Memory`]: with [`MemError::Gpu`] where there is no driver, or the driver knows no such memory; when it
    /// does not start at a multiple of four bytes.
    ///
    /// # Safety
    ///
    /// Until [`GpuRegion::release`] returned `Ok`, and every [`Export`] and RDMA registration of it is gone, and every copy
    /// of a [`Staging`] with it:
    ///
    /// - the memory stays allocated, and so does the context it was allocated in, or which is current now if it belongs
    ///   to none;
    /// - the device may write there whenever a read into it is under way, so nothing relies on those bytes meanwhile.
    pub unsafe fn register_gpu(&self, address: u64, len_bytes: usize) -> Result<GpuRegion, Error> {
        let vendor = vendor_of(address).map_err(MemError::from)?;
        // SAFETY: the caller's promise is the same.
        unsafe { self.register_gpu_with(&vendor, address, len_bytes) }
    }

    /// The same for memory of a known driver.
    ///
    /// # Errors
    ///
    /// As [`register_gpu`](Self::register_gpu).
    ///
    /// # Safety
    ///
    /// As of [`register_gpu`](Self::register_gpu).
    pub unsafe fn register_gpu_with(
        &self,
        vendor: &Arc<dyn Vendor>,
        address: u64,
        len_bytes: usize,
    ) -> Result<GpuRegion, Error> {
        // SAFETY: the caller's promise holds until the region is released, and whatever else keeps the registration is
        // named in it.
        let registration = unsafe { Registration::new(vendor, address, len_bytes, How::Best) };
        let registration = registration.map_err(MemError::from)?;
        let why = registration.path().why_staged().cloned();
        let gpu = Arc::clone(&registration);
        let memory = ugds_mem::Region::new(Memory::gpu(registration))?;
        let direct = match why {
            Some(why) => Err(why),
            None => match self.attach(&memory) {
                Ok(region) => Ok(region),
                // The memory could be had, but not by this device; its copies can.
                Err(Error::Memory(error)) => Err(WhyStaged::Backend { reason: error.to_string() }),
                Err(other) => return Err(other),
            },
        };
        Ok(GpuRegion { direct, memory, gpu })
    }
}

impl GpuRegion {
    /// The region that the device reads and writes, if it reaches the memory.
    #[must_use]
    pub fn direct(&self) -> Option<&Region> {
        self.direct.as_ref().ok()
    }

    /// Why it does not.
    #[must_use]
    pub fn why_staged(&self) -> Option<&WhyStaged> {
        self.direct.as_ref().err()
    }

    /// The way that data takes, and why not a better one, for people to read.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.direct {
            Ok(region) => region.path().to_owned(),
            Err(why) => format!("staged: {why}"),
        }
    }

    /// The memory, for copies by the GPU and for RDMA registration.
    #[must_use]
    pub fn memory(&self) -> &ugds_mem::Region {
        &self.memory
    }

    /// The GPU's side of it.
    #[must_use]
    pub fn gpu(&self) -> &Arc<Registration> {
        &self.gpu
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.memory.len_bytes()
    }

    /// Gives a copy of the DMA-buf out. The region is busy until it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] where the driver exports none. Memory that only this device can't be given has one.
    pub fn export_dmabuf(&self) -> Result<Export, Error> {
        Ok(self.memory.export_dmabuf()?)
    }

    /// Takes the memory from the device, so that it may be freed.
    ///
    /// # Errors
    ///
    /// The region and [`Error::Exported`] while an export or an RDMA registration of it exists, or what
    /// [`Region::release`] says.
    #[expect(clippy::result_large_err, reason = "the region comes back, as it was")]
    pub fn release(self) -> Result<(), (Self, Error)> {
        self.release_with(Drain::Check)
    }

    /// The same, waiting for commands that move it, or ending them, as `drain` says.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    #[expect(clippy::result_large_err, reason = "the region comes back, as it was")]
    pub fn release_with(self, drain: Drain) -> Result<(), (Self, Error)> {
        let Self { direct, memory, gpu } = self;
        match direct {
            Ok(region) => match region.release_with(drain) {
                Ok(()) => Ok(()),
                Err((region, error)) => Err((Self { direct: Ok(region), memory, gpu }, error)),
            },
            Err(why) => match memory.holds() {
                0 => Ok(()),
                uses => Err((Self { direct: Err(why), memory, gpu }, Error::Exported { uses })),
            },
        }
    }
}

impl fmt::Debug for GpuRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuRegion")
            .field("len_bytes", &self.len_bytes())
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// The driver that knows the memory at `address`.
///
/// # Errors
///
/// [`GpuError::NoDriver`] with each one's reason when none can be used, [`GpuError::NotGpu`] when none knows it.
pub fn vendor_of(address: u64) -> Result<Arc<dyn Vendor>, GpuError> {
    static CUDA: OnceLock<Result<Arc<Cuda>, GpuError>> = OnceLock::new();
    static HIP: OnceLock<Result<Arc<Hip>, GpuError>> = OnceLock::new();
    let cuda = CUDA.get_or_init(Cuda::load).clone().map(|cuda| cuda as Arc<dyn Vendor>);
    let hip = || HIP.get_or_init(Hip::load).clone().map(|hip| hip as Arc<dyn Vendor>);
    let cuda_failed = match cuda {
        Err(error) => error,
        Ok(cuda) => {
            let kind = cuda.describe(address)?.kind;
            if kind.is_gpu() {
                return Ok(cuda);
            }
            GpuError::NotGpu { address, kind }
        }
    };
    match (hip(), cuda_failed) {
        (Err(_), error @ GpuError::NotGpu { .. }) => Err(error),
        (Err(hip), cuda) => Err(GpuError::NoDriver { cuda: cuda.to_string(), hip: hip.to_string() }),
        (Ok(hip), _) => match hip.describe(address)?.kind {
            kind if kind.is_gpu() => Ok(hip),
            kind => Err(GpuError::NotGpu { address, kind }),
        },
    }
}
