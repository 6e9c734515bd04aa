//! Buffers and codes of the crate `cudarc`, with the feature `cudarc`.
//!
//! Calls of `cudarc` itself panic on a machine without the driver's library; nothing here makes one before its caller
//! has a buffer.
//!
//! UNSAFETY: takes buffers from callers, who promise that they last.

#![allow(unsafe_code)]

use super::Cuda;
use crate::gpu::{Code, GpuError, How, Registration, Vendor};
use cudarc::driver::{CudaStream, DevicePtr, DriverError, sys};
use std::sync::Arc;

/// Registers a buffer, or a view of one.
///
/// `stream` is made to wait for what writes the buffer, as `cudarc` does for each use; whoever reads it next synchronizes
/// with `stream` first.
///
/// # Errors
///
/// As [`Registration::new`].
///
/// # Safety
///
/// As of [`Registration::new`]: a buffer that is dropped frees its memory.
pub unsafe fn register<T>(
    cuda: &Arc<Cuda>,
    buffer: &impl DevicePtr<T>,
    stream: &CudaStream,
    how: How,
) -> Result<Arc<Registration>, GpuError> {
    let vendor: Arc<dyn Vendor> = Arc::<Cuda>::clone(cuda);
    let (address, _read) = buffer.device_ptr(stream);
    // SAFETY: the caller's promise.
    unsafe { Registration::new(&vendor, address, buffer.num_bytes(), how) }
}

impl From<sys::CUresult> for Code {
    fn from(code: sys::CUresult) -> Self {
        Self(code as i32)
    }
}

impl From<DriverError> for Code {
    fn from(error: DriverError) -> Self {
        error.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_keep_their_numbers() {
        assert_eq!(Code::from(sys::CUresult::CUDA_SUCCESS), Code::SUCCESS);
        let error = DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED);
        assert_eq!(Code::from(error), Code::NOT_SUPPORTED);
    }
}
