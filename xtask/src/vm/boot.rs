//! Boots a guest, follows it to its end, and takes it down whatever happens.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::initramfs::Payload;
use super::log::{self, Message};
use super::options::Verbosity;
use super::qemu::{Console, Images, Machine};
use super::report::{self, StepReport};
use super::scratch::Scratch;
use super::setup::Kit;

/// One boot.
#[derive(Debug)]
pub(crate) struct Boot<'a> {
    pub(crate) kit: &'a Kit,
    /// The folder `tests/vm`.
    pub(crate) scripts: &'a Path,
    pub(crate) machine: &'a Machine,
    pub(crate) payload: &'a Payload,
    pub(crate) timeout: Duration,
    pub(crate) verbosity: Verbosity,
}

/// What is shown while the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    /// The steps' output, on the same streams.
    Steps,
    /// Nothing of it.
    Nothing,
}

/// What came out of a guest that ran to its end.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) steps: Vec<StepReport>,
    pub(crate) log: Vec<Message>,
    /// From the start of QEMU until the device was bound.
    pub(crate) ready: Duration,
    /// From the start of QEMU until it was gone.
    pub(crate) all: Duration,
    scratch: Scratch,
}

impl Outcome {
    /// Unpacks the files that the guest left in `/out` into `folder`.
    pub(crate) fn unpack_files(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let mut tar = std::process::Command::new("tar");
        tar.arg("-xf").arg(self.scratch.join("files")).arg("--no-same-owner").arg("-C").arg(folder);
        super::apt::run(&mut tar).map(drop)
    }

    /// The names of these files.
    pub(crate) fn file_names(&self) -> anyhow::Result<Vec<String>> {
        let mut tar = std::process::Command::new("tar");
        let list = super::apt::run(tar.arg("-tf").arg(self.scratch.join("files")))?;
        Ok(list.lines().filter(|name| !name.ends_with('/')).map(str::to_owned).collect())
    }
}

impl Boot<'_> {
    /// Runs the steps.
    ///
    /// # Errors
    /// When QEMU cannot start, the time is up, or the guest ends before its last step; the error has the console's
    /// telling lines. A step that fails is no error.
    pub(crate) fn run(&self, live: Live) -> anyhow::Result<Outcome> {
        let scratch = Scratch::new()?;
        let console = scratch.join("console");
        // Created here, so that they can be followed from the start.
        for name in super::qemu::PORTS.iter().copied().chain(["console"]) {
            File::create(scratch.join(name))?;
        }
        let start = Instant::now();
        let mut qemu = self.start(Console::File(&console), &scratch)?;
        let mut follower = Follower::new(&scratch, live, self.verbosity)?;
        let ended = follow(&mut qemu, &mut follower, start + self.timeout);
        self.outcome(ended, start, follower.ready.map(|at| at - start), scratch)
    }

    /// Gives this terminal to the guest until QEMU ends.
    pub(crate) fn interact(&self) -> anyhow::Result<()> {
        let scratch = Scratch::new()?;
        let mut qemu = self.start(Console::Terminal, &scratch)?;
        let status = qemu.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => bail!("QEMU ended with {status}\n{}", read_lossy(&scratch.join("qemu"))),
        }
    }

    fn start(&self, console: Console<'_>, scratch: &Scratch) -> anyhow::Result<Qemu> {
        let initramfs = scratch.join("initramfs");
        self.payload
            .write(self.kit, self.scripts, &initramfs)
            .context("cannot make the guest's initramfs")?;
        let images = Images { kernel: self.kit.kernel.image(), initramfs: &initramfs };
        let log_level = match self.verbosity {
            Verbosity::Quiet => WARNINGS,
            Verbosity::Console => EVERYTHING,
        };
        let mut command = self.machine.command(images, console, log_level, scratch)?;
        match console {
            Console::File(_) => command.stdin(Stdio::null()).stdout(Stdio::null()),
            Console::Terminal => &mut command,
        };
        command.stderr(File::create(scratch.join("qemu"))?);
        let child = command.spawn().context("cannot start QEMU by `setpriv` (of util-linux)")?;
        Ok(Qemu { child })
    }

    fn outcome(
        &self,
        ended: anyhow::Result<End>,
        start: Instant,
        ready: Option<Duration>,
        scratch: Scratch,
    ) -> anyhow::Result<Outcome> {
        let read = |name: &str| read_lossy(&scratch.join(name));
        let control = report::Control::parse(&read("control"));
        let why = match ended? {
            End::TimedOut => Some(format!("no end after {} s; QEMU was killed", self.timeout.as_secs())),
            End::Exited(status) if !status.success() => Some(format!("QEMU ended with {status}")),
            End::Exited(_) if !control.done => Some("the guest stopped before its end".to_owned()),
            End::Exited(_) => control.failure.clone(),
        };
        if let Some(why) = why {
            bail!("{}", explanation(&why, &control, &scratch, self.verbosity));
        }
        let streams = [read("stdout"), read("stderr")];
        Ok(Outcome {
            steps: report::steps(&control, &streams, &self.payload.separator),
            log: log::parse(&read("log"))?,
            ready: ready.unwrap_or_default(),
            all: start.elapsed(),
            scratch,
        })
    }
}

