//! `ugds identify`: what a controller and its namespaces say of themselves, and how they would be driven.

use serde::Serialize;
use ugds::nvme::PageSize;
use ugds::uri::Uri;
use ugds::{Device, Namespace};

use crate::device::{open, size_text};
use crate::failure::Outcome;
use crate::output::{self, LINE_CHARACTERS, wrap};

/// Show a controller and its namespaces
///
/// Opens the device, so that what is shown is what an application gets: the path that data take, the queues that
/// were granted, and the reason for each namespace that can't be used.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ugds identify 'emu:?size=4G&namespaces=2'
  ugds identify emu:disk.img --json

Exit status: 0 the device was opened, 1 it was not, 2 wrong usage.")]
pub(crate) struct Args {
    /// The device
    uri: Uri,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let device = open(&args.uri)?;
    let report = Report::new(&args.uri, &device);
    device.close()?;
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report.text())?;
    }
    Ok(Outcome::Success)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    uri: String,
    path: String,
    model: String,
    serial: String,
    firmware: String,
    subsystem_nqn: String,
    pci_vendor: u16,
    controller_id: u16,
    nvme_version: String,
    controller_type: String,
    page_bytes: u64,
    /// What MDTS says with the smallest page; `null` is no limit.
    mdts_bytes: Option<u64>,
    max_transfer_bytes: u64,
    queues: u64,
    queue_entries: u64,
    sgl: bool,
    shadow_doorbells: bool,
    volatile_write_cache: bool,
    abort_limit: u32,
    admin_commands: Vec<String>,
    io_commands: Vec<String>,
    namespaces: Vec<NamespaceReport>,
    refused: Vec<RefusedReport>,
}

#[derive(Serialize)]
struct NamespaceReport {
    nsid: u32,
    bytes: u64,
    blocks: u64,
    lba_bytes: u32,
    used_blocks: u64,
    format: u8,
    formats: usize,
    write_protected: bool,
    noiob_blocks: u16,
    preferred_write_blocks: Option<u32>,
    atomic_power_fail_blocks: Option<u32>,
    nguid: String,
    eui64: String,
}

#[derive(Serialize)]
struct RefusedReport {
    nsid: u32,
    reason: String,
}

impl Report {
    fn new(uri: &Uri, device: &Device) -> Self {
        let (controller, info) = (device.identify(), device.info());
        let refused = |refused: &ugds::Refused| RefusedReport {
            nsid: refused.nsid.0,
            reason: refused.reason.to_string(),
        };
        Self {
            uri: uri.to_string(),
            path: info.path.to_string(),
            model: controller.mn.to_string(),
            serial: controller.sn.to_string(),
            firmware: controller.fr.to_string(),
            subsystem_nqn: controller.subnqn.to_string(),
            pci_vendor: controller.vid.get(),
            controller_id: controller.cntlid.get(),
            nvme_version: info.version.to_string(),
            controller_type: controller.controller_type().to_string(),
            page_bytes: info.page_bytes,
            mdts_bytes: controller.max_transfer_bytes(PageSize::MIN),
            max_transfer_bytes: info.max_transfer_bytes.into(),
            queues: info.queues.into(),
            queue_entries: info.queue_entries.into(),
            sgl: info.sgl,
            shadow_doorbells: info.shadow_doorbells,
            volatile_write_cache: info.volatile_write_cache,
            abort_limit: controller.abort_limit(),
            admin_commands: words(controller.oacs().iter_names()),
            io_commands: words(controller.oncs().iter_names()),
            namespaces: device.namespaces().iter().map(NamespaceReport::new).collect(),
            refused: device.refused().iter().map(refused).collect(),
        }
    }

    /// The most bytes of a command, and who says so.
    fn largest_command(&self) -> String {
        let most = size_text(self.max_transfer_bytes);
        match self.mdts_bytes {
            None => format!("{most} (the driver's limit; the device sets none)"),
            Some(bytes) if bytes > self.max_transfer_bytes => {
                format!("{most} (the driver's limit; the device's is {})", size_text(bytes))
            }
            Some(_) => most,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let mut name = name;
            for piece in wrap(&value, LINE_CHARACTERS - 20) {
                text.push_str(&format!("{name:<20}{piece}\n"));
                name = "";
            }
        };
        line("device", self.uri.clone());
        line("path", self.path.clone());
        line("model", format!("{} (vendor {:#06x})", self.model, self.pci_vendor));
        line("serial", self.serial.clone());
        line("firmware", self.firmware.clone());
        line("subsystem", self.subsystem_nqn.clone());
        line("controller", format!("{} ({})", self.controller_id, self.controller_type));
        line("NVMe version", self.nvme_version.clone());
        line("page", size_text(self.page_bytes));
        line("largest command", self.largest_command());
        line("I/O queues", format!("{} of {} entries", self.queues, self.queue_entries));
        line("SGL", yes_or_no(self.sgl));
        line("shadow doorbells", yes_or_no(self.shadow_doorbells));
        line("volatile cache", yes_or_no(self.volatile_write_cache));
        line("aborts at once", self.abort_limit.to_string());
        line("admin commands", list(&self.admin_commands));
        line("I/O commands", list(&self.io_commands));
        for namespace in &self.namespaces {
            text.push_str(&namespace.text());
        }
        for refused in &self.refused {
            text.push_str(&format!("\nnamespace {} can't be used: {}\n", refused.nsid, refused.reason));
        }
        text
    }
}

impl NamespaceReport {
    fn new(namespace: &Namespace) -> Self {
        let identify = namespace.identify();
        Self {
            nsid: namespace.nsid().0,
            bytes: namespace.len_bytes(),
            blocks: namespace.blocks(),
            lba_bytes: namespace.lba_bytes(),
            used_blocks: identify.nuse.get(),
            format: identify.lba_format_index(),
            formats: identify.lba_formats().len(),
            write_protected: identify.is_write_protected(),
            noiob_blocks: identify.noiob.get(),
            preferred_write_blocks: identify.preferred_write_blocks(),
            atomic_power_fail_blocks: identify.atomic_power_fail_blocks(),
            nguid: hexadecimal(&identify.nguid),
            eui64: hexadecimal(&identify.eui64),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("\nnamespace {}\n", self.nsid);
        let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<18}{value}\n"));
        line(
            "size",
            format!("{} ({} blocks of {} bytes)", size_text(self.bytes), self.blocks, self.lba_bytes),
        );
        line("in use", format!("{} blocks", self.used_blocks));
        line("format", format!("{} of {}", self.format, self.formats));
        line("write protected", yes_or_no(self.write_protected));
        if self.noiob_blocks != 0 {
            line("I/O boundary", format!("{} blocks", self.noiob_blocks));
        }
        if let Some(blocks) = self.preferred_write_blocks {
            line("preferred write", format!("{blocks} blocks"));
        }
        if let Some(blocks) = self.atomic_power_fail_blocks {
            line("atomic write", format!("{blocks} blocks"));
        }
        line("NGUID", self.nguid.clone());
        line("EUI-64", self.eui64.clone());
        text
    }
}

/// Names of flags as words: `WRITE_ZEROES` is `write zeroes`.
fn words<F>(names: impl Iterator<Item = (&'static str, F)>) -> Vec<String> {
    names.map(|(name, _)| name.to_lowercase().replace('_', " ")).collect()
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "only the mandatory".to_owned() } else { words.join(", ") }
}

fn yes_or_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
