//! Loads and stores of device registers.
//!
//! UNSAFETY: accesses mapped registers by address.

#![allow(unsafe_code)]

use core::ptr::NonNull;

/// Loads a 32-bit register.
///
/// # Safety
///
/// `register` is mapped, and aligned to four bytes.
#[inline]
pub(super) unsafe fn load(register: NonNull<u32>) -> u32 {
    #[cfg(not(target_arch = "aarch64"))]
    // SAFETY: the caller's promise.
    let value = unsafe { register.read_volatile() };
    // A volatile access may become an instruction with write-back, which a hypervisor can't emulate; this can't.
    #[cfg(target_arch = "aarch64")]
    let value = {
        let value: u32;
        // SAFETY: the caller's promise; the instruction touches nothing else.
        unsafe {
            core::arch::asm!("ldr {0:w}, [{1}]", out(reg) value, in(reg) register.as_ptr(), options(nostack));
        }
        value
    };
    u32::from_le(value)
}

/// Stores a 32-bit register.
///
/// # Safety
///
/// As for [`load`].
#[inline]
pub(super) unsafe fn store(register: NonNull<u32>, value: u32) {
    let value = value.to_le();
    #[cfg(not(target_arch = "aarch64"))]
    // SAFETY: the caller's promise.
    unsafe {
        register.write_volatile(value);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's promise; the instruction touches nothing else. The barrier keeps stores to ordinary memory
    // before the one to the device.
    unsafe {
        core::arch::asm!("dmb oshst", "str {0:w}, [{1}]", in(reg) value, in(reg) register.as_ptr(), options(nostack));
    }
}
