//! Doorbell Buffer Config.

use super::Context;
use nvme_proto::admin::DoorbellBufferConfig;
use nvme_proto::status::generic;
use nvme_proto::{BusAddr, Status};

impl Context<'_> {
    pub(super) fn configure_doorbell_buffers(&self) -> Result<(), Status> {
        let DoorbellBufferConfig { shadow, event_idx } = DoorbellBufferConfig::from_sqe(self.sqe);
        let page = self.lane.page;
        let wrong = |addr: BusAddr| addr.0 == 0 || addr.offset_in(page) != 0;
        if wrong(shadow) || wrong(event_idx) {
            return Err(generic::INVALID_FIELD);
        }
        self.core.shadow.set(page, shadow, event_idx);
        Ok(())
    }
}
