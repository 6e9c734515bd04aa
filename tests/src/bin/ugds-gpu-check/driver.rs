//! The driver as an application uses it: allocations of every kind, and copies that are no part of what is checked.
//!
//! UNSAFETY: calls the CUDA driver library. Addresses go to it only from buffers that are alive.

#![allow(unsafe_code)]

use anyhow::{Context, bail, ensure};
use libloading::Library;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use ugds_mem::gpu::{How, Registration, Vendor};

macro_rules! functions {
    ($($name:ident($($arg:ty),*);)*) => {
        /// Functions of the CUDA driver API, by its names.
        #[allow(non_snake_case, reason = "the vendor's names")]
        struct Api {
            $($name: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        impl Api {
            fn of(library: &'static Library) -> anyhow::Result<Self> {
                Ok(Self {
                    // SAFETY: the types are those that the driver documents, and the library is never unloaded.
                    $($name: *unsafe { library.get(stringify!($name)) }.context(stringify!($name))?,)*
                })
            }
        }
    };
}

functions! {
    cuInit(c_uint);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetName(*mut u8, c_int, c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    cuDevicePrimaryCtxRetain(*mut *mut c_void, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuCtxSetCurrent(*mut c_void);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemAllocManaged(*mut u64, usize, c_uint);
    cuMemAllocAsync(*mut u64, usize, *mut c_void);
    cuMemFreeAsync(u64, *mut c_void);
    cuMemGetAllocationGranularity(*mut usize, *const Properties, c_int);
    cuMemCreate(*mut u64, usize, *const Properties, u64);
    cuMemRelease(u64);
    cuMemAddressReserve(*mut u64, usize, usize, u64, u64);
    cuMemAddressFree(u64, usize);
    cuMemMap(u64, usize, usize, u64, u64);
    cuMemUnmap(u64, usize);
    cuMemSetAccess(u64, usize, *const Access, usize);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemcpyHtoD_v2(u64, *const c_void, usize);
    cuMemcpyDtoH_v2(*mut c_void, u64, usize);
    cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, *mut c_void);
    cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, *mut c_void);
    cuStreamCreate(*mut *mut c_void, c_uint);
    cuStreamSynchronize(*mut c_void);
    cuStreamDestroy_v2(*mut c_void);
}

/// `CUmemAllocationProp`.
#[repr(C)]
struct Properties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location: c_int,
    windows: *mut c_void,
    compression: u8,
    gpu_direct_rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location_kind: c_int,
    location: c_int,
    flags: c_int,
}

/// The driver, with the first GPU's primary context.
pub(crate) struct Driver {
    api: Api,
    device: c_int,
    context: *mut c_void,
}

// SAFETY: a context may be used from any thread; nothing else is held.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// Turns what a call answered into an error with its name.
macro_rules! call {
    ($driver:expr, $name:ident($($arg:expr),*)) => {{
        // SAFETY: what it writes to is a local of its type or memory of the length given; addresses are of buffers that
        // are alive, or 0, or too large, and then only looked up.
        match unsafe { ($driver.api.$name)($($arg),*) } {
            0 => Ok(()),
            code => Err(anyhow::anyhow!(concat!(stringify!($name), ": code {}"), code)),
        }
    }};
}

impl Driver {
    pub(crate) fn open() -> anyhow::Result<Self> {
        // SAFETY: the driver's constructors are trusted, as everywhere.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new("libcuda.so.1") }?));
        let mut driver = Self { api: Api::of(library)?, device: 0, context: std::ptr::null_mut() };
        call!(driver, cuInit(0))?;
        let mut devices = 0;
        call!(driver, cuDeviceGetCount(&mut devices))?;
        ensure!(devices > 0, "the driver knows no GPU");
        call!(driver, cuDeviceGet(&mut driver.device, 0))?;
        call!(driver, cuDevicePrimaryCtxRetain(&mut driver.context, driver.device))?;
        driver.enter()?;
        Ok(driver)
    }

    /// Makes the context current.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        call!(self, cuCtxSetCurrent(self.context))
    }

    /// Leaves the thread without a context.
    pub(crate) fn leave(&self) -> anyhow::Result<()> {
        call!(self, cuCtxSetCurrent(std::ptr::null_mut()))
    }

    pub(crate) fn device_name(&self) -> anyhow::Result<String> {
        let mut bytes = [0u8; 128];
        call!(self, cuDeviceGetName(bytes.as_mut_ptr(), 128, self.device))?;
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(128);
        Ok(String::from_utf8_lossy(&bytes[..len]).into_owned())
    }

    pub(crate) fn attribute(&self, number: c_int) -> anyhow::Result<c_int> {
        let mut value = 0;
        call!(self, cuDeviceGetAttribute(&mut value, number, self.device))?;
        Ok(value)
    }

    /// Free and total bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        call!(self, cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free, total))
    }

    /// Allocates memory of a kind.
    pub(crate) fn alloc(self: &Arc<Self>, how: Allocation, len_bytes: usize) -> anyhow::Result<Buffer> {
        let mut address = 0;
        let mut len = len_bytes;
        match how {
            Allocation::Plain => call!(self, cuMemAlloc_v2(&mut address, len))?,
            Allocation::Managed => call!(self, cuMemAllocManaged(&mut address, len, 1))?,
            Allocation::Pool => {
                call!(self, cuMemAllocAsync(&mut address, len, std::ptr::null_mut()))?;
                call!(self, cuStreamSynchronize(std::ptr::null_mut()))?;
            }
            Allocation::Virtual { rdma } => (address, len) = self.map(len, rdma)?,
            Allocation::Pinned => {
                let mut ptr = std::ptr::null_mut();
                call!(self, cuMemHostAlloc(&mut ptr, len, 1))?;
                address = ptr as u64;
            }
        }
        Ok(Buffer { driver: Arc::clone(self), how, address, len_bytes: len })
    }

    /// A virtual mapping of at least `len` bytes.
    fn map(&self, len: usize, rdma: bool) -> anyhow::Result<(u64, usize)> {
        let properties = Properties {
            kind: 1,
            handle_types: 0,
            location_kind: 1,
            location: self.device,
            windows: std::ptr::null_mut(),
            compression: 0,
            gpu_direct_rdma: rdma.into(),
            usage: 0,
            reserved: [0; 4],
        };
        let (mut granule, mut handle, mut address) = (0, 0, 0);
        call!(self, cuMemGetAllocationGranularity(&mut granule, &properties, 0))?;
        ensure!(granule > 0, "a granularity of 0");
        let len = len.next_multiple_of(granule);
        call!(self, cuMemCreate(&mut handle, len, &properties, 0))?;
        call!(self, cuMemAddressReserve(&mut address, len, 0, 0, 0))?;
        call!(self, cuMemMap(address, len, 0, handle, 0))?;
        // The mapping keeps the memory.
        call!(self, cuMemRelease(handle))?;
        let access = Access { location_kind: 1, location: self.device, flags: 3 };
        call!(self, cuMemSetAccess(address, len, &access, 1))?;
        Ok((address, len))
    }

    /// Whether an allocation of `len_bytes` is refused for lack of memory. One that is not is freed.
    pub(crate) fn is_out_of_memory(&self, len_bytes: usize) -> anyhow::Result<bool> {
        let mut address = 0;
        // SAFETY: it writes an address.
        match unsafe { (self.api.cuMemAlloc_v2)(&raw mut address, len_bytes) } {
            0 => call!(self, cuMemFree_v2(address)).map(|()| false),
            2 => Ok(true),
            code => bail!("cuMemAlloc of {len_bytes} bytes: code {code}"),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.leave();
        let _ = call!(self, cuDevicePrimaryCtxRelease_v2(self.device));
    }
}

