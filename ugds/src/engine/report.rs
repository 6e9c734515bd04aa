//! The report that is made when a device is given up.

use super::core::Core;
use nvme_proto::register::Property;
use std::fmt::Write;
use ugds_hal::Backend;
use ugds_queue::Wedge;

/// Describes the device at this moment: why it is given up, its registers, what is in flight, and the last events.
#[cold]
pub(super) fn report<B: Backend>(core: &Core<B>, reason: Wedge) -> String {
    let mut text = format!("device given up: {reason}\n");
    registers(core, &mut text);
    for (queue, channel) in core.channels().iter().enumerate() {
        channel.describe(core.qid(queue), &mut text);
    }
    text.push_str("last events\n");
    for line in core.event_lines() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn registers<B: Backend>(core: &Core<B>, text: &mut String) {
    let shown =
        [("CAP", Property::CAP), ("VS", Property::VS), ("CC", Property::CC), ("CSTS", Property::CSTS)];
    for (name, property) in shown {
        let value = match core.backend().property_read(property) {
            Ok(value) => format!("{value:#x}"),
            Err(error) => error.to_string(),
        };
        let _ = writeln!(text, "  {name:5} {value}");
    }
}
