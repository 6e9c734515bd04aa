//! Shadow doorbells: values that the host leaves in memory, and the index from which on it must ring.

use super::bells::Bell;
use super::dma::Purpose;
use super::model::Core;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use nvme_proto::register::DoorbellKind;
use nvme_proto::{BusAddr, PageSize, Qid, dbbuf};

/// Where the buffers lie, since the last Doorbell Buffer Config. A reset forgets them.
#[derive(Debug, Default)]
pub(super) struct ShadowBuffers {
    /// 0 for none.
    shadow: AtomicU64,
    event_index: AtomicU64,
    page_exponent: AtomicU32,
}

impl ShadowBuffers {
    pub(super) fn set(&self, page: PageSize, shadow: BusAddr, event_index: BusAddr) {
        // Relaxed: published by the store of `shadow`.
        self.event_index.store(event_index.0, Ordering::Relaxed);
        self.page_exponent.store(page.exponent().into(), Ordering::Relaxed);
        self.shadow.store(shadow.0, Ordering::Release);
    }

    pub(super) fn forget(&self) {
        self.shadow.store(0, Ordering::Release);
    }

    pub(super) fn in_use(&self) -> bool {
        self.shadow.load(Ordering::Acquire) != 0
    }
}

impl Core {
    /// Where a doorbell's shadow and its event index lie. The admin queue has none: common drivers store no shadow
    /// for it. Neither has a queue whose entry lies beyond the page.
    pub(super) fn shadow_of(&self, qid: Qid, kind: DoorbellKind) -> Option<[BusAddr; 2]> {
        let base = self.shadow.shadow.load(Ordering::Acquire);
        if base == 0 || qid.is_admin() {
            return None;
        }
        let offset = dbbuf::entry_offset(qid, kind, self.config.dstrd);
        let page_bytes = 4096 << self.shadow.page_exponent.load(Ordering::Relaxed);
        let event_index = self.shadow.event_index.load(Ordering::Relaxed);
        (offset + 4 <= page_bytes).then(|| [BusAddr(base + offset), BusAddr(event_index + offset)])
    }

    /// Takes over what the shadow of a doorbell says, if it has one.
    pub(super) fn poll_shadow(&self, qid: Qid, kind: DoorbellKind, bell: &Bell) {
        let Some([shadow, _]) = self.shadow_of(qid, kind) else { return };
        match self.dma.load(shadow, Purpose::Shadow) {
            Err(_) => self.fail(),
            Ok(value) => {
                if bell.poll(kind, value).is_none() && bell.complain(value) {
                    self.bad_value(qid, kind, value);
                }
            }
        }
    }

    /// Tells the host that the doorbell has to be rung for anything after `position`. The caller fences, and then
    /// looks at the shadow again: the host may have stored it just before it could know.
    pub(super) fn ask_for_doorbell(&self, qid: Qid, kind: DoorbellKind, position: u32) {
        if let Some([_, event_index]) = self.shadow_of(qid, kind)
            && self.dma.store(event_index, position, Purpose::Shadow).is_err()
        {
            self.fail();
        }
    }
}