/// How memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    Plain,
    Managed,
    Pool,
    Virtual { rdma: bool },
    Pinned,
}

/// Memory, freed on drop.
pub(crate) struct Buffer {
    driver: Arc<Driver>,
    how: Allocation,
    address: u64,
    len_bytes: usize,
}

impl Buffer {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Copies to the memory, by the driver's synchronous copy.
    pub(crate) fn put(&self, offset: usize, from: &[u8]) -> anyhow::Result<()> {
        self.check(offset, from.len())?;
        call!(self.driver, cuMemcpyHtoD_v2(self.address + offset as u64, from.as_ptr().cast(), from.len()))
    }

    /// Copies from the memory, by the driver's synchronous copy.
    pub(crate) fn get(&self, offset: usize, len: usize) -> anyhow::Result<Vec<u8>> {
        self.check(offset, len)?;
        let mut to = vec![0; len];
        call!(self.driver, cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), self.address + offset as u64, len))?;
        Ok(to)
    }

    fn check(&self, offset: usize, len: usize) -> anyhow::Result<()> {
        ensure!(self.how != Allocation::Pinned, "the check copies to the host by the GPU");
        ensure!(offset + len <= self.len_bytes, "the check copies beyond its buffer");
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let driver = &self.driver;
        let _ = match self.how {
            Allocation::Plain | Allocation::Managed => call!(driver, cuMemFree_v2(self.address)),
            Allocation::Pool => call!(driver, cuMemFreeAsync(self.address, std::ptr::null_mut()))
                .and_then(|()| call!(driver, cuStreamSynchronize(std::ptr::null_mut()))),
            Allocation::Virtual { .. } => call!(driver, cuMemUnmap(self.address, self.len_bytes))
                .and_then(|()| call!(driver, cuMemAddressFree(self.address, self.len_bytes))),
            Allocation::Pinned => call!(driver, cuMemFreeHost(self.address as *mut c_void)),
        };
    }
}

