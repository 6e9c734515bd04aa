//! The guest's kernel: its image, its configuration, and its modules in the order in which they must be loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::{apt, cache};

/// A kernel whose packages were unpacked into a folder.
#[derive(Debug)]
pub(crate) struct Kernel {
    folder: PathBuf,
    image: PathBuf,
    release: String,
    /// Compressed modules by name, with `-` written as `_`.
    modules: BTreeMap<String, PathBuf>,
}

/// A module to load, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) file_name: String,
    pub(crate) path: PathBuf,
}

impl Kernel {
    /// Opens what was unpacked into `folder`.
    ///
    /// # Errors
    /// When there is no image, or more than one kernel.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let tree = [folder.join("usr/lib/modules"), folder.join("lib/modules")]
            .into_iter()
            .find(|path| path.is_dir())
            .with_context(|| format!("{} has no modules", folder.display()))?;
        let mut releases = fs::read_dir(&tree)?.collect::<Result<Vec<_>, _>>()?;
        let release = releases.pop().context("no kernel release")?.file_name().to_string_lossy().into_owned();
        ensure!(releases.is_empty(), "{} has more than one kernel", tree.display());
        let places = [tree.join(&release).join("vmlinuz"), folder.join(format!("boot/vmlinuz-{release}"))];
        let image = places.into_iter().find(|path| path.is_file()).context("no kernel image")?;
        let mut modules = BTreeMap::new();
        find_modules(&tree.join(&release).join("kernel"), &mut modules)?;
        Ok(Self { folder: folder.to_owned(), image, release, modules })
    }

    /// The bootable image.
    pub(crate) fn image(&self) -> &Path {
        &self.image
    }

    /// What `uname -r` says in the guest.
    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    /// Looks at what was downloaded: is the image bootable, is the configuration fit, are the modules there.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let image = fs::read(&self.image)?;
        ensure!(
            image.get(SETUP_MAGIC_AT..SETUP_MAGIC_AT + 4) == Some(b"HdrS"),
            "{} is not a bootable x86 kernel",
            self.image.display()
        );
        let config = self.config()?;
        for option in NEEDED_OPTIONS {
            ensure!(config.lines().any(|line| line == *option), "kernel {} lacks {option}", self.release);
        }
        Ok(())
    }

    fn config(&self) -> anyhow::Result<String> {
        let beside = self.image.with_file_name("config");
        let places = [beside, self.folder.join(format!("boot/config-{}", self.release))];
        let path = places.into_iter().find(|path| path.is_file()).context("the kernel has no `config`")?;
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// The modules `names` and all that they depend on, in load order. They are unpacked into the cache once.
    pub(crate) fn load_order(&self, names: &[&str]) -> anyhow::Result<Vec<Module>> {
        let mut order = Vec::new();
        for name in names {
            self.visit(name, &mut order)?;
        }
        Ok(order)
    }

    fn visit(&self, name: &str, order: &mut Vec<Module>) -> anyhow::Result<()> {
        let name = name.replace('-', "_");
        let file_name = format!("{name}.ko");
        if order.iter().any(|module| module.file_name == file_name) {
            return Ok(());
        }
        let path = self.unpacked(&name)?;
        let content = fs::read(&path)?;
        for needed in depends_of(&content).with_context(|| path.display().to_string())? {
            self.visit(&needed, order)?;
        }
        order.push(Module { file_name, path });
        Ok(())
    }

    fn unpacked(&self, name: &str) -> anyhow::Result<PathBuf> {
        let packed = self
            .modules
            .get(name)
            .with_context(|| format!("kernel {} has no module {name}", self.release))?;
        let folder = self.folder.join("unpacked");
        let path = folder.join(format!("{name}.ko"));
        if !path.is_file() {
            fs::create_dir_all(&folder)?;
            cache::replace(&path, &decompress(packed)?)?;
        }
        Ok(path)
    }
}

/// The names in the `depends` entry of a module's information.
pub(crate) fn depends_of(module: &[u8]) -> anyhow::Result<Vec<String>> {
    let entry = module
        .split(|byte| *byte == 0)
        .find_map(|text| text.strip_prefix(b"depends="))
        .context("no `depends=` entry: not a kernel module")?;
    let list = std::str::from_utf8(entry)?;
    Ok(list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn find_modules(folder: &Path, modules: &mut BTreeMap<String, PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find_modules(&entry.path(), modules)?;
        } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
            modules.insert(name.replace('-', "_"), entry.path());
        }
    }
    Ok(())
}

