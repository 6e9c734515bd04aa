//! GPU memory as a DMA-buf, and what peers wrote to it.
//!
//! UNSAFETY: hands the driver places to write its answers to.

#![allow(unsafe_code)]

use super::context::Context;
use super::table::{device, pointer as attribute};
use super::{Cuda, GpuError, Pointer, WhyStaged, describe};
use crate::dmabuf::{Dmabuf, Hull};

/// Exports the host's pages around a run of GPU memory.
pub(super) fn export(cuda: &Cuda, pointer: &Pointer, len_bytes: u64) -> Result<Dmabuf, WhyStaged> {
    let supported = describe::device_attribute(cuda, device::DMA_BUF_SUPPORTED, pointer.ordinal);
    if supported.map_err(WhyStaged::Export)? != Some(1) {
        return Err(WhyStaged::NoDmabuf);
    }
    let function = cuda.api.cuMemGetHandleForAddressRange.clone().map_err(WhyStaged::Export)?;
    let unusable = |reason| WhyStaged::Unusable { reason };
    let hull = Hull::of_host_pages(pointer.address, len_bytes)
        .ok_or_else(|| unusable("it would end beyond all addresses".into()))?;
    let export = |cuda: &Cuda| {
        // First, so that no descriptor is lost if it fails.
        synchronous(cuda, pointer.address)?;
        let mut fd = -1;
        // SAFETY: for this type of handle it writes an integer; start and length are multiples of the host's page.
        let code = unsafe {
            function((&raw mut fd).cast(), hull.start, hull.len_bytes as usize, DMA_BUF_FD, NO_FLAGS)
        };
        cuda.said("cuMemGetHandleForAddressRange", code)?;
        Ok(fd)
    };
    let context = cuda.shared().and_then(|cuda| Context::of(cuda, pointer)).map_err(WhyStaged::Export)?;
    let fd = context.within(export).map_err(WhyStaged::Export)?;
    Dmabuf::adopt(fd, pointer.address - hull.start, len_bytes).map_err(unusable)
}

/// Makes the GPU's synchronous operations on an allocation synchronous in each case: by default, some return before they
/// are done, and a device would read or write too early.
fn synchronous(cuda: &Cuda, address: u64) -> Result<(), GpuError> {
    let on = 1u32;
    // SAFETY: it reads an integer.
    let code =
        unsafe { (cuda.api.cuPointerSetAttribute)((&raw const on).cast(), attribute::SYNC_MEMOPS, address) };
    cuda.said("cuPointerSetAttribute", code)
}

/// Makes what peers wrote visible to the GPU (`cuFlushGPUDirectRDMAWrites`, to the owner).
pub(super) fn flush(cuda: &Cuda, pointer: &Pointer) -> Result<(), GpuError> {
    let function = cuda.api.cuFlushGPUDirectRDMAWrites.clone()?;
    Context::of(cuda.shared()?, pointer)?.within(|cuda| {
        // SAFETY: it takes two numbers, and the context of the memory is current.
        cuda.said("cuFlushGPUDirectRDMAWrites", unsafe { function(CURRENT_CONTEXT, TO_OWNER) })
    })
}

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
const DMA_BUF_FD: i32 = 1;
const NO_FLAGS: u64 = 0;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX`.
const CURRENT_CONTEXT: i32 = 0;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER`.
const TO_OWNER: i32 = 100;
