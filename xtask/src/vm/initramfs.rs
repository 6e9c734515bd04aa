//! The guest's only file system: busybox, the scripts of `tests/vm`, kernel modules, programs and steps.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::cpio::Tree;
use super::elf;
use super::kernel::Kernel;
use super::setup::Kit;

/// What a boot does in the guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Payload {
    pub(crate) driver: Driver,
    pub(crate) files: Vec<Addition>,
    /// Modules to load before anything else: names of the kernel's own, or paths of `.ko` files.
    pub(crate) modules: Vec<String>,
    /// The steps, in order. None means an interactive shell.
    pub(crate) steps: Vec<Command>,
    /// A line that is printed to both streams after each step; empty for none.
    pub(crate) separator: String,
    /// How many namespaces the kernel's driver has to show.
    pub(crate) namespaces: usize,
}

/// What the NVMe device is bound to at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Driver {
    #[default]
    Vfio,
    KernelNvme,
    None,
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Self::Vfio => "vfio-pci",
            Self::KernelNvme => "nvme",
            Self::None => "none",
        }
    }
}

/// A file of the host for the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addition {
    pub(crate) host: PathBuf,
    pub(crate) guest: Option<String>,
}

/// One command in the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) words: Vec<String>,
    pub(crate) account: Account,
    pub(crate) timeout_s: u64,
}

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    Root,
    /// An unprivileged user, who owns the VFIO group; with a limit on locked memory, or the guest's default.
    User {
        memlock_kib: Option<u64>,
    },
}

impl Payload {
    /// Writes the archive to `path`.
    pub(crate) fn write(&self, kit: &Kit, scripts: &Path, path: &Path) -> anyhow::Result<()> {
        let mut tree = Tree::default();
        tree.host_file("bin/busybox", 0o755, &kit.busybox);
        add_folder(&mut tree, "", scripts).context("the guest's scripts")?;
        add_accounts(&mut tree);
        add_modules(&mut tree, "vfio-pci", &kit.kernel, &["vfio_iommu_type1", "vfio-pci"])?;
        add_modules(&mut tree, "nvme", &kit.kernel, &["nvme"])?;
        self.add_extra_modules(&mut tree, &kit.kernel)?;
        for file in &self.files {
            file.add_to(&mut tree).with_context(|| file.host.display().to_string())?;
        }
        tree.bytes("vm/boot.conf", 0o644, self.configuration());
        tree.folder("vm/steps");
        for (at, step) in self.steps.iter().enumerate() {
            tree.bytes(&format!("vm/steps/{at:03}"), 0o644, step.line());
        }
        let mut to = BufWriter::new(File::create(path)?);
        tree.write(&mut to)?;
        Ok(to.flush()?)
    }

    fn configuration(&self) -> String {
        let mode = if self.steps.is_empty() { "shell" } else { "steps" };
        format!(
            "MODE={mode}\nDRIVER={}\nSEPARATOR={}\nNAMESPACES={}\n",
            self.driver.name(),
            quoted(&self.separator),
            self.namespaces
        )
    }

    fn add_extra_modules(&self, tree: &mut Tree, kernel: &Kernel) -> anyhow::Result<()> {
        let (files, names): (Vec<&String>, Vec<&String>) =
            self.modules.iter().partition(|module| module.ends_with(".ko"));
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        let mut list = module_list(tree, kernel, &names)?;
        for file in files {
            let path = Path::new(file);
            let content = fs::read(path).with_context(|| file.clone())?;
            let needed = super::kernel::depends_of(&content).with_context(|| file.clone())?;
            let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
            list.push_str(&module_list(tree, kernel, &needed)?);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            tree.bytes(&format!("vm/modules/{name}"), 0o644, content);
            list.push_str(&format!("{name}\n"));
        }
        tree.bytes("vm/modules/extra.list", 0o644, list);
        Ok(())
    }
}

impl Addition {
    /// Reads `HOSTFILE[:GUESTPATH]`.
    pub(crate) fn parse(text: &str) -> Self {
        match text.rsplit_once(":/") {
            Some((host, guest)) => Self { host: host.into(), guest: Some(format!("/{guest}")) },
            None => Self { host: text.into(), guest: None },
        }
    }

