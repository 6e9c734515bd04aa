//! `cargo xtask vm test`: boots the cases of the table and judges their steps and kernel logs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::boot::{Boot, Live, Outcome};
use super::initramfs::{Addition, Command, Driver, Payload};
use super::log::{Allowlist, Message};
use super::matrix::{Binary, CASES, Case, Expect, Log, Step};
use super::options::{self, Verbosity};
use super::program;
use super::qemu::Machine;
use super::report::StepReport;
use super::run::meaning;
use super::setup::{self, Kit, Refresh};
use crate::workspace::Workspace;

/// Runs the cases whose names contain one of the words, or all.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    let choice = Choice::parse(arguments)?;
    let kit = setup::provide(Refresh::IfMissing)?;
    let mut table = Table::default();
    let additions = table.timed("", "programs built", || program::build(workspace, choice.programs()))?;
    let bench = Bench { kit, scripts: workspace.root().join("tests/vm"), additions, choice };
    for case in &bench.choice.cases {
        bench.run(case, &mut table);
    }
    let failed = table.failed();
    print!("{}", table.text());
    ensure!(failed == 0, "{failed} of {} rows failed", table.rows.len());
    Ok(())
}

/// What the command line selects.
struct Choice {
    cases: Vec<Case>,
    verbosity: Verbosity,
    out: Option<PathBuf>,
}

impl Choice {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut filters = Vec::new();
        let mut choice = Self { cases: Vec::new(), verbosity: Verbosity::Quiet, out: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match (word.as_str(), words.as_slice().first()) {
                ("--verbose", _) => choice.verbosity = Verbosity::Console,
                ("--out", Some(folder)) => {
                    choice.out = Some(folder.into());
                    words.next();
                }
                (option, _) if option.starts_with("--") => {
                    bail!("`test` accepts `--verbose` and `--out DIR`, but was given `{option}`")
                }
                (filter, _) => filters.push(filter),
            }
        }
        let chosen =
            |case: &&Case| filters.is_empty() || filters.iter().any(|filter| case.name.contains(filter));
        choice.cases = CASES.iter().filter(chosen).copied().collect();
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        ensure!(!choice.cases.is_empty(), "no boot is named so; there are: {}", names.join(", "));
        Ok(choice)
    }

    fn programs(&self) -> impl Iterator<Item = program::Program> {
        self.cases.iter().flat_map(|case| case.steps).filter_map(|step| match step.binary {
            Binary::Workspace(program) => Some(program),
            Binary::Guest(_) => None,
        })
    }
}

/// What came of a row of the table; an error says why it failed.
type Verdict = Result<(), String>;

/// What all boots share.
struct Bench {
    kit: Kit,
    scripts: PathBuf,
    additions: Vec<Addition>,
    choice: Choice,
}

impl Bench {
    fn run(&self, case: &Case, table: &mut Table) {
        println!("== boot `{}`", case.name);
        let start = Instant::now();
        let booted = self.boot(case).or_else(|error| {
            if !is_qemus_own_fault(&error) {
                return Err(error);
            }
            println!("QEMU failed an assertion of its own, so this boot says nothing; once more:\n{error:#}");
            self.boot(case)
        });
        match booted {
            Ok(outcome) => self.judge(case, &outcome, table),
            Err(error) => table.row(case.name, "boot", start.elapsed(), Err(format!("{error:#}"))),
        }
    }

    fn boot(&self, case: &Case) -> anyhow::Result<Outcome> {
        let disks = case.disks.iter().map(|disk| options::disk(disk)).collect::<anyhow::Result<Vec<_>>>()?;
        let payload = Payload {
            driver: case.driver,
            files: self.additions.clone(),
            steps: case.steps.iter().map(command).collect(),
            separator: SEPARATOR.to_owned(),
            namespaces: disks.len(),
            ..Payload::default()
        };
        let machine = Machine {
            device_options: case.device_options.to_owned(),
            append: case.append.to_owned(),
            disks,
            extra: processors(case.driver),
            ..Machine::default()
        };
        let steps_s: u64 = case.steps.iter().map(|step| step.timeout_s).sum();
        let boot = Boot {
            kit: &self.kit,
            scripts: &self.scripts,
            machine: &machine,
            payload: &payload,
            timeout: BOOT_TIMEOUT + Duration::from_secs(steps_s),
            verbosity: self.choice.verbosity,
        };
        boot.run(Live::Nothing)
    }

    fn judge(&self, case: &Case, outcome: &Outcome, table: &mut Table) {
        table.row(case.name, "ready", outcome.ready, Ok(()));
        for (at, step) in case.steps.iter().enumerate() {
            match outcome.steps.get(at) {
                Some(report) => table.row(case.name, step.name, report.time, verdict(step, report)),
                None => table.row(case.name, step.name, Duration::ZERO, Err("it did not report".to_owned())),
            }
        }
        table.row(case.name, "kernel log", Duration::ZERO, log_verdict(case.log, &outcome.log));
        if let Some(folder) = &self.choice.out {
            table.row(case.name, "files", Duration::ZERO, files_verdict(outcome, &folder.join(case.name)));
        }
        table.row(case.name, "all of the boot", outcome.all, Ok(()));
    }
}

fn command(step: &Step) -> Command {
    Command { words: step.words(), account: step.account, timeout_s: step.timeout_s }
}

/// One processor for steps that reset the device again and again: with two, QEMU's emulation may trip over the memory
/// map that such a reset changes.
fn processors(driver: Driver) -> Vec<String> {
    match driver {
        Driver::Vfio => vec!["-smp".to_owned(), "1".to_owned()],
        _ => Vec::new(),
    }
}

