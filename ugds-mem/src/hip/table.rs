//! The functions of HIP and HSA that are used, and the numbers they take.
//!
//! UNSAFETY: calls the libraries before there is a runtime to ask.

#![allow(unsafe_code)]

use super::{Code, GpuError};
use crate::gpu::load::table;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::format;
use std::string::String;

/// `hipStream_t`, `hipEvent_t`: pointers to what only the runtime knows.
pub(super) type Handle = *mut c_void;

/// `hipPointerAttribute_t`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct PointerAttributes {
    pub(super) kind: c_int,
    pub(super) device: c_int,
    pub(super) device_pointer: *mut c_void,
    pub(super) host_pointer: *mut c_void,
    pub(super) is_managed: c_int,
    pub(super) flags: c_uint,
}

const _: () = assert!(size_of::<PointerAttributes>() == 32);

table! {
    /// Functions of HIP, by its names.
    Api
    needs {
        hipInit(c_uint) -> c_int;
        hipRuntimeGetVersion(*mut c_int) -> c_int;
        hipGetErrorName(c_int) -> *const c_char;
        hipGetDevice(*mut c_int) -> c_int;
        hipSetDevice(c_int) -> c_int;
        hipDeviceGetPCIBusId(*mut c_char, c_int, c_int) -> c_int;
        hipPointerGetAttributes(*mut PointerAttributes, *const c_void) -> c_int;
        hipPointerGetAttribute(*mut c_void, c_int, u64) -> c_int;
        hipPointerSetAttribute(*const c_void, c_int, u64) -> c_int;
        hipMemGetAddressRange(*mut u64, *mut usize, u64) -> c_int;
        hipHostMalloc(*mut *mut c_void, usize, c_uint) -> c_int;
        hipHostFree(*mut c_void) -> c_int;
        hipMemcpyAsync(*mut c_void, *const c_void, usize, c_int, Handle) -> c_int;
        hipStreamCreateWithFlags(*mut Handle, c_uint) -> c_int;
        hipStreamSynchronize(Handle) -> c_int;
        hipStreamDestroy(Handle) -> c_int;
        hipEventCreateWithFlags(*mut Handle, c_uint) -> c_int;
        hipEventRecord(Handle, Handle) -> c_int;
        hipEventQuery(Handle) -> c_int;
        hipEventSynchronize(Handle) -> c_int;
        hipEventDestroy(Handle) -> c_int;
    }
    may_lack {}
}

table! {
    /// Functions of the HSA runtime, by its names.
    Hsa
    needs {
        hsa_init() -> c_int;
        hsa_system_get_info(c_int, *mut c_void) -> c_int;
        hsa_amd_portable_export_dmabuf(*const c_void, usize, *mut c_int, *mut u64) -> c_int;
        hsa_amd_portable_close_dmabuf(c_int) -> c_int;
    }
    may_lack {}
}

pub(super) fn version(api: &Api) -> Result<i32, GpuError> {
    let mut version = 0;
    // SAFETY: it writes an integer.
    match unsafe { (api.hipRuntimeGetVersion)(&raw mut version) } {
        0 => Ok(version),
        code => Err(failed(api, "hipRuntimeGetVersion", code)),
    }
}

pub(super) fn init(api: &Api) -> Result<(), GpuError> {
    // SAFETY: it takes no memory, and may be called again and by any thread.
    match unsafe { (api.hipInit)(0) } {
        0 => Ok(()),
        code => Err(failed(api, "hipInit", code)),
    }
}

/// Starts HSA, or counts one more user of it: HIP has started it.
pub(super) fn started(hsa: Hsa) -> Result<Hsa, GpuError> {
    // SAFETY: it takes no memory, and may be called again and by any thread.
    match unsafe { (hsa.hsa_init)() } {
        0 => Ok(hsa),
        code => Err(hsa_failed("hsa_init", code)),
    }
}

/// The error of a call of HIP that failed.
pub(super) fn failed(api: &Api, call: &'static str, code: i32) -> GpuError {
    // SAFETY: any number is accepted.
    let name = unsafe { (api.hipGetErrorName)(code) };
    let name: String = if name.is_null() {
        "a code that HIP has no name for".into()
    } else {
        // SAFETY: HIP's names are constants that end in a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    GpuError::Call { call, code: Code(code), name }
}

/// The error of a call of HSA that failed; the numbers are those of `hsa_status_t`.
pub(super) fn hsa_failed(call: &'static str, code: i32) -> GpuError {
    GpuError::Call { call, code: Code(code), name: format!("HSA status {code:#x}") }
}

/// `hipPointer_attribute`.
pub(super) mod pointer {
    pub(in super::super) const SYNC_MEMOPS: i32 = 6;
    pub(in super::super) const BUFFER_ID: i32 = 7;
    pub(in super::super) const MEMPOOL_HANDLE: i32 = 17;
}
