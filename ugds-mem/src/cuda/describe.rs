//! What the driver says about addresses and GPUs.
//!
//! UNSAFETY: hands the driver places to write its answers to.

#![allow(unsafe_code)]

use super::table::{device, pointer as attribute};
use super::{Cuda, GpuError, PeerWrites, Pointer};
use crate::gpu::{Kind, PciAddress};
use core::ffi::{c_char, c_void};
use std::format;

/// Asks about an address. Needs no context.
pub(super) fn describe(cuda: &Cuda, address: u64) -> Result<Pointer, GpuError> {
    // Each as large as any answer: a driver writes 4 or 8 bytes, and managed memory is told in one or in four.
    let (mut memory_type, mut managed, mut ordinal) = (0u64, 0u64, u64::MAX);
    let (mut base, mut size, mut buffer_id) = (0u64, 0u64, 0u64);
    let mut attributes = [
        attribute::MEMORY_TYPE,
        attribute::IS_MANAGED,
        attribute::DEVICE_ORDINAL,
        attribute::RANGE_START_ADDR,
        attribute::RANGE_SIZE,
        attribute::BUFFER_ID,
    ];
    let mut answers: [*mut c_void; 6] = [
        (&raw mut memory_type).cast(),
        (&raw mut managed).cast(),
        (&raw mut ordinal).cast(),
        (&raw mut base).cast(),
        (&raw mut size).cast(),
        (&raw mut buffer_id).cast(),
    ];
    // SAFETY:
    // - both arrays have as many entries as the first argument says;
    // - each answer is written to 8 bytes of its own, which is as long as the longest of them;
    // - the address is only looked up.
    let code = unsafe {
        (cuda.api.cuPointerGetAttributes)(
            attributes.len() as u32,
            attributes.as_mut_ptr(),
            answers.as_mut_ptr(),
            address,
        )
    };
    // Unknown memory is said by success with nothing in the answers, or, by some drivers, by an invalid value.
    if code == 1 || (code == 0 && memory_type as u32 == 0) {
        return Ok(Pointer::unknown(address));
    }
    cuda.said("cuPointerGetAttributes", code)?;
    let ordinal = ordinal as u32 as i32;
    let kind = match memory_type as u32 {
        _ if managed as u8 != 0 => Kind::Managed,
        1 => Kind::Host,
        2 => device_kind(cuda, address),
        4 => Kind::Managed,
        other => Kind::Other(other),
    };
    let rdma_capable =
        ask(cuda, attribute::IS_GPU_DIRECT_RDMA_CAPABLE, address).map(|answer| answer as u8 != 0);
    Ok(Pointer {
        address,
        kind,
        base,
        len_bytes: size,
        ordinal,
        pci: if kind.is_gpu() { Some(pci(cuda, ordinal)?) } else { None },
        buffer_id,
        rdma_capable: if kind.is_gpu() { rdma_capable } else { None },
        handle_types: ask(cuda, attribute::ALLOWED_HANDLE_TYPES, address).unwrap_or(0),
        context: ask(cuda, attribute::CONTEXT, address).unwrap_or(0) as usize,
    })
}

/// Tells ordinary allocations from those of pools and of virtual mappings.
fn device_kind(cuda: &Cuda, address: u64) -> Kind {
    if ask(cuda, attribute::MEMPOOL_HANDLE, address).is_some_and(|pool| pool != 0) {
        return Kind::Pool;
    }
    // Virtual mappings belong to no context, and can't be shared by the older way.
    let context = ask(cuda, attribute::CONTEXT, address).unwrap_or(0);
    let legacy = ask(cuda, attribute::IS_LEGACY_CUDA_IPC_CAPABLE, address).unwrap_or(0) as u8 != 0;
    if context == 0 && !legacy { Kind::Virtual } else { Kind::Device }
}

/// One attribute, which this driver or this memory may not have.
fn ask(cuda: &Cuda, attribute: i32, address: u64) -> Option<u64> {
    let mut answer = 0u64;
    // SAFETY: the answer is written to 8 bytes, the most that any attribute asked for here takes.
    let code = unsafe { (cuda.api.cuPointerGetAttribute)((&raw mut answer).cast(), attribute, address) };
    (code == 0).then_some(answer)
}

/// The driver's handle of a GPU.
pub(super) fn device(cuda: &Cuda, ordinal: i32) -> Result<i32, GpuError> {
    let mut device = 0;
    // SAFETY: it writes an integer.
    cuda.said("cuDeviceGet", unsafe { (cuda.api.cuDeviceGet)(&raw mut device, ordinal) })?;
    Ok(device)
}

fn pci(cuda: &Cuda, ordinal: i32) -> Result<PciAddress, GpuError> {
    let device = device(cuda, ordinal)?;
    let mut bytes = [0u8; 32];
    // SAFETY: it writes at most as many bytes as it is told, the last of them a zero.
    let code = unsafe {
        (cuda.api.cuDeviceGetPCIBusId)(bytes.as_mut_ptr().cast::<c_char>(), bytes.len() as i32, device)
    };
    cuda.said("cuDeviceGetPCIBusId", code)?;
    let text = crate::gpu::text(&bytes);
    PciAddress::parse(&text).ok_or_else(|| GpuError::Nonsense {
        call: "cuDeviceGetPCIBusId",
        what: format!("`{text}`, where DOMAIN:BUS:DEVICE.FUNCTION is expected"),
    })
}

/// An attribute of a GPU. `None` when the driver does not know it.
pub(super) fn device_attribute(cuda: &Cuda, attribute: i32, ordinal: i32) -> Result<Option<i32>, GpuError> {
    let device = device(cuda, ordinal)?;
    let mut value = 0;
    // SAFETY: it writes an integer; any number of an attribute is accepted.
    let code = unsafe { (cuda.api.cuDeviceGetAttribute)(&raw mut value, attribute, device) };
    if code == 1 {
        return Ok(None);
    }
    cuda.said("cuDeviceGetAttribute", code)?;
    Ok(Some(value))
}

pub(super) fn peer_writes(cuda: &Cuda, ordinal: i32) -> Result<PeerWrites, GpuError> {
    let attribute = |number| device_attribute(cuda, number, ordinal).map(Option::unwrap_or_default);
    // `CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER` is 100; a larger one orders them for more than the owner.
    if attribute(device::WRITES_ORDERING)? >= 100 {
        return Ok(PeerWrites::InOrder);
    }
    // `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST` is bit 0.
    let by_host = attribute(device::FLUSH_WRITES_OPTIONS)? & 1 != 0;
    let can = by_host && cuda.api.cuFlushGPUDirectRDMAWrites.is_ok();
    Ok(if can { PeerWrites::AfterFlush } else { PeerWrites::Unproven })
}
