//! The options of `cargo xtask vm run` and `shell`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::initramfs::{Account, Addition, Driver};
use super::qemu::{Disk, Machine, Place};

/// Everything that was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) machine: Machine,
    pub(crate) driver: Driver,
    pub(crate) additions: Vec<Addition>,
    pub(crate) modules: Vec<String>,
    pub(crate) account: Account,
    pub(crate) timeout: Duration,
    /// Where files that the guest left in `/out` go.
    pub(crate) out: Option<PathBuf>,
    pub(crate) verbosity: Verbosity,
    pub(crate) log_check: LogCheck,
    /// The words after `--`.
    pub(crate) command: Vec<String>,
}

/// How much of the guest's console is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Nothing, unless something fails.
    Quiet,
    /// All of it, with every kernel message.
    Console,
}

/// What a kernel log with unexpected messages does to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogCheck {
    Fail,
    Report,
}

/// The text for `--help`.
pub(crate) const HELP: &str = "\
\x20 --device-opts OPTS    options of QEMU's nvme device: mdts=5,mqes=63,max_ioqpairs=2,dbcs=off,..
  --disk PATH|SIZE[,NSOPTS]
                        a namespace, by image or by size of a temporary one (64M); NSOPTS are options of
                        nvme-ns: logical_block_size=4096,ms=8,..  May be repeated; without it: 64M
  --vfio                bind the device to vfio-pci (the default)
  --kernel-nvme         bind it to the kernel's driver
  --no-driver           bind it to nothing; the guest's `nvme-bind DRIVER` changes it at any time
  --add HOSTFILE[:GUESTPATH]
                        a file for the guest, by default in its PATH; programs bring their libraries
  --module NAME|FILE.ko a kernel module to load first, with what it needs
  --user                run CMD as the unprivileged user that owns the VFIO group
  --memlock KIB         that user's limit on locked memory
  --append WORDS        more words for the kernel's command line
  --qemu WORDS          more words for QEMU
  --memory MIB          the guest's memory (1024)
  --timeout S           seconds until QEMU is killed (120)
  --out DIR             receives the files that CMD left in /out
  --allow-log           report unexpected kernel messages, but do not fail because of them
  --verbose             show the serial console, with all kernel messages
";

impl Options {
    /// Reads the words after the subcommand.
    ///
    /// # Errors
    /// With the offending word, when an option is unknown or has no value or a wrong one.
    pub(crate) fn parse(words: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut memlock_kib = None;
        let mut as_user = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                options.command = words.cloned().collect();
                break;
            }
            let (name, mut inline) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let mut value = || {
                let value = inline.take().or_else(|| words.next().cloned());
                value.with_context(|| format!("`{name}` needs a value"))
            };
            match name {
                "--device-opts" => options.machine.device_options = value()?,
                "--disk" => options.machine.disks.push(disk(&value()?)?),
                "--append" => options.machine.append = value()?,
                "--qemu" => options.machine.extra.extend(value()?.split_whitespace().map(str::to_owned)),
                "--memory" => options.machine.memory_mib = number(name, &value()?)?,
                "--add" => options.additions.push(Addition::parse(&value()?)),
                "--module" => options.modules.push(value()?),
                "--memlock" => memlock_kib = Some(number(name, &value()?)?),
                "--timeout" => options.timeout = Duration::from_secs(number(name, &value()?)?),
                "--out" => options.out = Some(value()?.into()),
                "--vfio" => options.driver = Driver::Vfio,
                "--kernel-nvme" => options.driver = Driver::KernelNvme,
                "--no-driver" => options.driver = Driver::None,
                "--user" => as_user = true,
                "--allow-log" => options.log_check = LogCheck::Report,
                "--verbose" => options.verbosity = Verbosity::Console,
                _ => bail!(
                    "unknown option `{word}`; the guest's command goes after `--`. Accepted are\n{HELP}"
                ),
            }
            ensure!(inline.is_none(), "`{name}` takes no value");
        }
        ensure!(
            as_user || memlock_kib.is_none(),
            "`--memlock` limits the user of `--user`; root has no such limit"
        );
        if as_user {
            options.account = Account::User { memlock_kib };
        }
        if options.machine.disks.is_empty() {
            options.machine.disks.push(disk("64M")?);
        }
        Ok(options)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            machine: Machine::default(),
            driver: Driver::Vfio,
            additions: Vec::new(),
            modules: Vec::new(),
            account: Account::Root,
            timeout: Duration::from_secs(120),
            out: None,
            verbosity: Verbosity::Quiet,
            log_check: LogCheck::Fail,
            command: Vec::new(),
        }
    }
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> anyhow::Result<T> {
    text.parse().ok().with_context(|| format!("`{name}` needs a number, but was given `{text}`"))
}

/// Reads `PATH|SIZE[,OPTIONS]`.
pub(crate) fn disk(text: &str) -> anyhow::Result<Disk> {
    let (place, options) = text.split_once(',').unwrap_or((text, ""));
    ensure!(!place.is_empty(), "a disk needs a path or a size, but was given `{text}`");
    let place = match len_bytes(place) {
        Some(len_bytes) => Place::Temporary(len_bytes),
        None => Place::Image(place.into()),
    };
    Ok(Disk { place, options: options.to_owned() })
}

/// A length as `64M`; none if the text is something else.
fn len_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<Options> {
        Options::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_is_what_follows_the_dashes() {
        let options = parse("--timeout 9 --user --memlock=64 -- ls --timeout 3").unwrap();
        assert_eq!(options.command, ["ls", "--timeout", "3"]);
        assert_eq!(options.timeout, Duration::from_secs(9));
        assert_eq!(options.account, Account::User { memlock_kib: Some(64) });
    }

    #[test]
    fn disks_are_sizes_or_images() {
        let options = parse("--disk 1G,logical_block_size=4096 --disk nvme.img").unwrap();
        let [large, image] = &options.machine.disks[..] else { panic!("two disks") };
        assert_eq!(
            (&large.place, large.options.as_str()),
            (&Place::Temporary(1 << 30), "logical_block_size=4096")
        );
        assert_eq!(image.place, Place::Image("nvme.img".into()));
        assert_eq!(parse("--vfio").unwrap().machine.disks.len(), 1);
    }

    #[test]
    fn errors_name_the_word() {
        let message = |line: &str| parse(line).unwrap_err().to_string();
        assert!(message("--vfoi").contains("--vfoi"));
        assert!(message("ls").contains("after `--`"));
        assert!(message("--timeout soon").contains("`soon`"));
        assert!(message("--out").contains("needs a value"));
        assert!(message("--user=1").contains("takes no value"));
        assert!(message("--memlock 3").contains("--user"));
        assert!(message("--disk ,ms=8").contains("path or a size"));
    }
}
