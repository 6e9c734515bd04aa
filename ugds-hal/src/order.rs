//! The three points where the order of memory accesses matters between this process and a device.

use core::sync::atomic::{Ordering, fence};

/// Makes everything stored so far (commands, list entries) visible to the device before the doorbell store that
/// follows.
///
/// The release fence orders plain stores before the doorbell. On x86 stores to uncached memory are not reordered
/// with earlier stores, so it costs no instruction there.
#[inline]
pub(crate) fn before_doorbell() {
    fence(Ordering::Release);
}

/// Keeps the loads of a completion's other words, and of the data it announces, behind the load of its phase tag.
#[inline]
pub(crate) fn after_phase() {
    fence(Ordering::Acquire);
}

/// Orders a store to a shadow doorbell before the load of its event index.
///
/// Store before load is the one order that no processor keeps by itself, so this is a full fence; without it both
/// sides could see the old value and the doorbell would be lost.
#[inline]
pub(crate) fn between_shadow_and_event_index() {
    fence(Ordering::SeqCst);
}
