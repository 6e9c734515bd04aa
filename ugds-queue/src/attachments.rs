//! The memory that a queue's commands move.

use crate::slots::Slots;
use alloc::sync::Arc;
use alloc::vec::Vec;
use nvme_proto::Cid;
use ugds_hal::DomainId;
use ugds_mem::{ListPage, Mapped};

/// Memory is in use by commands that are outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory is in use by outstanding commands")]
pub struct Busy;

/// Holds each mapping that a queue has used, once, so that no command needs a reference of its own.
///
/// Dropped while the device may still move data, it leaks what it holds.
#[derive(Debug)]
pub(crate) struct Attachments {
    table: Vec<Option<Arc<Mapped>>>,
    /// Pages with the lists of commands, by slot. One stays until its slot gets another, or a page is wanted.
    lists: Vec<Option<(Cid, ListPage)>>,
    domain: DomainId,
    /// The commands that move it.
    pub(crate) slots: Slots,
}

/// Memory of another device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreign;

impl Attachments {
    pub(crate) fn new(domain: DomainId, slots: Slots) -> Self {
        Self { table: Vec::new(), lists: Vec::new(), domain, slots }
    }

    /// Whether `mapped` is held, which it is only when it belongs to this queue's device.
    #[inline]
    pub(crate) fn holds(&self, mapped: &Arc<Mapped>) -> bool {
        match self.table.get(mapped.index() as usize) {
            Some(Some(held)) => Arc::ptr_eq(held, mapped),
            _ => false,
        }
    }

    /// Makes sure that `mapped` is held.
    pub(crate) fn hold(&mut self, mapped: &Arc<Mapped>) -> Result<(), Foreign> {
        if self.holds(mapped) {
            return Ok(());
        }
        if mapped.domain() != self.domain {
            return Err(Foreign);
        }
        let index = mapped.index() as usize;
        if self.table.len() <= index {
            self.table.resize(index + 1, None);
        }
        // An index is used again only when its last mapping is gone, and what is held is not: so nothing is replaced.
        debug_assert!(self.table[index].is_none(), "two mappings of one domain share an index");
        self.table[index] = Some(Arc::clone(mapped));
        Ok(())
    }

    /// Keeps the page with the list of the command `cid`.
    #[inline]
    pub(crate) fn keep(&mut self, cid: Cid, page: ListPage) {
        let index = self.slots.index(cid);
        match self.lists.get_mut(index) {
            Some(kept) => *kept = Some((cid, page)),
            None => self.keep_first(index, cid, page),
        }
    }

    #[cold]
    fn keep_first(&mut self, index: usize, cid: Cid, page: ListPage) {
        self.lists.resize_with(usize::from(self.slots.count()), || None);
        self.lists[index] = Some((cid, page));
    }

    /// Gives the pages back whose commands have completed.
    pub(crate) fn sweep_lists(&mut self) {
        for kept in &mut self.lists {
            if kept.as_ref().is_some_and(|(cid, _)| !self.slots.is_outstanding(*cid)) {
                *kept = None;
            }
        }
    }

    /// Lets go of the mapping with this index. `None` when it was not held.
    pub(crate) fn release(&mut self, index: u32) -> Option<Arc<Mapped>> {
        self.table.get_mut(index as usize)?.take()
    }
}

impl Drop for Attachments {
    fn drop(&mut self) {
        if self.slots.outstanding().next().is_some() {
            core::mem::forget((core::mem::take(&mut self.table), core::mem::take(&mut self.lists)));
        }
    }
}
