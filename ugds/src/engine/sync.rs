//! What threads share is made of: the real things, or loom's when a model is checked (`cargo xtask model`).

#[cfg(not(loom))]
pub(super) use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
    thread::{self, Thread, ThreadId},
};

#[cfg(loom)]
pub(super) use loom::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
    thread::{self, Thread, ThreadId},
};
