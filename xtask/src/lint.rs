//! `cargo xtask lint`: format, clippy and documentation with warnings as errors, and the rules about sources that
//! no compiler knows.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::steps::Steps;
use crate::workspace::Workspace;

/// Where unsafe code may stand. Every other source is safe code. In the facade, that is the C API and the places
/// where a caller hands over memory of its own; in the tests, the programs that break a device on purpose, that count allocations, and those that fork,
/// register memory of their own, use a GPU, or send a command of their own making.
const UNSAFE_PLACES: &[&str] = &[
    "ugds-hal/",
    "ugds-mem/",
    "ugds/src/device.rs",
    "ugds/src/gpu.rs",
    "ugds/src/capi/",
    "ugds-kmod/",
    "tests/src/bin/vfio-",
    "tests/src/bin/instr-facade.rs",
    "tests/src/bin/ugds-gpu-check/",
    "tests/src/stubs.rs",
    "tests/null/",
    "tests/tests/fork.rs",
    "tests/tests/registered.rs",
    "tests/tests/hooked/",
    "tests/tests/gpu_",
    "tests/tests/lists.rs",
];
/// Crates that must carry `#![forbid(unsafe_code)]`, which no module can take back.
const FORBID_UNSAFE: &[&str] = &["nvme-proto", "ugds-queue", "ugds-sched"];
/// A `lib.rs` is a table of contents.
const LIB_LINES_MAX: usize = 60;
/// Folders without sources of ours.
const SKIPPED: &[&str] = &["target", ".git", "fuzz"];

/// Runs all lints and stops at the first that fails.
pub(crate) fn run(workspace: &Workspace, _: &[String]) -> anyhow::Result<()> {
    let mut steps = Steps::of(5);
    steps.command("format", &mut workspace.cargo("fmt --all --check"))?;
    steps.step("source rules", || source_rules(workspace.root()))?;
    steps.command("clippy", &mut workspace.cargo("clippy --workspace --all-targets -- -D warnings"))?;
    // The one optional feature; without NVIDIA's library its code is compiled and its codes are tested, no more.
    let interop = "clippy -p ugds-mem --features cudarc --all-targets -- -D warnings";
    steps.command("clippy, cudarc", &mut workspace.cargo(interop))?;
    let mut doc = workspace.cargo("doc --workspace --no-deps");
    steps.command("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn source_rules(root: &Path) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    let mut sources = 0;
    for path in rust_sources(root)? {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let relative = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
        faults.extend(faults_of(&relative, &text));
        sources += 1;
    }
    if !faults.is_empty() {
        bail!("{} faults\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("{sources} sources keep the rules");
    Ok(())
}

fn rust_sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = vec![root.to_owned()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !SKIPPED.contains(&&*name) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(sources)
}

/// Every broken rule in the source `text` at `path`, which is relative to the root and has forward slashes.
fn faults_of(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if path.ends_with("src/lib.rs") && text.lines().count() > LIB_LINES_MAX {
        faults.push(format!("{path}: {} lines, at most {LIB_LINES_MAX} are accepted", text.lines().count()));
    }
    let forbids = FORBID_UNSAFE.iter().any(|name| path == format!("{name}/src/lib.rs"));
    if forbids && !text.contains("#![forbid(unsafe_code)]") {
        faults.push(format!("{path}: lacks `#![forbid(unsafe_code)]`"));
    }
    if UNSAFE_PLACES.iter().any(|place| path.starts_with(place)) {
        if allows_unsafe(text) && !text.contains("UNSAFETY:") {
            faults.push(format!("{path}: allows unsafe code without an `UNSAFETY:` line that says why"));
        }
    } else if let Some(line) = text.lines().position(has_unsafe) {
        faults.push(format!(
            "{path}:{}: unsafe code; it may stand in {}",
            line + 1,
            UNSAFE_PLACES.join(", ")
        ));
    }
    faults
}

/// Whether the whole module may hold unsafe code. A single item that may has its reason in its own documentation.
fn allows_unsafe(text: &str) -> bool {
    text.lines().map(code).any(|line| line.contains("#![allow(unsafe_code"))
}

/// Whether a line has the keyword before something that it makes unsafe.
fn has_unsafe(line: &str) -> bool {
    const MADE_UNSAFE: &[&str] = &["{", "fn", "impl", "trait", "extern", "("];
    let code = code(line);
    code.match_indices("unsafe").any(|(at, keyword)| {
        let rest = code[at + keyword.len()..].trim_start();
        let whole_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        whole_word && MADE_UNSAFE.iter().any(|next| rest.starts_with(next))
    })
}

/// A line without its comment and without what stands in its strings. A string of several lines is not seen as one.
fn code(line: &str) -> String {
    let line = line.replace("'\"'", "");
    let mut code = String::new();
    let mut in_string = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if in_string => drop(characters.next()),
            '"' => in_string = !in_string,
            '/' if !in_string && characters.peek() == Some(&'/') => break,
            _ if !in_string => code.push(character),
            _ => {}
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_has_an_address() {
        let block = "fn f() {\n    unsafe { g() }\n}\n";
        assert!(faults_of("ugds/src/region.rs", block)[0].starts_with("ugds/src/region.rs:2: unsafe code"));
        assert!(faults_of("ugds-hal/src/memory.rs", block).is_empty());
        assert_eq!(faults_of("xtask/src/a.rs", "#[unsafe(no_mangle)]").len(), 1);
        for safe in [
            "// unsafe { }",
            "let unsafe_count = 1;",
            "f(\"unsafe { }\")",
            "f(\"\\\"unsafe {\")",
            "f('\"') // unsafe {",
        ] {
            assert!(faults_of("ugds/src/region.rs", safe).is_empty(), "{safe}");
        }
        let after_a_string = "f(\"//\"); unsafe { g() }";
        assert_eq!(faults_of("ugds/src/region.rs", after_a_string).len(), 1);
    }

    #[test]
    fn unsafe_modules_say_why() {
        assert_eq!(faults_of("ugds-hal/src/a.rs", "#![allow(unsafe_code)]").len(), 1);
        assert!(
            faults_of("ugds-hal/src/a.rs", "// UNSAFETY: maps a file\n#![allow(unsafe_code)]").is_empty()
        );
    }

    #[test]
    fn the_safe_crates_forbid_it() {
        assert_eq!(faults_of("ugds-queue/src/lib.rs", "#![no_std]").len(), 1);
        assert!(faults_of("ugds-queue/src/lib.rs", "#![forbid(unsafe_code)]").is_empty());
    }

    #[test]
    fn lib_rs_is_a_table_of_contents() {
        assert!(faults_of("ugds/src/lib.rs", &"//\n".repeat(60)).is_empty());
        assert_eq!(faults_of("ugds/src/lib.rs", &"//\n".repeat(61)).len(), 1);
    }
}