/// Whether QEMU aborted by itself. Version 10 does now and then under software emulation, when one processor uses a
/// device's memory while another changes the memory map (`iotlb_to_section`).
fn is_qemus_own_fault(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    text.contains("SIGABRT") && text.contains("qemu-system") && text.contains("Assertion")
}

/// Whether a step did what it should, or why not.
fn verdict(step: &Step, report: &StepReport) -> Verdict {
    let fulfilled = match step.expect {
        Expect::Success => report.status == 0,
        Expect::Prints(text) => report.status == 0 && report.stdout.contains(text),
        Expect::Fails(text) => report.status != 0 && report.stderr.contains(text),
    };
    if fulfilled {
        return Ok(());
    }
    let mut why = format!("expected {:?}, but it ended with {}", step.expect, meaning(report.status));
    if report.time >= Duration::from_secs(step.timeout_s) {
        why.push_str(&format!(" after its {} s", step.timeout_s));
    }
    for (stream, text) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
        if !text.trim().is_empty() {
            why.push_str(&format!("\n-- last lines of {stream}:\n{}", super::tail(text, 15)));
        }
    }
    Err(why)
}

fn log_verdict(expected: Log, log: &[Message]) -> Verdict {
    let allowlist = Allowlist::recorded().map_err(|error| format!("{error:#}"))?;
    let offences = allowlist.offences(log);
    let text = || offences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    match expected {
        Log::Clean if offences.is_empty() => Ok(()),
        Log::Clean => Err(text()),
        Log::DmaFault if offences.iter().any(|message| message.is_dma_fault()) => Ok(()),
        Log::DmaFault => Err(format!("a DMA fault was made, but the log has none\n{}", text())),
    }
}

fn files_verdict(outcome: &Outcome, folder: &Path) -> Verdict {
    outcome.unpack_files(folder).map_err(|error| format!("{error:#}"))
}

/// The results so far.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
}

struct Row {
    case: &'static str,
    step: &'static str,
    time: Duration,
    verdict: Verdict,
}

impl Table {
    /// Notes a result, and shows at once why something failed.
    fn row(&mut self, case: &'static str, step: &'static str, time: Duration, verdict: Verdict) {
        if let Err(why) = &verdict {
            println!("FAILED {case}: {step}: {why}");
        }
        self.rows.push(Row { case, step, time, verdict });
    }

    fn timed<T>(
        &mut self,
        case: &'static str,
        step: &'static str,
        body: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        let value = body()?;
        self.row(case, step, start.elapsed(), Ok(()));
        Ok(value)
    }

    fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.verdict.is_err()).count()
    }

    fn text(&self) -> String {
        let mut text = format!("\n{:<16} {:<36} {:<7} {:>8}\n", "boot", "step", "result", "seconds");
        for Row { case, step, time, verdict } in &self.rows {
            let result = if verdict.is_ok() { "ok" } else { "FAILED" };
            text.push_str(&format!("{case:<16} {step:<36} {result:<7} {:>8.2}\n", time.as_secs_f64()));
        }
        text
    }
}

/// A line that no step prints.
const SEPARATOR: &str = "-- end of step 5a0c1f3e --";
/// The time for a boot alone, on a machine that does other work too.
const BOOT_TIMEOUT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    fn report(status: i32, stdout: &str, stderr: &str) -> StepReport {
        StepReport {
            status,
            time: Duration::from_secs(1),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
    }

    fn step(expect: Expect) -> Step {
        Step { expect, ..CASES[0].steps[0] }
    }

    #[test]
    fn steps_are_judged_by_status_and_text() {
        assert!(verdict(&step(Expect::Success), &report(0, "", "noise")).is_ok());
        assert!(verdict(&step(Expect::Prints("7.3")), &report(0, "7.3.4", "")).is_ok());
        assert!(verdict(&step(Expect::Prints("7.3")), &report(1, "7.3.4", "")).is_err());
        assert!(verdict(&step(Expect::Fails("denied")), &report(1, "", "denied")).is_ok());
        assert!(verdict(&step(Expect::Fails("denied")), &report(0, "", "denied")).is_err());
    }

    #[test]
    fn only_an_abort_of_qemu_is_tried_again() {
        let own = "QEMU ended with signal: 6 (SIGABRT)\nqemu-system-x86_64: a.c:1: f: Assertion `x' failed.";
        assert!(is_qemus_own_fault(&anyhow::anyhow!(own)));
        assert!(!is_qemus_own_fault(&anyhow::anyhow!("the guest did not get ready within 90 s")));
        assert!(!is_qemus_own_fault(&anyhow::anyhow!("QEMU ended with signal: 6 (SIGABRT)")));
    }

    #[test]
    fn a_failure_shows_what_was_said() {
        let why = verdict(&step(Expect::Success), &report(137, "", "cannot map\n")).unwrap_err();
        assert!(why.contains("killed") && why.contains("cannot map"), "{why}");
    }

    #[test]
    fn boots_are_chosen_by_name() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let chosen = Choice::parse(&words("vfio --verbose")).unwrap().cases;
        assert!(!chosen.is_empty() && chosen.len() < CASES.len());
        assert!(chosen.iter().all(|case| case.name.contains("vfio")));
        assert_eq!(Choice::parse(&[]).unwrap().cases.len(), CASES.len());
        assert!(Choice::parse(&words("nonesuch")).is_err());
        assert!(Choice::parse(&words("--vebose")).is_err());
    }
}
