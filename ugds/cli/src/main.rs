//! The program `ugds`: what people do with a device from a shell. This file is the table of its commands.

mod bench;
mod consent;
mod copy;
mod demo;
mod device;
mod digest;
mod failure;
mod identify;
mod measure;
mod output;
mod random;
mod table;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use failure::Outcome;

/// Reads and writes NVMe namespaces from user space, straight into registered memory.
#[derive(Parser)]
#[command(name = "ugds", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Identify(identify::Args),
    Copy(copy::Args),
    Bench(bench::Args),
}

impl Command {
    fn run(&self) -> anyhow::Result<Outcome> {
        match self {
            Self::Demo(args) => demo::run(args),
            Self::Identify(args) => identify::run(args),
            Self::Copy(args) => copy::run(args),
            Self::Bench(args) => bench::run(args),
        }
    }
}

fn main() -> ExitCode {
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
        eprint!("ugds: error: a command is missing\n\n{text}");
    } else {
        eprint!("ugds: {text}");
    }
    ExitCode::from(failure::USAGE)
}

const AFTER_HELP: &str = "\
Devices:
  emu:[FILE][?OPTIONS]      the emulated controller, over a file or over memory
  vfio:0000:01:00.0[?ns=N]  a PCI device (not built into this version)
  ugds:/dev/NODE[?ns=N]     a device node of the kernel module (not built into this version)

  Options of emu, with & between them (quote the URI in a shell):
    size=1G (or the file's length)  lba=4096  namespaces=1  ns=1  queues=8  mqes=1023  dstrd=0
    mpsmin=0  mdts=5  sgl=0  dbbuf=0  vwc=0  ooo=SEED  latency_us=0  bandwidth_mib=0
  Sizes take K, M, G or T, powers of 1024. In a file name, write ? # % & as %3F %23 %25 %26.

Examples:
  ugds demo
  ugds identify 'emu:?size=4G&namespaces=2'
  ugds copy model.bin 'emu:disk.img?size=8G#1M' --verify
  ugds bench 'emu:?size=1G' --rw randread --bs 4k --threads 4 --depth 8 --time 5

Exit status: 0 success, 1 failure or data that differ, 2 wrong usage.";
