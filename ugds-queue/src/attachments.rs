//! The memory that a queue's commands move.

use alloc::sync::Arc;
use alloc::vec::Vec;
use ugds_mem::Mapped;

/// Memory is in use by commands that are outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory is in use by outstanding commands")]
pub struct Busy;

/// Holds each mapping that a queue has used, once, so that no command needs a reference of its own.
///
/// Dropped while commands are outstanding, it leaks what it holds: the device may still write there.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    table: Vec<Option<Arc<Mapped>>>,
    /// Commands outstanding on the queue.
    pub(crate) outstanding: u32,
}

impl Attachments {
    /// Makes sure that `mapped` is held.
    #[inline]
    pub(crate) fn hold(&mut self, mapped: &Arc<Mapped>) {
        let held = self.table.get(mapped.index() as usize).and_then(Option::as_ref);
        if !held.is_some_and(|held| Arc::ptr_eq(held, mapped)) {
            self.attach(mapped);
        }
    }

    #[cold]
    fn attach(&mut self, mapped: &Arc<Mapped>) {
        let index = mapped.index() as usize;
        if self.table.len() <= index {
            self.table.resize(index + 1, None);
        }
        // An index is used again only when its last mapping is gone, and what is held is not: so nothing is replaced.
        debug_assert!(self.table[index].is_none(), "two mappings of one domain share an index");
        self.table[index] = Some(Arc::clone(mapped));
    }

    /// Lets go of the mapping with this index. `None` when it was not held.
    pub(crate) fn release(&mut self, index: u32) -> Option<Arc<Mapped>> {
        self.table.get_mut(index as usize)?.take()
    }
}

impl Drop for Attachments {
    fn drop(&mut self) {
        if self.outstanding != 0 {
            core::mem::forget(core::mem::take(&mut self.table));
        }
    }
}
