//! What all commands have in common: help, versions, mistakes, and readers that go away.

use std::process::{Command, Stdio};

use crate::place::{Place, bytes};
use serde_json::Value;

#[test]
fn help_suffices() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    for part in [
        "demo",
        "identify",
        "copy",
        "bench",
        "trace",
        "stat",
        "emu:[FILE]",
        "size=1G",
        "Examples:",
        "Exit status:",
    ] {
        assert!(help.contains(part), "no {part:?} in {help}");
    }
    for command in ["demo", "identify", "copy", "bench", "trace", "stat"] {
        let help = place.ok(&[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("Exit status:"), "{help}");
        assert!(!help.contains("corrupt"), "{help}");
    }
    assert!(place.ok(&["--version"]).starts_with(concat!("ugds ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn help_fits_a_terminal() {
    let place = Place::new();
    for words in [
        &["--help"][..],
        &["-h"],
        &["demo", "--help"],
        &["identify", "--help"],
        &["copy", "--help"],
        &["copy", "-h"],
        &["bench", "--help"],
        &["bench", "-h"],
        &["bench", "paper", "--help"],
        &["bench", "paper", "-h"],
        &["trace", "--help"],
        &["trace", "-h"],
        &["stat", "--help"],
        &["stat", "-h"],
    ] {
        let help = place.ok(words);
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{words:?}: {wide:#?}");
    }
}

/// The program itself lists the options, when it is given one that it doesn't know.
#[test]
fn the_help_has_a_line_for_each_option_of_the_emulator() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    let wrong = place.ugds(&["identify", "emu:?xxxxxxxx=1"]).stderr;
    let options = wrong.split_once("accepted are ").unwrap().1.lines().next().unwrap();
    assert_eq!(options.split(", ").count(), 15, "{options}");
    for option in options.split(", ") {
        let start = format!("  {option}=");
        assert_eq!(help.lines().filter(|line| line.starts_with(&start)).count(), 1, "{option}");
    }
}

#[test]
fn a_wrong_value_is_told_once() {
    let place = Place::new();
    for value in ["emu:?sise=1G", "nonsense", "emu:a#x", "emu:?size=4GB"] {
        let stderr = place.ugds(&["bench", value]).stderr;
        let first = stderr.lines().next().unwrap();
        assert!(first.starts_with("ugds: error: ") && first.contains("<URI>"), "{stderr}");
        assert!(stderr.matches(value).count() <= 1, "{stderr}");
    }
}

#[test]
fn an_error_that_nobody_takes_is_no_panic() {
    let place = Place::new();
    place.write("data", &bytes(100));
    for words in [
        &["identify", "emu:no.img"][..],
        &["nothing"],
        &[],
        &["demo", "--file", "data", "--corrupt-for-test"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ugds"));
        let command = command.args(words).current_dir(place.path("")).env("TMPDIR", place.path(""));
        let status = command.stdout(Stdio::null()).stderr(full).status().unwrap();
        assert!(matches!(status.code(), Some(1 | 2)), "{words:?}: {status}");
    }
}

#[test]
fn identify_says_whose_the_limit_is() {
    let place = Place::new();
    let line = |uri: &str| {
        let text = place.ok(&["identify", uri]);
        text.lines().find(|line| line.starts_with("largest command")).unwrap().to_owned()
    };
    assert!(line("emu:?mdts=0").contains("(the driver's limit; the device sets none)"));
    assert!(line("emu:?mdts=1").ends_with("8 KiB"));
}

#[test]
fn mistakes_have_status_2() {
    let place = Place::new();
    for (words, part) in [
        (&[][..], "a command is missing"),
        (&["dmeo"], "dmeo"),
        (&["identify", "emu:?sise=1G"], "did you mean `size`?"),
        (&["identify"], "<URI>"),
        (&["demo", "--nothing"], "--nothing"),
    ] {
        let ran = place.ugds(words);
        assert_eq!(ran.status, 2, "{words:?}");
        assert!(
            ran.stderr.starts_with("ugds: error: ") && ran.stderr.contains(part),
            "{words:?}: {}",
            ran.stderr
        );
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn identify_tells_text_and_json() {
    let place = Place::new();
    let uri = "emu:?size=2M&lba=512&namespaces=2&queues=3&mqes=63";
    let text = place.ok(&["identify", uri]);
    assert!(text.contains("namespace 1\n") && text.contains("namespace 2\n"), "{text}");
    assert!(text.contains("2 MiB (4096 blocks of 512 bytes)"), "{text}");
    let report: Value = serde_json::from_str(&place.ok(&["identify", uri, "--json"])).unwrap();
    assert_eq!(report["queues"], 3);
    assert_eq!(report["queue_entries"], 64);
    assert_eq!(report["namespaces"][1]["nsid"], 2);
    assert_eq!(report["namespaces"][1]["blocks"], 4096);
    assert_eq!(report["refused"], Value::Array(Vec::new()));
}

#[test]
fn devices_that_cannot_be_opened_say_why() {
    let place = Place::new();
    place.write("odd.img", &[0; 1000]);
    for (uri, part) in [
        ("vfio:ffff:ff:1f.7", "cannot open vfio:ffff:ff:1f.7"),
        ("ugds:/dev/no/node", "cannot open ugds:/dev/no/node"),
        ("emu:odd.img", "1000 bytes"),
        ("emu:no/disk.img", "no such image"),
        ("emu:no/disk.img?size=1M", "No such file"),
    ] {
        let ran = place.ugds(&["identify", uri]);
        assert_eq!(ran.status, 1, "{uri}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("ugds: error: cannot open"), "{}", ran.stderr);
        assert!(ran.stderr.contains(part), "{uri}: {}", ran.stderr);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let place = Place::new();
    place.write("data", &bytes(100));
    for words in [
        &["--help"][..],
        &["--version"],
        &["identify", "emu:?size=1M"],
        &["demo", "--file", "data"],
        &["bench", "emu:?size=1M", "--time", "0.02"],
        &["bench", "emu:?size=1M", "--time", "0.02", "--json"],
        &["trace", "emu:?size=1M"],
        &["stat"],
        &["bench", "paper", "emu:?size=1M", "--threads", "1", "--batch", "1", "--time", "0.02"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ugds"));
        let command = command.args(words).current_dir(place.path("")).env("TMPDIR", place.path(""));
        let output =
            command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert_eq!(place.names(), ["data"]);
    }
}
