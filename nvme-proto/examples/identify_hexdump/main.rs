//! Prints what an Identify Controller page says, from a hex dump of it.

mod hexdump;
mod report;

use std::io::Read;
use std::process::ExitCode;

const HELP: &str = "\
Prints what an Identify Controller page says, from a hex dump of its 4096 bytes.

usage: identify_hexdump [FILE]

The dump is read from FILE, or from standard input. It may be one of
  nvme id-ctrl /dev/nvme0 -o binary | xxd
  nvme id-ctrl /dev/nvme0 -o binary | xxd -p
  nvme id-ctrl /dev/nvme0 -o binary | hexdump -C
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let text = match arguments {
        [] => read_stdin()?,
        [file] => std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?,
        _ => return Err("more than one file; see --help".into()),
    };
    let bytes = hexdump::parse(&text)?;
    Ok(report::report(&report::controller(&bytes)?))
}

fn read_stdin() -> std::io::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}
