//! GPU memory with stand-ins for vendors' libraries: what each call answers, and every way in which one fails.
//!
//! UNSAFETY: plays the application: allocates by the stand-ins, and promises that memory lasts.

#![allow(unsafe_code)]

mod app;
mod cuda;
mod export;
mod hip;
mod on_the_fly;
mod rdma;
mod staging;
#[allow(unreachable_pub, reason = "elsewhere it is a part of a library")]
#[path = "../../../tests/src/stubs.rs"]
mod stubs;
