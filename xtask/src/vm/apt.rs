//! Asks Debian's archive for packages without touching the host's own package lists.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

/// One configuration of apt with its own sources, lists and downloads in a folder of its own.
#[derive(Debug)]
pub(crate) struct Apt {
    folder: PathBuf,
    release: String,
    status: Status,
}

/// Which installed packages apt knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Those of this host: to install.
    Host,
    /// None: to download packages of another release.
    Empty,
}

impl Apt {
    /// Fetches the lists of `suites` into `folder`; the last suite is preferred.
    ///
    /// # Errors
    /// When apt or Debian's keys are not on this host, or the archive cannot be reached.
    pub(crate) fn update(folder: &Path, suites: &[&str], status: Status) -> anyhow::Result<Self> {
        ensure!(
            Path::new(KEYRING).exists(),
            "{KEYRING} is missing: install the package debian-archive-keyring (this task needs apt)"
        );
        let release = suites.last().context("no suite was given")?.to_string();
        fs::create_dir_all(folder.join("lists/partial"))?;
        fs::create_dir_all(folder.join("cache/archives/partial"))?;
        let sources =
            suites.iter().map(|suite| format!("deb [signed-by={KEYRING}] {} {suite} main\n", mirror(suite)));
        fs::write(folder.join("sources.list"), sources.collect::<String>())?;
        let apt = Self { folder: folder.to_owned(), release, status };
        run(apt.command("apt-get").args(["update", "-q"]))?;
        Ok(apt)
    }

    /// The fields of the preferred version of `package`.
    pub(crate) fn show(&self, package: &str) -> anyhow::Result<Fields> {
        let text = run(self.command("apt-cache").args(["show", "--no-all-versions", package]))?;
        Ok(Fields { text })
    }

    /// Downloads `packages` and unpacks them below `to`. apt compares each with the signed list's checksum.
    pub(crate) fn unpack(&self, packages: &[String], to: &Path) -> anyhow::Result<()> {
        let downloads = self.folder.join("downloads");
        fs::create_dir_all(&downloads)?;
        run(self.command("apt-get").args(["download", "-q"]).args(packages).current_dir(&downloads))?;
        for entry in fs::read_dir(&downloads)? {
            let archive = entry?.path();
            run(Command::new("dpkg").arg("-x").arg(&archive).arg(to))?;
            fs::remove_file(&archive)?;
        }
        Ok(())
    }

    /// Installs `package` on this host. Needs root.
    pub(crate) fn install(&self, package: &str) -> anyhow::Result<()> {
        let mut command = self.command("apt-get");
        command.args(["install", "-q", "-y", "--no-install-recommends", package]);
        run(command.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
    }

    fn command(&self, program: &str) -> Command {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let mut options = vec![
            format!("Dir::Etc::SourceList={}", at("sources.list")),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", at("lists")),
            format!("Dir::Cache={}", at("cache")),
            format!("APT::Default-Release={}", self.release),
            "APT::Sandbox::User=root".to_owned(),
        ];
        if self.status == Status::Empty {
            options.push("Dir::State::Status=/dev/null".to_owned());
        }
        let mut command = Command::new(program);
        command.args(options.iter().flat_map(|option| ["-o", option]));
        command
    }
}

/// The control fields of a package.
#[derive(Debug)]
pub(crate) struct Fields {
    text: String,
}

impl Fields {
    /// The value of `Version`.
    pub(crate) fn version(&self) -> anyhow::Result<&str> {
        self.field("Version").context("the package has no version")
    }

    /// The names in `Depends`, of alternatives the first.
    pub(crate) fn depends(&self) -> Vec<&str> {
        let list = self.field("Depends").unwrap_or_default().split(',');
        list.filter_map(|item| item.split_whitespace().next()).collect()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

fn mirror(suite: &str) -> &'static str {
    if suite.ends_with("-security") {
        return "http://security.debian.org/debian-security";
    }
    "http://deb.debian.org/debian"
}

/// Runs a command for its output; on failure the error has the last lines of what it said.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{name}`, which this task needs"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        bail!("`{name} {}`: {}\n{}", words.join(" "), output.status, super::tail(&said, 10));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let text = "Package: linux-image-amd64\nVersion: 7.3.4-1~bpo13+1\n\
            Depends: linux-image-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), dracut | initramfs-tools (>= 0.1)\n"
            .to_owned();
        let fields = Fields { text };
        assert_eq!(fields.version().unwrap(), "7.3.4-1~bpo13+1");
        assert_eq!(fields.depends(), ["linux-image-7.3.4+deb13-amd64", "dracut"]);
    }

    #[test]
    fn a_failing_command_says_why() {
        let error = run(Command::new("sh").args(["-c", "echo no such suite >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("no such suite"), "{error}");
    }
}
