//! `cargo xtask vm run` and `shell`.

use std::path::Path;

use anyhow::{bail, ensure};

use super::boot::{Boot, Live, Outcome};
use super::initramfs::{Command, Payload};
use super::log::{Allowlist, Message};
use super::options::{LogCheck, Options};
use super::setup::{self, Refresh};
use crate::workspace::Workspace;

/// Runs one command in a guest. The process ends with the command's exit status if that is not 0.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    let options = Options::parse(arguments)?;
    ensure!(!options.command.is_empty(), "what is to run goes after `--`, as in `vm run -- uname -a`");
    let status = run_command(workspace, &options)?;
    if status != 0 {
        eprintln!("vm: the command ended with {}", meaning(status));
        // Everything was taken down above.
        std::process::exit(status);
    }
    Ok(())
}

/// Opens a shell in a guest.
pub(crate) fn shell(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    let options = Options::parse(arguments)?;
    ensure!(options.command.is_empty(), "`shell` takes no command; `run` does");
    ensure!(options.out.is_none(), "`shell` brings no files out; `run` does");
    let kit = setup::provide(Refresh::IfMissing)?;
    boot(workspace, &kit, &options, &payload(&options)).interact()
}

fn run_command(workspace: &Workspace, options: &Options) -> anyhow::Result<i32> {
    let kit = setup::provide(Refresh::IfMissing)?;
    let command = Command {
        words: options.command.clone(),
        account: options.account,
        timeout_s: options.timeout.as_secs(),
    };
    let payload = Payload { steps: vec![command], ..payload(options) };
    let outcome = boot(workspace, &kit, options, &payload).run(Live::Steps)?;
    bring_files(&outcome, options.out.as_deref())?;
    check_log(&outcome, options.log_check)?;
    eprintln!(
        "vm: {:.1} s, of which {:.1} s until the guest was ready",
        outcome.all.as_secs_f64(),
        outcome.ready.as_secs_f64()
    );
    match outcome.steps.as_slice() {
        [step] => Ok(step.status),
        steps => bail!("the guest reported {} steps instead of one", steps.len()),
    }
}

fn payload(options: &Options) -> Payload {
    Payload {
        driver: options.driver,
        files: options.additions.clone(),
        modules: options.modules.clone(),
        namespaces: options.machine.disks.len(),
        ..Payload::default()
    }
}

fn boot<'a>(
    workspace: &'a Workspace,
    kit: &'a setup::Kit,
    options: &'a Options,
    payload: &'a Payload,
) -> BootWithScripts<'a> {
    BootWithScripts { kit, scripts: workspace.root().join("tests/vm"), options, payload }
}

/// What [`Boot`] borrows, with the path that it doesn't own.
struct BootWithScripts<'a> {
    kit: &'a setup::Kit,
    scripts: std::path::PathBuf,
    options: &'a Options,
    payload: &'a Payload,
}

impl BootWithScripts<'_> {
    fn run(&self, live: Live) -> anyhow::Result<Outcome> {
        self.borrowed().run(live)
    }

    fn interact(&self) -> anyhow::Result<()> {
        self.borrowed().interact()
    }

    fn borrowed(&self) -> Boot<'_> {
        Boot {
            kit: self.kit,
            scripts: &self.scripts,
            machine: &self.options.machine,
            payload: self.payload,
            timeout: self.options.timeout,
            verbosity: self.options.verbosity,
        }
    }
}

fn bring_files(outcome: &Outcome, folder: Option<&Path>) -> anyhow::Result<()> {
    let names = outcome.file_names()?;
    match folder {
        Some(folder) => outcome.unpack_files(folder),
        None if names.is_empty() => Ok(()),
        None => {
            eprintln!("vm: {} files in /out are dropped; `--out DIR` keeps them", names.len());
            Ok(())
        }
    }
}

fn check_log(outcome: &Outcome, check: LogCheck) -> anyhow::Result<()> {
    let allowlist = Allowlist::recorded()?;
    let offences = allowlist.offences(&outcome.log);
    if offences.is_empty() {
        return Ok(());
    }
    let text = format!("the kernel log has what a bare boot's has not:\n{}", lines(&offences));
    match check {
        LogCheck::Report => {
            eprintln!("vm: {text}");
            Ok(())
        }
        LogCheck::Fail => bail!("{text}\n-- `--allow-log` reports such lines without failing"),
    }
}

fn lines(messages: &[&Message]) -> String {
    messages.iter().map(|message| format!("  {message}")).collect::<Vec<_>>().join("\n")
}

/// What a shell's exit status means.
pub(crate) fn meaning(status: i32) -> String {
    match status {
        126 => "status 126 (cannot be executed)".to_owned(),
        127 => "status 127 (no such program or library in the guest)".to_owned(),
        137 => "status 137 (killed: out of time or memory)".to_owned(),
        129..=192 => format!("status {status} (signal {})", status - 128),
        _ => format!("status {status}"),
    }
}
