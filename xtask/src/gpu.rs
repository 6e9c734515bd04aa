//! `cargo xtask gpu`: a folder to carry to a machine with a GPU, which needs no Rust there.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Builds the program and puts it into the folder.
pub(crate) fn run(workspace: &Workspace, words: &[String]) -> anyhow::Result<()> {
    let folder = match words {
        [] => workspace.target_dir().join("gpu"),
        [option, folder] if option == "--out" => PathBuf::from(folder),
        _ => bail!("`{}`; accepted is --out FOLDER", words.join(" ")),
    };
    let mut steps = Steps::of(2);
    let build = format!("build --release -p ugds-tests --bin {PROGRAM}");
    steps.command("build", &mut workspace.cargo(&build))?;
    steps.step("bundle", || {
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let built = workspace.target_dir().join("release").join(PROGRAM);
        let program = folder.join(PROGRAM);
        fs::copy(&built, &program).with_context(|| built.display().to_string())?;
        fs::write(folder.join("README"), README)?;
        let needed = newest_glibc(&fs::read(&program)?);
        println!("{}\nneeds x86-64 Linux with glibc {needed} or newer", folder.display());
        Ok(())
    })
}

/// The newest version of glibc that a program names.
fn newest_glibc(program: &[u8]) -> String {
    const NAME: &[u8] = b"GLIBC_2.";
    let minors = program.windows(NAME.len() + 3).filter(|window| window.starts_with(NAME)).map(|window| {
        let digits = window[NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'))
    });
    format!("2.{}", minors.max().unwrap_or(0))
}

const PROGRAM: &str = "ugds-gpu-check";

const README: &str = "\
Run ./ugds-gpu-check on a machine with an NVIDIA GPU and its driver. It needs no toolkit, no root and no
NVMe device, uses less than 1 GiB of GPU memory, and takes about a minute. --json prints the report for
programs; --quick measures less.

Exit codes: 0 all checks passed, 1 one failed, 2 a wrong argument, 3 no driver or no GPU.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_the_largest_number() {
        assert_eq!(newest_glibc(b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0.."), "2.34");
        assert_eq!(newest_glibc(b"nothing of the kind"), "2.0");
    }

    #[test]
    fn the_exit_codes_are_those_of_the_program() {
        let source = include_str!("../../tests/src/bin/ugds-gpu-check/main.rs");
        assert!(source.contains("const NO_GPU: u8 = 3;") && README.contains("3 no driver"));
        assert!(source.contains("const WRONG_ARGUMENT: u8 = 2;") && README.contains("2 a wrong argument"));
    }
}