fn decompress(path: &Path) -> anyhow::Result<Vec<u8>> {
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => return Ok(fs::read(path)?),
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => bail!("{}: unknown compression", path.display()),
    };
    let output = Command::new(program)
        .arg("-dc")
        .arg(path)
        .output()
        .with_context(|| format!("cannot start `{program}`, which unpacks kernel modules"))?;
    ensure!(output.status.success(), "{program} cannot unpack {}", path.display());
    Ok(output.stdout)
}

/// Fetches the kernel `release` into `folder`: its image, its modules and its configuration.
pub(crate) fn fetch(apt: &apt::Apt, release: &str, folder: &Path) -> anyhow::Result<()> {
    let image = format!("linux-image-{release}");
    let suffix = format!("-{release}");
    // Newer releases are split: image, modules and configuration each have a package of the same suffix.
    let mut packages: Vec<String> = vec![image.clone()];
    let fields = apt.show(&image)?;
    packages.extend(fields.depends().into_iter().filter(|name| name.ends_with(&suffix)).map(str::to_owned));
    apt.unpack(&packages, folder)?;
    Kernel::open(folder)?.check()
}

/// The release and the package version that the metapackage points to.
pub(crate) fn resolve(apt: &apt::Apt) -> anyhow::Result<(String, String)> {
    let fields = apt.show(METAPACKAGE)?;
    let release = fields
        .depends()
        .into_iter()
        .find_map(|name| name.strip_prefix("linux-image-"))
        .with_context(|| format!("{METAPACKAGE} names no image"))?;
    Ok((release.to_owned(), fields.version()?.to_owned()))
}

const METAPACKAGE: &str = "linux-image-amd64";
/// Offset of `HdrS` in an image that follows the x86 boot protocol.
const SETUP_MAGIC_AT: usize = 0x202;
/// Without these the guest cannot do what the lab is for. What is `=m` is loaded by the guest's scripts.
const NEEDED_OPTIONS: &[&str] = &[
    "CONFIG_BLK_DEV_NVME=m",
    "CONFIG_DEVTMPFS=y",
    "CONFIG_INTEL_IOMMU=y",
    "CONFIG_SERIAL_8250_CONSOLE=y",
    "CONFIG_VFIO_IOMMU_TYPE1=m",
    "CONFIG_VFIO_PCI=m",
    "CONFIG_VIRTIO_CONSOLE=y",
    "CONFIG_VIRTIO_PCI=y",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_the_module() {
        let module = b"\x7fELF..\0license=GPL v2\0depends=vfio-pci-core,vfio\0name=vfio_pci\0";
        assert_eq!(depends_of(module).unwrap(), ["vfio-pci-core", "vfio"]);
        assert!(depends_of(b"\0depends=\0").unwrap().is_empty());
        assert!(depends_of(b"text").is_err());
    }

    #[test]
    fn modules_are_loaded_after_what_they_need() {
        let folder = std::env::temp_dir().join(format!("ugds-vm-kernel-{}", std::process::id()));
        let drivers = folder.join("usr/lib/modules/7.3-amd64/kernel/drivers");
        fs::create_dir_all(&drivers).unwrap();
        fs::write(drivers.join("../../vmlinuz"), "").unwrap();
        for (name, depends) in [("vfio", ""), ("vfio-pci-core", "vfio"), ("vfio-pci", "vfio-pci-core,vfio")] {
            fs::write(drivers.join(format!("{name}.ko")), format!("\0depends={depends}\0")).unwrap();
        }
        let kernel = Kernel::open(&folder).unwrap();
        let order = kernel.load_order(&["vfio-pci", "vfio"]).unwrap();
        let names: Vec<_> = order.iter().map(|module| module.file_name.as_str()).collect();
        assert_eq!(names, ["vfio.ko", "vfio_pci_core.ko", "vfio_pci.ko"]);
        assert!(kernel.load_order(&["nouveau"]).unwrap_err().to_string().contains("nouveau"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
