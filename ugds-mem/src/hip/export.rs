//! GPU memory as a DMA-buf, by the HSA runtime.
//!
//! UNSAFETY: hands HSA places to write its answers to, and takes over the descriptor.

#![allow(unsafe_code)]

use super::table::{Hsa, hsa_failed, pointer as attribute};
use super::{GpuError, Hip, Pointer, WhyStaged, device};
use crate::dmabuf::Dmabuf;
use core::ffi::c_void;
use std::format;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::string::{String, ToString};

/// Exports the whole allocation, which HSA accepts whatever its alignment, and describes the part.
pub(super) fn export(hip: &Hip, pointer: &Pointer, len_bytes: u64) -> Result<Dmabuf, WhyStaged> {
    let hsa = hip.hsa.as_ref().map_err(|error| WhyStaged::Export(error.clone()))?;
    if !is_supported(hsa).map_err(WhyStaged::Export)? {
        return Err(WhyStaged::NoDmabuf);
    }
    device::within(hip, pointer.ordinal, |hip| synchronous(hip, pointer.address))
        .map_err(WhyStaged::Export)?;
    let (mut raw, mut start) = (-1, 0);
    let base: *const c_void = core::ptr::without_provenance(pointer.base as usize);
    // SAFETY: it writes an integer and an offset; the address is only looked up.
    let code = unsafe {
        (hsa.hsa_amd_portable_export_dmabuf)(base, pointer.len_bytes as usize, &raw mut raw, &raw mut start)
    };
    if code != 0 {
        return Err(WhyStaged::Export(hsa_failed("hsa_amd_portable_export_dmabuf", code)));
    }
    let unusable = |reason| WhyStaged::Unusable { reason };
    let fd = take_over(hsa, raw).map_err(unusable)?;
    let lead = pointer.address - pointer.base;
    let offset = start.checked_add(lead).ok_or_else(|| unusable(format!("it begins at offset {start}")))?;
    Dmabuf::of(fd, offset, len_bytes).map_err(unusable)
}

fn is_supported(hsa: &Hsa) -> Result<bool, GpuError> {
    let mut answer = 0u64;
    // SAFETY: it writes a boolean of one byte.
    let code = unsafe { (hsa.hsa_system_get_info)(DMABUF_SUPPORTED, (&raw mut answer).cast()) };
    if code != 0 {
        return Err(hsa_failed("hsa_system_get_info", code));
    }
    Ok(answer as u8 != 0)
}

/// A copy of the descriptor; the original is closed in HSA's own way.
fn take_over(hsa: &Hsa, raw: i32) -> Result<OwnedFd, String> {
    if raw < 0 {
        return Err(format!("descriptor {raw}, where 0 or more is accepted"));
    }
    // SAFETY: only copied here, which fails if it is not open; HSA leaves it open until it is told to close it.
    let copy = unsafe { BorrowedFd::borrow_raw(raw) }.as_fd().try_clone_to_owned();
    let copy = copy.map_err(|error| error.to_string())?;
    // SAFETY: HSA opened it, and it is closed once.
    let _ = unsafe { (hsa.hsa_amd_portable_close_dmabuf)(raw) };
    Ok(copy)
}

/// Makes the GPU's synchronous operations on an allocation synchronous in each case.
fn synchronous(hip: &Hip, address: u64) -> Result<(), GpuError> {
    let on = 1u32;
    // SAFETY: it reads an integer.
    let code =
        unsafe { (hip.api.hipPointerSetAttribute)((&raw const on).cast(), attribute::SYNC_MEMOPS, address) };
    hip.said("hipPointerSetAttribute", code)
}

/// `HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED`.
const DMABUF_SUPPORTED: i32 = 0x204;