/// A running QEMU. It is killed when the value is dropped.
struct Qemu {
    child: Child,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Both fail only if it ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum End {
    Exited(ExitStatus),
    TimedOut,
}

fn follow(qemu: &mut Qemu, follower: &mut Follower, deadline: Instant) -> anyhow::Result<End> {
    loop {
        let ended = qemu.child.try_wait()?;
        // After the look at the process: what it wrote last is still shown.
        follower.forward()?;
        if let Some(status) = ended {
            return Ok(End::Exited(status));
        }
        if Instant::now() >= deadline {
            return Ok(End::TimedOut);
        }
        std::thread::sleep(POLL);
    }
}

/// Copies what appears in the guest's streams to ours.
struct Follower {
    stdout: Option<File>,
    stderr: Option<File>,
    console: Option<File>,
    control: PathBuf,
    ready: Option<Instant>,
}

impl Follower {
    fn new(scratch: &Scratch, live: Live, verbosity: Verbosity) -> anyhow::Result<Self> {
        let open = |name: &str, wanted: bool| wanted.then(|| File::open(scratch.join(name))).transpose();
        Ok(Self {
            stdout: open("stdout", live == Live::Steps)?,
            stderr: open("stderr", live == Live::Steps)?,
            console: open("console", verbosity == Verbosity::Console)?,
            control: scratch.join("control"),
            ready: None,
        })
    }

    fn forward(&mut self) -> anyhow::Result<()> {
        if self.ready.is_none() && fs::metadata(&self.control)?.len() > 0 {
            self.ready = Some(Instant::now());
        }
        copy_new(&mut self.stdout, &mut std::io::stdout())?;
        copy_new(&mut self.stderr, &mut std::io::stderr())?;
        copy_new(&mut self.console, &mut std::io::stderr())
    }
}

fn copy_new(from: &mut Option<File>, to: &mut dyn Write) -> anyhow::Result<()> {
    let Some(from) = from else { return Ok(()) };
    let mut bytes = Vec::new();
    if from.read_to_end(&mut bytes)? > 0 {
        to.write_all(&bytes)?;
        to.flush()?;
    }
    Ok(())
}

/// What failed, where, and what the guest said last.
fn explanation(why: &str, control: &report::Control, scratch: &Scratch, verbosity: Verbosity) -> String {
    let mut text = format!("{why} ({})", control.position());
    for (title, name) in [("QEMU", "qemu"), ("stderr", "stderr"), ("the serial console", "console")] {
        let said = log::telling_lines(&read_lossy(&scratch.join(name)));
        if !said.is_empty() {
            text.push_str(&format!("\n-- from {title}:\n{said}"));
        }
    }
    if verbosity == Verbosity::Quiet {
        text.push_str("\n-- `--verbose` shows the whole console with all kernel messages");
    }
    text
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Messages below this level go to the console: warnings and worse.
const WARNINGS: u8 = 5;
const EVERYTHING: u8 = 8;
const POLL: Duration = Duration::from_millis(20);
