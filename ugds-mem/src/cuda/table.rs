//! The functions of `libcuda.so.1` that are used, and the numbers they take.
//!
//! UNSAFETY: calls the driver library before there is a driver to ask.

#![allow(unsafe_code)]

use super::{Code, GpuError};
use crate::gpu::load::table;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr::null;
use std::string::String;

/// `CUcontext`, `CUstream`, `CUevent`: pointers to what only the driver knows.
pub(super) type Handle = *mut c_void;

table! {
    /// Functions of the CUDA driver API, by its names.
    Api
    needs {
        cuInit(c_uint) -> c_int;
        cuDriverGetVersion(*mut c_int) -> c_int;
        cuGetErrorName(c_int, *mut *const c_char) -> c_int;
        cuDeviceGet(*mut c_int, c_int) -> c_int;
        cuDeviceGetAttribute(*mut c_int, c_int, c_int) -> c_int;
        cuDeviceGetPCIBusId(*mut c_char, c_int, c_int) -> c_int;
        cuDevicePrimaryCtxGetState(c_int, *mut c_uint, *mut c_int) -> c_int;
        cuDevicePrimaryCtxRetain(*mut Handle, c_int) -> c_int;
        cuDevicePrimaryCtxRelease_v2(c_int) -> c_int;
        cuCtxGetCurrent(*mut Handle) -> c_int;
        cuCtxGetDevice(*mut c_int) -> c_int;
        cuCtxPushCurrent_v2(Handle) -> c_int;
        cuCtxPopCurrent_v2(*mut Handle) -> c_int;
        cuPointerGetAttribute(*mut c_void, c_int, u64) -> c_int;
        cuPointerGetAttributes(c_uint, *mut c_int, *mut *mut c_void, u64) -> c_int;
        cuPointerSetAttribute(*const c_void, c_int, u64) -> c_int;
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> c_int;
        cuMemFreeHost(*mut c_void) -> c_int;
        cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle) -> c_int;
        cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, Handle) -> c_int;
        cuStreamCreate(*mut Handle, c_uint) -> c_int;
        cuStreamSynchronize(Handle) -> c_int;
        cuStreamDestroy_v2(Handle) -> c_int;
        cuEventCreate(*mut Handle, c_uint) -> c_int;
        cuEventRecord(Handle, Handle) -> c_int;
        cuEventQuery(Handle) -> c_int;
        cuEventSynchronize(Handle) -> c_int;
        cuEventDestroy_v2(Handle) -> c_int;
    }
    may_lack {
        cuMemGetHandleForAddressRange(*mut c_void, u64, usize, c_int, u64) -> c_int;
        cuFlushGPUDirectRDMAWrites(c_int, c_int) -> c_int;
    }
}

pub(super) fn version(api: &Api) -> Result<i32, GpuError> {
    let mut version = 0;
    // SAFETY: it writes an integer; it may be called before `cuInit`.
    match unsafe { (api.cuDriverGetVersion)(&raw mut version) } {
        0 => Ok(version),
        code => Err(failed(api, "cuDriverGetVersion", code)),
    }
}

pub(super) fn init(api: &Api) -> Result<(), GpuError> {
    // SAFETY: it takes no memory, and may be called again and by any thread.
    match unsafe { (api.cuInit)(0) } {
        0 => Ok(()),
        code => Err(failed(api, "cuInit", code)),
    }
}

/// The error of a call that failed.
pub(super) fn failed(api: &Api, call: &'static str, code: i32) -> GpuError {
    let mut name = null();
    // SAFETY: it writes a pointer; any number is accepted.
    let known = unsafe { (api.cuGetErrorName)(code, &raw mut name) };
    let name: String = if known != 0 || name.is_null() {
        "a code that the driver has no name for".into()
    } else {
        // SAFETY: the driver's names are constants that end in a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    GpuError::Call { call, code: Code(code), name }
}

/// `CUpointer_attribute`.
pub(super) mod pointer {
    pub(in super::super) const CONTEXT: i32 = 1;
    pub(in super::super) const MEMORY_TYPE: i32 = 2;
    pub(in super::super) const SYNC_MEMOPS: i32 = 6;
    pub(in super::super) const BUFFER_ID: i32 = 7;
    pub(in super::super) const IS_MANAGED: i32 = 8;
    pub(in super::super) const DEVICE_ORDINAL: i32 = 9;
    pub(in super::super) const IS_LEGACY_CUDA_IPC_CAPABLE: i32 = 10;
    pub(in super::super) const RANGE_START_ADDR: i32 = 11;
    pub(in super::super) const RANGE_SIZE: i32 = 12;
    pub(in super::super) const ALLOWED_HANDLE_TYPES: i32 = 14;
    pub(in super::super) const IS_GPU_DIRECT_RDMA_CAPABLE: i32 = 15;
    pub(in super::super) const MEMPOOL_HANDLE: i32 = 17;
}

/// `CUdevice_attribute`.
pub(super) mod device {
    pub(in super::super) const FLUSH_WRITES_OPTIONS: i32 = 117;
    pub(in super::super) const WRITES_ORDERING: i32 = 118;
    pub(in super::super) const DMA_BUF_SUPPORTED: i32 = 124;
}
