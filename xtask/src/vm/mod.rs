//! `cargo xtask vm`: a real kernel with an emulated NVMe device behind an emulated IOMMU.
//!
//! QEMU runs a stock Debian kernel in software emulation: no KVM, no root (once QEMU is installed) and no hardware
//! is needed. A boot takes some seconds, so one boot runs many steps. To add a test, add a step to a boot in
//! `matrix.rs`; the scripts that run in the guest are in `tests/vm`.

mod apt;
mod boot;
mod cache;
mod cpio;
mod elf;
mod initramfs;
mod kernel;
mod log;
mod matrix;
mod options;
mod program;
mod qemu;
mod report;
mod run;
mod scratch;
mod setup;
mod test;

use anyhow::bail;

use crate::workspace::Workspace;

/// The subcommands, for the table of tasks.
pub(crate) const ARGUMENTS: &str = "setup|run|shell|test";

/// Runs the subcommand that is the first of `arguments`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    let (name, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(name, rest)| (name.as_str(), rest));
    if rest.iter().take_while(|word| *word != "--").any(|word| word == "--help") {
        print!("{}", help());
        return Ok(());
    }
    match name {
        "setup" => setup::run(rest),
        "run" => run::run(workspace, rest),
        "shell" => run::shell(workspace, rest),
        "test" => test::run(workspace, rest),
        "help" | "--help" | "-h" => {
            print!("{}", help());
            Ok(())
        }
        _ => bail!("no subcommand named `{name}`; accepted are setup, run, shell and test"),
    }
}

fn help() -> String {
    format!(
        "A virtual machine with an NVMe device behind an IOMMU\n\n\
        cargo xtask vm setup [--update]             install QEMU, fetch the newest kernel (into UGDS_VM_CACHE)\n\
        cargo xtask vm run [OPTION..] -- CMD ARG..  run CMD in the guest; its exit status is the task's\n\
        cargo xtask vm shell [OPTION..]             a shell in the guest; Ctrl-A X ends it\n\
        cargo xtask vm test [BOOT..] [--verbose] [--out DIR]\n\
        \x20                                           the smoke tests, or the boots whose names contain BOOT\n\n\
        In the guest: busybox, `nvme-bind vfio-pci|nvme|none`, `pci`, $NVME_BDF; files in /out come back.\n\n\
        Options\n{}",
        options::HELP
    )
}

/// The last `count` lines of a text that a machine wrote, without control characters.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    last.join("\n").chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect()
}
