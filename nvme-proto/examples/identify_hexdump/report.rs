//! An Identify Controller page in words.

use nvme_proto::PageSize;
use nvme_proto::identify::{Controller, PowerState};
use nvme_proto::zerocopy::FromBytes;
use std::fmt::{Display, Write};

/// The page in `bytes`.
pub(crate) fn controller(bytes: &[u8]) -> Result<Controller, String> {
    Controller::read_from_bytes(bytes)
        .map_err(|_| format!("{} bytes, but an Identify Controller page has 4096", bytes.len()))
}

/// What `controller` says, a line for each fact.
pub(crate) fn report(controller: &Controller) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &dyn Display| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<22}{value}");
    };
    line("model", &controller.mn);
    line("serial number", &controller.sn);
    line("firmware", &controller.fr);
    line("PCI vendor", &format_args!("{:04x}h, subsystem {:04x}h", controller.vid, controller.ssvid));
    line("version", &controller.version());
    line("controller", &format_args!("{}, {}", controller.cntlid, controller.controller_type()));
    line("subsystem", &controller.subnqn);
    line("capacity", &bytes(controller.tnvmcap.get()));
    line("largest transfer", &largest_transfer(controller));
    line("namespaces", &format_args!("identifiers up to {}", controller.nn));
    line("queue entries", &entry_sizes(controller));
    line(
        "aborts, events",
        &format_args!("{}, {}", controller.abort_limit(), controller.event_request_limit()),
    );
    line("admin commands", &names(controller.oacs().iter_names().map(|(name, _)| name)));
    line("I/O commands", &names(controller.oncs().iter_names().map(|(name, _)| name)));
    line("log pages", &names(controller.lpa().iter_names().map(|(name, _)| name)));
    line("sanitize", &names(controller.sanicap().iter_names().map(|(name, _)| name)));
    line("write cache", &write_cache(controller));
    line("SGLs", &sgls(controller));
    line("temperature", &temperatures(controller));
    line("shutdown", &format_args!("{} ms", controller.rtd3e_us.get() / 1000));
    for (number, state) in controller.power_states().iter().enumerate() {
        line(&format!("power state {number}"), &power_state(state));
    }
    out
}

fn largest_transfer(controller: &Controller) -> String {
    match controller.max_transfer_bytes(PageSize::MIN) {
        None => "no limit".to_owned(),
        Some(limit) => format!("{} with 4 KiB as the smallest page", bytes(limit.into())),
    }
}

fn entry_sizes(controller: &Controller) -> String {
    let (sqes, cqes) = (controller.sqes(), controller.cqes());
    format!(
        "submission 2^{} to 2^{}, completion 2^{} to 2^{} bytes",
        sqes.min(),
        sqes.max(),
        cqes.min(),
        cqes.max()
    )
}

fn write_cache(controller: &Controller) -> String {
    let vwc = controller.vwc();
    if vwc.present() { format!("volatile, broadcast flush: {}", vwc.flush_all()) } else { "none".to_owned() }
}

fn sgls(controller: &Controller) -> String {
    match controller.sgls().align_bytes() {
        None => "none".to_owned(),
        Some(1) => "at any byte".to_owned(),
        Some(align) => format!("in multiples of {align} bytes"),
    }
}

fn temperatures(controller: &Controller) -> String {
    let celsius = |kelvins: u16| i32::from(kelvins) - 273;
    match (controller.wctemp.get(), controller.cctemp.get()) {
        (0, 0) => "not reported".to_owned(),
        (warning, critical) => {
            format!("warns at {} °C, critical at {} °C", celsius(warning), celsius(critical))
        }
    }
}

fn power_state(state: &PowerState) -> String {
    let milliwatts = state.max_power_uw() / 1000;
    let kind = if state.is_non_operational() { "no I/O, " } else { "" };
    let (enter, leave) = (state.enlat_us.get(), state.exlat_us.get());
    format!(
        "{kind}at most {}.{:03} W, enter {enter} µs, leave {leave} µs",
        milliwatts / 1000,
        milliwatts % 1000
    )
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = names.map(|name| name.to_lowercase().replace('_', " ")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// A number of bytes, in the largest unit that divides it or, above a gibibyte, roughly.
fn bytes(count: u128) -> String {
    match count {
        0 => "not reported".to_owned(),
        gib if gib >= 1 << 30 => format!("{} GiB", gib >> 30),
        mib if mib % (1 << 20) == 0 => format!("{} MiB", mib >> 20),
        kib => format!("{} KiB", kib >> 10),
    }
}
