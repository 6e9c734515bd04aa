//! What threads share is made of: the real things, or loom's when a model is checked (`cargo xtask model`).

#[cfg(loom)]
pub(super) use loom::{
    sync::MutexGuard,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    thread::{self, Thread, ThreadId},
};
/// A lock that parks and is not poisoned: nothing that it guards here is left half-changed by a panic, and asking about
/// one costs every request some instructions.
#[cfg(not(loom))]
pub(super) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    thread::{self, Thread, ThreadId},
};

/// Loom's lock, as the real one is used.
#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
