//! Only the caller can promise that memory of its own lasts.

use std::ptr::NonNull;

fn register(device: &ugds::Device, memory: &mut [u8]) {
    let _ = device.register(NonNull::from(&mut *memory).cast(), memory.len());
}

fn main() {}
