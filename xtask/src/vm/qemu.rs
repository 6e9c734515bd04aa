//! QEMU's command line: a PC with an IOMMU and one NVMe device.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::scratch::Scratch;

/// The program that is run.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// What can be changed about the emulated machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Options of QEMU's `nvme` device, as `mdts=5,mqes=63`.
    pub(crate) device_options: String,
    /// The namespaces, 1 and up.
    pub(crate) disks: Vec<Disk>,
    /// More words for the kernel's command line.
    pub(crate) append: String,
    /// More words for QEMU.
    pub(crate) extra: Vec<String>,
    pub(crate) memory_mib: u32,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            device_options: String::new(),
            disks: Vec::new(),
            append: String::new(),
            extra: Vec::new(),
            memory_mib: 1024,
        }
    }
}

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) place: Place,
    /// Options of QEMU's `nvme-ns`, as `logical_block_size=4096`.
    pub(crate) options: String,
}

/// Where a namespace's blocks are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a file of this many bytes that ends with the run.
    Temporary(u64),
    /// In a raw image that stays.
    Image(PathBuf),
}

/// Where the guest's serial console goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Console<'a> {
    File(&'a Path),
    /// This terminal, in both directions.
    Terminal,
}

/// The files that a boot starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Images<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
}

impl Machine {
    /// The call of QEMU, yet to be started. Temporary disks and what the ports receive are files in `scratch`.
    ///
    /// The child dies with this process even if that is killed: `setpriv` asks the kernel for it and becomes QEMU.
    pub(crate) fn command(
        &self,
        images: Images<'_>,
        console: Console<'_>,
        log_level: u8,
        scratch: &Scratch,
    ) -> anyhow::Result<Command> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", PROGRAM]).args(FIXED);
        command.arg("-m").arg(self.memory_mib.to_string());
        command.arg("-kernel").arg(images.kernel).arg("-initrd").arg(images.initramfs);
        command.arg("-append").arg(format!("{KERNEL_WORDS} loglevel={log_level} {}", self.append));
        match console {
            Console::File(path) => command.arg("-serial").arg(with_path("file:", path)),
            Console::Terminal => command.args(["-serial", "mon:stdio"]),
        };
        command.arg("-device").arg(self.controller());
        for (at, disk) in self.disks.iter().enumerate() {
            disk.add_to(&mut command, at + 1, scratch)?;
        }
        for port in PORTS {
            command.arg("-chardev").arg(with_path(&format!("file,id={port},path="), &scratch.join(port)));
            command.arg("-device").arg(format!("virtserialport,chardev={port},name=ugds.{port}"));
        }
        command.args(&self.extra);
        Ok(command)
    }

    fn controller(&self) -> String {
        let mut options = format!("nvme,id=nvme0,addr={DEVICE_SLOT}");
        if !has_option(&self.device_options, "serial") {
            options.push_str(",serial=UGDS-VM-1");
        }
        push_options(&mut options, &self.device_options);
        options
    }
}

impl Disk {
    fn add_to(&self, command: &mut Command, nsid: usize, scratch: &Scratch) -> anyhow::Result<()> {
        let path = match &self.place {
            Place::Image(path) => path.canonicalize().with_context(|| path.display().to_string())?,
            Place::Temporary(len_bytes) => {
                let path = scratch.join(&format!("disk{nsid}"));
                File::create(&path)?.set_len(*len_bytes)?;
                path
            }
        };
        // The image outlives no crash of the host in a test, so nothing waits for the host's disk.
        let drive = format!("if=none,id=disk{nsid},format=raw,cache=unsafe,discard=unmap,file=");
        command.arg("-drive").arg(with_path(&drive, &path));
        command.arg("-device").arg(self.namespace(nsid));
        Ok(())
    }

    fn namespace(&self, nsid: usize) -> String {
        let mut options = format!("nvme-ns,drive=disk{nsid},bus=nvme0,nsid={nsid}");
        push_options(&mut options, &self.options);
        // QEMU refuses a logical block that is larger than the physical one, which is 512 unless it is told.
        if let Some(len) = option(&self.options, "logical_block_size")
            && !has_option(&self.options, "physical_block_size")
        {
            options.push_str(&format!(",physical_block_size={len}"));
        }
        options
    }
}

/// `prefix` and a path in QEMU's syntax, in which a comma is doubled.
fn with_path(prefix: &str, path: &Path) -> OsString {
    let mut word = OsString::from(prefix);
    match path.to_str() {
        Some(text) => word.push(text.replace(',', ",,")),
        None => word.push(path),
    }
    word
}

fn push_options(to: &mut String, options: &str) {
    if !options.is_empty() {
        to.push(',');
        to.push_str(options);
    }
}

fn has_option(options: &str, name: &str) -> bool {
    option(options, name).is_some()
}

fn option<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}

/// The virtio-serial ports through which results come out; each is a file of this name.
pub(crate) const PORTS: &[&str] = &["control", "stdout", "stderr", "log", "files"];

/// The slot on the root bus: the device is 0000:00:04.0 in the guest, as `tests/vm/init` says.
const DEVICE_SLOT: &str = "4";

/// TCG, as a stock kernel must boot where there is no KVM. The virtio device does not go through the IOMMU.
const FIXED: &[&str] = &[
    "-nodefaults",
    "-no-user-config",
    "-no-reboot",
    "-display",
    "none",
    "-accel",
    "tcg,thread=multi",
    "-cpu",
    "max",
    "-smp",
    "2",
    "-machine",
    "q35,kernel-irqchip=split",
    "-device",
    "intel-iommu,intremap=on,caching-mode=on",
    "-device",
    "virtio-serial-pci,max_ports=8,addr=5",
];

/// Strict unmapping, because lazy unmapping hides a use after unmap; a log that is large enough to be kept whole.
/// On a busy host the kernel finds timer interrupts late, which is a panic, or the clock unsteady: it is told not to look.
const KERNEL_WORDS: &str =
    "console=ttyS0 intel_iommu=on iommu.strict=1 no_timer_check tsc=reliable panic=-1 log_buf_len=1M";

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(options: &str) -> Disk {
        Disk { place: Place::Temporary(1 << 20), options: options.to_owned() }
    }

    #[test]
    fn a_namespace_of_4_kib_blocks_has_such_physical_blocks() {
        assert_eq!(disk("").namespace(1), "nvme-ns,drive=disk1,bus=nvme0,nsid=1");
        let options = disk("logical_block_size=4096,ms=8").namespace(2);
        assert!(options.ends_with("logical_block_size=4096,ms=8,physical_block_size=4096"), "{options}");
    }

    #[test]
    fn the_serial_number_can_be_given() {
        let machine = Machine { device_options: "serial=A,mdts=5".to_owned(), ..Machine::default() };
        assert_eq!(machine.controller(), "nvme,id=nvme0,addr=4,serial=A,mdts=5");
        assert!(Machine::default().controller().ends_with(",serial=UGDS-VM-1"));
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(with_path("file:", Path::new("/tmp/a,b")), "file:/tmp/a,,b");
    }
}
