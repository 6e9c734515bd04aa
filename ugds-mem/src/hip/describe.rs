//! What HIP says about addresses.
//!
//! UNSAFETY: hands HIP places to write its answers to.

#![allow(unsafe_code)]

use super::table::{PointerAttributes, pointer as attribute};
use super::{Code, GpuError, Hip, Pointer};
use crate::gpu::{Kind, PciAddress};
use core::ffi::{c_char, c_void};
use core::ptr::null_mut;
use std::format;

pub(super) fn describe(hip: &Hip, address: u64) -> Result<Pointer, GpuError> {
    let mut said = PointerAttributes {
        kind: 0,
        device: -1,
        device_pointer: null_mut(),
        host_pointer: null_mut(),
        is_managed: 0,
        flags: 0,
    };
    let at: *const c_void = core::ptr::without_provenance(address as usize);
    // SAFETY: it writes a structure of this type; the address is only looked up.
    let code = unsafe { (hip.api.hipPointerGetAttributes)(&raw mut said, at) };
    // Unknown memory is said by an invalid value, or by success and the type of what is not registered.
    if Code(code) == Code::INVALID_VALUE || (code == 0 && said.kind == 0) {
        return Ok(Pointer::unknown(address));
    }
    hip.said("hipPointerGetAttributes", code)?;
    let kind = match said.kind {
        _ if said.is_managed != 0 => Kind::Managed,
        1 => Kind::Host,
        2 if ask(hip, attribute::MEMPOOL_HANDLE, address).is_some_and(|pool| pool != 0) => Kind::Pool,
        2 => Kind::Device,
        3 | 11 => Kind::Managed,
        other => Kind::Other(other as u32),
    };
    let (base, len_bytes) = if kind.is_gpu() { range(hip, address)? } else { (address, 0) };
    Ok(Pointer {
        address,
        kind,
        base,
        len_bytes,
        ordinal: said.device,
        pci: if kind.is_gpu() { Some(pci(hip, said.device)?) } else { None },
        buffer_id: ask(hip, attribute::BUFFER_ID, address).unwrap_or(0),
        rdma_capable: None,
        handle_types: 0,
        context: 0,
    })
}

fn range(hip: &Hip, address: u64) -> Result<(u64, u64), GpuError> {
    let (mut base, mut len) = (0, 0);
    // SAFETY: it writes an address and a length.
    let code = unsafe { (hip.api.hipMemGetAddressRange)(&raw mut base, &raw mut len, address) };
    hip.said("hipMemGetAddressRange", code)?;
    Ok((base, len as u64))
}

/// One attribute, which this version or this memory may not have.
fn ask(hip: &Hip, attribute: i32, address: u64) -> Option<u64> {
    let mut answer = 0u64;
    // SAFETY: the answer is written to 8 bytes, the most that any attribute asked for here takes.
    let code = unsafe { (hip.api.hipPointerGetAttribute)((&raw mut answer).cast(), attribute, address) };
    (code == 0).then_some(answer)
}

fn pci(hip: &Hip, device: i32) -> Result<PciAddress, GpuError> {
    let mut bytes = [0u8; 32];
    // SAFETY: it writes at most as many bytes as it is told.
    let code = unsafe {
        (hip.api.hipDeviceGetPCIBusId)(bytes.as_mut_ptr().cast::<c_char>(), bytes.len() as i32, device)
    };
    hip.said("hipDeviceGetPCIBusId", code)?;
    let text = crate::gpu::text(&bytes);
    PciAddress::parse(&text).ok_or_else(|| GpuError::Nonsense {
        call: "hipDeviceGetPCIBusId",
        what: format!("`{text}`, where DOMAIN:BUS:DEVICE.FUNCTION is expected"),
    })
}