    /// Adds the file and, if it is a program, its libraries. Without a place of its own a file goes to a folder of
    /// `PATH`.
    fn add_to(&self, tree: &mut Tree) -> anyhow::Result<()> {
        let data = fs::metadata(&self.host)?;
        ensure!(data.is_file(), "only files can be added");
        let name = self.host.file_name().unwrap_or_default().to_string_lossy();
        let guest = self.guest.clone().unwrap_or_else(|| format!("{PROGRAMS}/{name}"));
        tree.host_file(&guest, data.permissions().mode() & 0o777, &self.host);
        for library in elf::libraries(&self.host)? {
            let place = library.to_string_lossy();
            if !tree.contains(&place) {
                tree.host_file(&place, 0o755, &library);
            }
        }
        Ok(())
    }
}

impl Command {
    /// The script that `tests/vm/init` reads for this step.
    fn line(&self) -> String {
        let (account, memlock) = match self.account {
            Account::Root => ("root", None),
            Account::User { memlock_kib } => ("ugds", memlock_kib),
        };
        let memlock = memlock.map_or("-".to_owned(), |kib| kib.to_string());
        let words: String = self.words.iter().map(|word| format!(" {}", quoted(word))).collect();
        format!("step {account} {memlock} {}{words}\n", self.timeout_s)
    }
}

/// A word as the shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn add_folder(tree: &mut Tree, guest: &str, host: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(host).with_context(|| host.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match (guest, entry.file_type()?.is_dir()) {
            // The kernel starts /init.
            ("", false) if name == "init" => tree.host_file("init", 0o755, &entry.path()),
            (_, false) => tree.host_file(&format!("vm{guest}/{name}"), 0o755, &entry.path()),
            (_, true) => add_folder(tree, &format!("{guest}/{name}"), &entry.path())?,
        }
    }
    Ok(())
}

fn add_accounts(tree: &mut Tree) {
    tree.bytes("etc/passwd", 0o644, "root:x:0:0:root:/tmp:/bin/sh\nugds:x:1000:1000:ugds:/tmp:/bin/sh\n");
    tree.bytes("etc/group", 0o644, "root:x:0:\nugds:x:1000:\n");
}

fn add_modules(tree: &mut Tree, set: &str, kernel: &Kernel, names: &[&str]) -> anyhow::Result<()> {
    let list = module_list(tree, kernel, names)?;
    tree.bytes(&format!("vm/modules/{set}.list"), 0o644, list);
    Ok(())
}

/// Adds modules with what they need, and gives their files in load order, one a line.
fn module_list(tree: &mut Tree, kernel: &Kernel, names: &[&str]) -> anyhow::Result<String> {
    let mut list = String::new();
    for module in kernel.load_order(names)? {
        tree.host_file(&format!("vm/modules/{}", module.file_name), 0o644, &module.path);
        list.push_str(&format!("{}\n", module.file_name));
    }
    Ok(list)
}

/// A folder of the guest's `PATH`.
const PROGRAMS: &str = "/vm/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line_of_shell() {
        let account = Account::User { memlock_kib: Some(64) };
        let step = Command { words: vec!["echo".into(), "it's".into()], account, timeout_s: 9 };
        assert_eq!(step.line(), "step ugds 64 9 'echo' 'it'\\''s'\n");
        let step = Command { words: vec!["true".into()], account: Account::Root, timeout_s: 9 };
        assert_eq!(step.line(), "step root - 9 'true'\n");
    }

    #[test]
    fn additions_have_an_optional_place() {
        let addition = Addition::parse("target/release/ugds:/bin/ugds");
        assert_eq!(
            addition,
            Addition { host: "target/release/ugds".into(), guest: Some("/bin/ugds".into()) }
        );
        assert_eq!(Addition::parse("a:b").guest, None);
    }

    #[test]
    fn no_steps_mean_a_shell() {
        assert!(Payload::default().configuration().starts_with("MODE=shell\nDRIVER=vfio-pci\n"));
    }
}