/// Registers a part of a buffer.
pub(crate) fn register(
    vendor: &Arc<dyn Vendor>,
    buffer: &Buffer,
    offset: usize,
    len_bytes: usize,
    how: How,
) -> anyhow::Result<Arc<Registration>> {
    // SAFETY: every check drops its registrations before its buffers, and the context is there to the end; what
    // accesses the memory otherwise waits for its copies first.
    Ok(unsafe { Registration::new(vendor, buffer.address + offset as u64, len_bytes, how) }?)
}

/// A stream on which plain copies are measured.
pub(crate) struct Plain {
    driver: Arc<Driver>,
    stream: *mut c_void,
}

/// Which way plain copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

impl Plain {
    pub(crate) fn open(driver: &Arc<Driver>) -> anyhow::Result<Self> {
        let mut stream = std::ptr::null_mut();
        call!(driver, cuStreamCreate(&mut stream, 1))?;
        Ok(Self { driver: Arc::clone(driver), stream })
    }

    /// Enqueues a copy between `len` bytes of pinned memory at `host` and a buffer.
    ///
    /// # Safety
    ///
    /// Until [`finish`](Self::finish) returned, the bytes at `host` stay allocated, and nothing refers to them.
    pub(crate) unsafe fn copy(
        &self,
        way: Way,
        buffer: &Buffer,
        host: *mut u8,
        len: usize,
    ) -> anyhow::Result<()> {
        buffer.check(0, len)?;
        match way {
            Way::In => {
                call!(self.driver, cuMemcpyHtoDAsync_v2(buffer.address, host.cast(), len, self.stream))
            }
            Way::Out => {
                call!(self.driver, cuMemcpyDtoHAsync_v2(host.cast(), buffer.address, len, self.stream))
            }
        }
    }

    /// Waits for all copies.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        call!(self.driver, cuStreamSynchronize(self.stream))
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.finish();
        let _ = call!(self.driver, cuStreamDestroy_v2(self.stream));
    }
}
