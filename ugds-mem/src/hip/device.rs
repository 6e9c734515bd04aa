//! The thread's current device: what HIP has where CUDA has contexts.
//!
//! UNSAFETY: asks and sets the current device of the calling thread.

#![allow(unsafe_code)]

use super::{GpuError, Hip};

/// Runs `f` with `device` current, and then the caller's again.
pub(super) fn within<T>(
    hip: &Hip,
    device: i32,
    f: impl FnOnce(&Hip) -> Result<T, GpuError>,
) -> Result<T, GpuError> {
    let mut before = 0;
    // SAFETY: it writes an integer.
    hip.said("hipGetDevice", unsafe { (hip.api.hipGetDevice)(&raw mut before) })?;
    // SAFETY: any number is accepted.
    hip.said("hipSetDevice", unsafe { (hip.api.hipSetDevice)(device) })?;
    let _restored = Restored { hip, before };
    f(hip)
}

/// Makes the caller's device current again, also when a panic goes by.
struct Restored<'a> {
    hip: &'a Hip,
    before: i32,
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        // SAFETY: it was current a moment ago.
        let _ = unsafe { (self.hip.api.hipSetDevice)(self.before) };
    }
}
