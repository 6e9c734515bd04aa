//! Which libraries a program of the host needs in the guest.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The interpreter and the libraries of the program at `path`, as absolute paths; none for scripts and static
/// programs.
///
/// # Errors
/// When `ldd` is missing, or a library is.
pub(crate) fn libraries(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !is_elf(path)? {
        return Ok(Vec::new());
    }
    let output = Command::new("ldd").arg(path).env("LC_ALL", "C").output().context("cannot start `ldd`")?;
    parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| path.display().to_string())
}

fn is_elf(path: &Path) -> anyhow::Result<bool> {
    let mut magic = Vec::new();
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.take(4).read_to_end(&mut magic)?;
    Ok(magic == b"\x7fELF")
}

/// The paths in the output of `ldd`, which has one of these lines for each library:
/// `NAME => PATH (ADDRESS)`, `PATH (ADDRESS)`, `NAME => not found`, and `NAME (ADDRESS)` for what the kernel maps.
fn parse(output: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in output.lines().map(str::trim) {
        let (name, place) = line.split_once(" => ").unwrap_or((line, line));
        if place == "not found" {
            bail!("needs the library {name}, which is not found on this host");
        }
        let place = place.split(" (").next().unwrap_or_default();
        if place.starts_with('/') {
            paths.push(PathBuf::from(place));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreter_and_libraries_are_found() {
        let output = "\tlinux-vdso.so.1 (0x00007ffd)\n\
            \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths = parse(output).unwrap();
        assert_eq!(
            paths,
            ["/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_static_program_needs_nothing() {
        assert!(parse("\tstatically linked\n").unwrap().is_empty());
        assert!(parse("\tnot a dynamic executable\n").unwrap().is_empty());
    }

    #[test]
    fn a_missing_library_is_named() {
        let error = parse("\tlibcuda.so.1 => not found\n").unwrap_err();
        assert!(error.to_string().contains("libcuda.so.1"), "{error}");
    }
}
