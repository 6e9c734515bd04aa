//! Asynchronous events: the result of an Asynchronous Event Request (figure "Asynchronous Event Information").

use crate::admin::LogId;
use core::fmt;

/// An event, as DW0 of the completion tells it. Reading its log without [`retain_event`] lets the next one come.
///
/// [`retain_event`]: crate::admin::GetLogPage::retain_event
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The type, bits 2:0.
    pub kind: EventType,
    /// What happened, bits 15:8: an [`ErrorEvent`], [`HealthEvent`] or [`NoticeEvent`] by type.
    pub info: u8,
    /// The log page to read, bits 23:16.
    pub log: LogId,
}

impl Event {
    /// The event that the result `dw0` tells.
    #[must_use]
    pub const fn from_result(dw0: u32) -> Self {
        Self { kind: EventType(dw0 as u8 & 0b111), info: (dw0 >> 8) as u8, log: LogId((dw0 >> 16) as u8) }
    }

    /// The result that tells this event.
    #[must_use]
    pub const fn to_result(self) -> u32 {
        (self.log.0 as u32) << 16 | (self.info as u32) << 8 | (self.kind.0 & 0b111) as u32
    }

    /// An error.
    #[must_use]
    pub const fn error(info: ErrorEvent) -> Self {
        Self { kind: EventType::ERROR, info: info.0, log: LogId::ERROR }
    }

    /// A warning about the device's health.
    #[must_use]
    pub const fn health(info: HealthEvent) -> Self {
        Self { kind: EventType::HEALTH, info: info.0, log: LogId::SMART }
    }

    /// A notice, whose details are in `log`.
    #[must_use]
    pub const fn notice(info: NoticeEvent, log: LogId) -> Self {
        Self { kind: EventType::NOTICE, info: info.0, log }
    }

    /// The words for [`info`](Self::info). `None` for what this crate does not know.
    #[must_use]
    pub const fn info_name(&self) -> Option<&'static str> {
        match self.kind {
            EventType::ERROR => ErrorEvent(self.info).name(),
            EventType::HEALTH => HealthEvent(self.info).name(),
            EventType::NOTICE => NoticeEvent(self.info).name(),
            _ => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info_name() {
            Some(name) => write!(f, "{}: {name}", self.kind),
            None => write!(f, "{}: {:02x}h", self.kind, self.info),
        }
    }
}

open_enum! {
    /// The type of an event.
    EventType(u8) {
        ERROR = 0, "error";
        HEALTH = 1, "SMART / health";
        NOTICE = 2, "notice";
        IO_COMMAND_SET = 6, "I/O command set";
        VENDOR = 7, "vendor specific";
    }
}

open_enum! {
    /// What an event of type error tells.
    ErrorEvent(u8) {
        INVALID_DOORBELL_REGISTER = 0, "write to invalid doorbell register";
        INVALID_DOORBELL_VALUE = 1, "invalid doorbell write value";
        DIAGNOSTIC_FAILURE = 2, "diagnostic failure";
        PERSISTENT_INTERNAL_ERROR = 3, "persistent internal error";
        TRANSIENT_INTERNAL_ERROR = 4, "transient internal error";
        FIRMWARE_LOAD_ERROR = 5, "firmware image load error";
    }
}

open_enum! {
    /// What an event of type SMART / health tells.
    HealthEvent(u8) {
        RELIABILITY = 0, "NVM subsystem reliability";
        TEMPERATURE = 1, "temperature threshold";
        SPARE = 2, "spare below threshold";
    }
}

open_enum! {
    /// What an event of type notice tells.
    NoticeEvent(u8) {
        NAMESPACE_CHANGED = 0, "attached namespace attribute changed";
        FIRMWARE_ACTIVATION = 1, "firmware activation starting";
        TELEMETRY_CHANGED = 2, "telemetry log changed";
        ANA_CHANGE = 3, "asymmetric namespace access change";
        PREDICTABLE_LATENCY = 4, "predictable latency event aggregate log change";
        LBA_STATUS = 5, "LBA status information alert";
        ENDURANCE_GROUP = 6, "endurance group event aggregate log change";
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn events_by_the_figure() {
        let cases = [
            (
                Event::error(ErrorEvent::INVALID_DOORBELL_VALUE),
                0x01_0100,
                "error: invalid doorbell write value",
            ),
            (Event::health(HealthEvent::SPARE), 0x02_0201, "SMART / health: spare below threshold"),
            (
                Event::notice(NoticeEvent::NAMESPACE_CHANGED, LogId::CHANGED_NAMESPACES),
                0x04_0002,
                "notice: attached namespace attribute changed",
            ),
            (Event { kind: EventType::VENDOR, info: 9, log: LogId(0xc0) }, 0xc0_0907, "vendor specific: 09h"),
        ];
        for (event, dw0, text) in cases {
            assert_eq!(event.to_result(), dw0);
            assert_eq!(Event::from_result(dw0 | 0xff00_00f8), event, "reserved bits do not count");
            assert_eq!(event.to_string(), text);
        }
    }
}
