//! The program `ugds`: what people do with a device from a shell. This file is the table of its commands.

mod bench;
mod cleanup;
mod consent;
mod copy;
mod demo;
mod device;
mod digest;
mod failure;
mod file;
mod identify;
mod measure;
mod output;
mod random;
mod replacement;
mod stat;
mod table;
mod trace;
mod units;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

use failure::Outcome;

/// Reads and writes NVMe namespaces from user space, straight into registered memory.
#[derive(Parser)]
#[command(name = "ugds", version, arg_required_else_help = true, max_term_width = output::LINE_CHARACTERS)]
#[command(after_help = SHORT_HELP, after_long_help = LONG_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Identify(identify::Args),
    Copy(copy::Args),
    Bench(Box<bench::Args>),
    Trace(Box<trace::Args>),
    Stat(stat::Args),
}

impl Command {
    fn run(&self) -> anyhow::Result<Outcome> {
        match self {
            Self::Demo(args) => demo::run(args),
            Self::Identify(args) => identify::run(args),
            Self::Copy(args) => copy::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Trace(args) => trace::run(args),
            Self::Stat(args) => stat::run(args),
        }
    }
}

fn main() -> ExitCode {
    cleanup::on_signals();
    match Cli::try_parse() {
        Ok(cli) => failure::exit_code(cli.command.run()),
        Err(error) => usage(&error),
    }
}

/// Help and version go to the standard output, mistakes to the standard error with the prefix of all errors.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return failure::exit_code(output::text(&error.render().to_string()).map(|()| Outcome::Success));
    }
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::complain(&format!("ugds: error: a command is missing\n\n{text}"));
    } else if let Some(text) = wrong_value(error).or_else(|| word_too_many(error)) {
        output::complain(&format!("ugds: error: {text}\n\nFor more information, try '--help'."));
    } else {
        output::complain(&format!("ugds: {text}"));
    }
    ExitCode::from(failure::USAGE)
}

/// The argument and what is wrong with its value, if that names the value already: clap would name it once more.
fn wrong_value(error: &clap::Error) -> Option<String> {
    let ContextValue::String(argument) = error.get(ContextKind::InvalidArg)? else { return None };
    let ContextValue::String(value) = error.get(ContextKind::InvalidValue)? else { return None };
    // For those who know the names of other programs: the most similar name is `randwrite`.
    if argument.starts_with("--rw") && matches!(value.as_str(), "rw" | "readwrite" | "mixed") {
        return Some(format!("{argument}: there is no `{value}`; `randrw` reads and writes, half and half"));
    }
    let reason = std::error::Error::source(error)?.to_string();
    (value.is_empty() || reason.contains(value.as_str())).then(|| format!("{argument}: {reason}"))
}

/// What follows a URI or options is no subcommand, whatever clap takes it for.
fn word_too_many(error: &clap::Error) -> Option<String> {
    let ContextValue::String(word) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    (error.kind() == ErrorKind::ArgumentConflict).then(|| {
        format!(
            "`{word}` is a word too many; `ugds bench URI` with options, or `ugds bench paper URI` with options, is accepted"
        )
    })
}

const SHORT_HELP: &str = "\
Devices:
  emu:[FILE][?OPTIONS]      the emulated controller, over a file or over memory
  vfio:0000:01:00.0[?ns=N]  a PCI device that is bound to vfio-pci
  ugds:/dev/NODE[?ns=N]     a device node of the kernel module (not built yet)

`ugds --help` has the options of emu. `ugds COMMAND --help` has examples.";

const LONG_HELP: &str = "\
Devices:
  emu:[FILE][?OPTIONS]      the emulated controller, over a file or over memory
  vfio:0000:01:00.0[?ns=N]  a PCI device that is bound to vfio-pci
  ugds:/dev/NODE[?ns=N]     a device node of the kernel module (not built yet)

Options of emu, with & between them (quote the URI in a shell):
  size=BYTES       of each namespace, a multiple of lba; makes a new image of
                   zeros; 1G in memory, and the content of an image, if left out
  lba=BYTES        of a block: a power of two from 512 to 64K (4096)
  namespaces=N     how many there are, 1 to 1024 (1)
  ns=N             the namespace that is meant, 1 to namespaces (the first)
  queues=N         I/O queue pairs, 1 to 1024 (8)
  mqes=N           entries of a queue less 1: CAP.MQES, 0 to 65535 (1023)
  dstrd=N          doorbells are 4 << N bytes apart: CAP.DSTRD, 0 to 8 (0)
  mpsmin=N         the smallest page is 4K << N: CAP.MPSMIN, 0 to 8 (0)
  mdts=N           a command moves at most 2^N smallest pages, 0 to 16;
                   0 is no limit (5)
  sgl=0|1          scatter-gather lists (0)
  dbbuf=0|1        shadow doorbells (0)
  vwc=0|1          a volatile write cache (0)
  ooo=SEED         complete commands out of order, 0 to 2^64-1 (in order)
  latency_us=N     microseconds before a command's data, 0 to 60000000 (0)
  bandwidth_mib=N  MiB/s that all commands share, 0 to 1048576; 0 is no limit
                   (0)

  Sizes take K, M, G or T, powers of 1024. In a file name, write ? # % & as %3F
  %23 %25 %26. An image does not record namespaces and lba: open it with those
  that it was made with. While a device is over an image, no other can be.

Examples:
  ugds demo
  ugds identify 'emu:?size=4G&namespaces=2'
  ugds copy model.bin 'emu:disk.img?size=8G#1M' --verify
  ugds bench 'emu:?size=1G' --rw randread --bs 4k --threads 4 --depth 8 --time 5
  ugds trace 'emu:?latency_us=80' -o trace.json

Exit status: 0 success, 1 failure or data that differ, 2 wrong usage.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Columns would break apart if a line were wrapped.
    #[test]
    fn the_tables_of_the_help_are_shown_as_they_are_written() {
        assert!(Cli::command().render_help().to_string().contains(SHORT_HELP));
        assert!(Cli::command().render_long_help().to_string().contains(LONG_HELP));
    }
}
