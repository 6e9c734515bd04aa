//! `cargo xtask vm setup`: QEMU on the host; a kernel and busybox for the guest in the cache.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use super::apt::{Apt, Status};
use super::cache::{Cache, Staging};
use super::kernel::{self, Kernel};

/// Everything that a boot needs from outside the workspace.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) kernel: Kernel,
    pub(crate) busybox: PathBuf,
}

/// Whether what is in the cache will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// It will; nothing is asked of the network then.
    IfMissing,
    /// The archive is asked for newer versions.
    Always,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let refresh = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Refresh::IfMissing,
        ["--update"] => Refresh::Always,
        _ => bail!("`setup` accepts `--update` only, but was given `{}`", arguments.join(" ")),
    };
    let start = Instant::now();
    let kit = provide(refresh)?;
    println!("qemu:    {}", qemu_version()?);
    println!("kernel:  {} ({})", kit.kernel.release(), kit.kernel.image().display());
    println!("busybox: {}", kit.busybox.display());
    println!("ready after {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Finds the kit in the cache and fetches what is missing, with a line of progress for each part.
pub(crate) fn provide(refresh: Refresh) -> anyhow::Result<Kit> {
    ensure!(
        std::env::consts::ARCH == "x86_64",
        "the VM lab needs an x86_64 host: it runs the host's programs"
    );
    let cache = Cache::open()?;
    if qemu_version().is_err() {
        install_qemu(&cache)?;
    }
    let found = (cache.current("kernel"), cache.current("busybox"));
    let (kernel, busybox) = match (refresh, found) {
        (Refresh::IfMissing, (Some(kernel), Some(busybox))) => (kernel, busybox),
        _ => fetch(&cache)?,
    };
    Ok(Kit { kernel: Kernel::open(&kernel)?, busybox: busybox.join("bin/busybox") })
}

fn fetch(cache: &Cache) -> anyhow::Result<(PathBuf, PathBuf)> {
    let work = Staging::new(cache)?;
    println!("vm: reading the package lists of {}", SUITES.join(" and "));
    let apt = Apt::update(work.path(), SUITES, Status::Empty)?;

    let (release, version) = kernel::resolve(&apt)?;
    let kernel = cache.store("kernel", &file_name("kernel", &version), |folder| {
        println!("vm: fetching kernel {release} ({version}), about 120 MB");
        kernel::fetch(&apt, &release, folder)
    })?;

    let version = apt.show(BUSYBOX)?.version()?.to_owned();
    let busybox = cache.store("busybox", &file_name("busybox", &version), |folder| {
        println!("vm: fetching busybox {version}");
        fetch_busybox(&apt, folder)
    })?;
    Ok((kernel, busybox))
}

fn fetch_busybox(apt: &Apt, folder: &Path) -> anyhow::Result<()> {
    apt.unpack(&[BUSYBOX.to_owned()], folder)?;
    let usr = folder.join("usr/bin/busybox");
    if usr.is_file() {
        fs::create_dir_all(folder.join("bin"))?;
        fs::rename(usr, folder.join("bin/busybox"))?;
    }
    let program = folder.join("bin/busybox");
    let list = super::apt::run(Command::new(&program).arg("--list"))?;
    for applet in ["sh", "insmod", "mount", "tar", "dmesg", "timeout", "su", "setsid", "cttyhack", "poweroff"]
    {
        ensure!(list.lines().any(|line| line == applet), "{BUSYBOX} has no `{applet}`");
    }
    ensure!(super::elf::libraries(&program)?.is_empty(), "{BUSYBOX} is not static");
    Ok(())
}

/// `NAME-VERSION` without the characters of Debian versions that file names may not have.
fn file_name(name: &str, version: &str) -> String {
    format!("{name}-{}", version.replace(['/', ':'], "_"))
}

fn qemu_version() -> anyhow::Result<String> {
    let output =
        Command::new(super::qemu::PROGRAM).arg("--version").output().context("QEMU is not installed")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Installs QEMU from this host's own release, from its backports if they have a newer one.
fn install_qemu(cache: &Cache) -> anyhow::Result<()> {
    let codename = debian_codename();
    if !is_root() || codename.is_none() {
        bail!("{} is not installed; {}", super::qemu::PROGRAM, how_to_install(codename.as_deref()));
    }
    let codename = codename.unwrap_or_default();
    let suites = [
        codename.clone(),
        format!("{codename}-security"),
        format!("{codename}-updates"),
        format!("{codename}-backports"),
    ];
    let suites: Vec<&str> = suites.iter().map(String::as_str).collect();
    let work = Staging::new(cache)?;
    println!("vm: reading the package lists of {}", suites.join(" and "));
    let apt = Apt::update(work.path(), &suites, Status::Host)?;
    println!("vm: installing {QEMU_PACKAGE} {}", apt.show(QEMU_PACKAGE)?.version()?);
    apt.install(QEMU_PACKAGE)
}

fn how_to_install(codename: Option<&str>) -> String {
    match codename {
        Some(codename) => format!(
            "as root: `cargo xtask vm setup`, or `apt-get install -t {codename}-backports {QEMU_PACKAGE}`"
        ),
        None => "install QEMU 8 or newer for x86_64 with your distribution's tool".to_owned(),
    }
}

fn debian_codename() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    (field("ID")? == "debian")
        .then(|| field("VERSION_CODENAME").unwrap_or("stable").trim_matches('"').to_owned())
}

fn is_root() -> bool {
    let output = Command::new("id").arg(OsStr::new("-u")).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// The newest kernel that Debian packages: the last suite is preferred, the first has what it lacks.
const SUITES: &[&str] = &["trixie", "trixie-backports"];
const BUSYBOX: &str = "busybox-static";
const QEMU_PACKAGE: &str = "qemu-system-x86";
