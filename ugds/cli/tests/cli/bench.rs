//! `ugds bench`: numbers that hang together, data that are checked, and consent before data are destroyed.

use crate::place::{Place, bytes};
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

fn bench(place: &Place, words: &[&str]) -> Value {
    let words = [&["bench"], words, &["--time", "0.1", "--json"]].concat();
    serde_json::from_str(&place.ok(&words)).unwrap()
}

#[test]
fn every_pattern_runs() {
    let place = Place::new();
    for (rw, reads, writes) in [
        ("read", true, false),
        ("write", false, true),
        ("randread", true, false),
        ("randwrite", false, true),
        ("randrw", true, true),
    ] {
        let report =
            bench(&place, &["emu:?size=8M", "--rw", rw, "--bs", "8k", "--threads", "2", "--depth", "2"]);
        for (name, expected) in [("read", reads), ("write", writes)] {
            assert_eq!(report[name].is_object(), expected, "{rw} {name}");
            if expected {
                let requests = report[name]["requests"].as_u64().unwrap();
                assert!(requests > 0);
                assert_eq!(report[name]["bytes"].as_u64().unwrap(), requests * 8192);
                assert!(report[name]["p50_us"].as_f64() <= report[name]["p999_us"].as_f64());
            }
        }
        assert_eq!(report["rw"], rw);
        assert_eq!(report["verified_blocks"], Value::Null);
    }
}

#[test]
fn verified_data_are_right_in_every_pattern() {
    let place = Place::new();
    for rw in ["read", "write", "randread", "randwrite", "randrw"] {
        let uri = "emu:?size=4M&lba=512&ooo=7#64K+1M";
        let words = [uri, "--rw", rw, "--bs", "4k", "--threads", "2", "--depth", "3", "--verify"];
        let report = bench(&place, &words);
        assert!(report["verified_blocks"].as_u64().unwrap() >= 2048, "{rw}: {report}");
    }
}

#[test]
fn only_the_area_is_touched() {
    let place = Place::new();
    place.write("a.img", &vec![0xee; 1 << 20]);
    bench(&place, &["emu:a.img#64K+128K", "--rw", "randwrite", "--verify", "--erase", "--threads", "2"]);
    let image = place.read("a.img");
    assert!(image[..64 << 10].iter().chain(&image[192 << 10..]).all(|byte| *byte == 0xee));
    assert!(
        image[64 << 10..192 << 10]
            .chunks(4096)
            .all(|block| block.starts_with(&image[64 << 10..(64 << 10) + 8]))
    );
}

#[test]
fn data_are_destroyed_only_when_asked_for() {
    let place = Place::new();
    let before = bytes(1 << 20);
    place.write("a.img", &before);
    for words in
        [&["--rw", "write"][..], &["--rw", "randwrite"], &["--rw", "randrw"], &["--rw", "read", "--verify"]]
    {
        let ran = place.ugds(&[&["bench", "emu:a.img", "--time", "0.05"], words].concat());
        assert_eq!(ran.status, 2, "{words:?}");
        assert!(ran.stderr.contains("emu:a.img") && ran.stderr.contains("--erase"), "{}", ran.stderr);
    }
    place.ok(&["bench", "emu:a.img", "--rw", "randread", "--time", "0.05"]);
    assert!(place.read("a.img") == before);
    place.ok(&["bench", "emu:a.img", "--rw", "randwrite", "--time", "0.05", "--erase"]);
    place.ok(&["bench", "emu:new.img?size=1M", "--rw", "randwrite", "--time", "0.05"]);
}

/// Somebody else writes to the image while blocks are verified.
#[test]
fn wrong_data_end_the_run() {
    let place = Place::new();
    place.write("a.img", &vec![0; 1 << 20]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ugds"));
    let words = ["bench", "emu:a.img", "--rw", "randread", "--verify", "--erase", "--time", "60"];
    let command = command.args(words).current_dir(place.path(""));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !place.read("a.img").chunks(4096).all(|block| block[0] != 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let image = std::fs::OpenOptions::new().write(true).open(place.path("a.img")).unwrap();
    image.write_all_at(&[0xee; 8], 5 * 4096).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("ugds: error: block 5 differs from byte 0 on: expected version 1"),
        "{stderr}"
    );
}

#[test]
fn the_table_fits_a_terminal() {
    let place = Place::new();
    let out = place.ok(&["bench", "emu:?size=1M", "--rw", "randrw", "--time", "0.05"]);
    assert!(out.contains("1 threads x 1 outstanding"), "{out}");
    assert!(out.lines().filter(|line| line.contains("GiB/s")).all(|line| line.len() <= 80), "{out}");
}

/// What is wrong, and what the message says.
const WRONG: &[(&[&str], &[&str])] = &[
    (&["emu:", "--rw", "readwrite"], &["readwrite", "`randrw` reads and writes"]),
    (&["emu:", "--rw", "rw"], &["rw", "`randrw` reads and writes"]),
    (&["emu:", "--mode", "async"], &["async", "sync"]),
    (&["emu:", "--bs", "1000"], &["--bs 1000", "4 KiB"]),
    (&["emu:", "--bs", "0"], &["--bs 0", "4 KiB"]),
    (&["emu:", "--bs", "4KB"], &["4KB", "write 4K or 4KiB"]),
    (&["emu:", "--bs", "128M"], &["128M", "64 MiB"]),
    (&["emu:", "--threads", "0"], &["0", "1..=256"]),
    (&["emu:", "--depth", "1025"], &["1025", "1..=1024"]),
    (&["emu:", "--threads", "64", "--depth", "64"], &["4096 requests", "at most 1024"]),
    (&["emu:", "--time", "0"], &["0", "0.001 to 86400"]),
    (&["emu:", "--time", "soon"], &["soon", "0.001 to 86400"]),
    (
        &["emu:?size=64K", "--bs", "16k", "--depth", "8"],
        &["64 KiB is too small for 8 outstanding requests of 16 KiB"],
    ),
    (&["emu:?size=1M#100"], &["offset 100 bytes", "4 KiB"]),
    (&["emu:?size=1M#2M"], &["offset 2 MiB", "1 MiB"]),
    (&["emu:?size=1M&ns=2"], &["ns=2", "add namespaces=2"]),
    (&["disk.img"], &["disk.img", "emu:"]),
    (&[], &["<URI>"]),
];

#[test]
fn mistakes_are_named_with_what_is_accepted() {
    let place = Place::new();
    for (words, parts) in WRONG {
        let ran = place.ugds(&[&["bench"], *words].concat());
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("ugds: error: "), "{words:?}: {}", ran.stderr);
        for part in *parts {
            assert!(ran.stderr.contains(part), "{words:?}: no {part:?} in {}", ran.stderr);
        }
    }
}
