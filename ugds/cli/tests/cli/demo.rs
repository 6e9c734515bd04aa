//! `ugds demo`: data go there and back, and a comparison that can fail.

use crate::place::{Place, bytes};

#[test]
fn a_file_of_any_size_comes_back() {
    for len in [1, 511, 4096, 4097, (1 << 20) + 1, (33 << 20) + 5] {
        let place = Place::new();
        place.write("data", &bytes(len));
        let out = place.ok(&["demo", "--file", "data"]);
        assert!(out.contains("ok       the data came back as they were"), "{len}: {out}");
        assert_eq!(place.names(), ["data"], "{len}: the image was not removed");
    }
}

#[test]
fn the_output_fits_a_terminal_and_says_the_paths() {
    let place = Place::new();
    place.write("data", &bytes(5000));
    let out = place.ok(&["demo", "--file", "data"]);
    for part in [
        "image    ",
        "device   ",
        "memory   2 regions",
        "write    5000 bytes",
        "flush    ",
        "p99.99",
        "sha256",
    ] {
        assert!(out.contains(part), "no {part:?} in {out}");
    }
    let table: Vec<&str> = out.lines().skip_while(|line| !line.contains("GiB/s")).take(3).collect();
    assert_eq!(table.len(), 3);
    assert!(table.iter().all(|line| line.len() <= 80), "{out}");
}

#[test]
fn a_changed_byte_is_found() {
    let place = Place::new();
    place.write("data", &bytes(100_000));
    let ran = place.ugds(&["demo", "--file", "data", "--corrupt-for-test"]);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    assert!(ran.stderr.starts_with("ugds: error: the data differ"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("ok "), "{}", ran.stdout);
    assert_eq!(place.names(), ["data"]);
}

#[test]
fn json_is_all_there_is() {
    let place = Place::new();
    place.write("data", &bytes(10_000));
    let report: serde_json::Value =
        serde_json::from_str(&place.ok(&["demo", "--file", "data", "--json"])).unwrap();
    assert_eq!(report["bytes"], 10_000);
    assert_eq!(report["equal"], true);
    assert_eq!(report["sha256_written"], report["sha256_read"]);
    assert_eq!(report["write"]["requests"], 1);
    assert!(report["read"]["iops"].as_f64().unwrap() > 0.0);

    let ran = place.ugds(&["demo", "--file", "data", "--json", "--corrupt-for-test"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.status, &report["equal"]), (1, &false.into()));
}

#[test]
fn files_that_cannot_be_sources_are_named() {
    let place = Place::new();
    place.write("empty", b"");
    for (file, status, parts) in [
        ("empty", 2, ["empty is empty", "1 byte or more is accepted"]),
        (".", 2, [". is no regular file", "a regular file is accepted"]),
        ("missing", 1, ["cannot open missing", "No such file"]),
    ] {
        let ran = place.ugds(&["demo", "--file", file]);
        assert_eq!(ran.status, status, "{file}");
        assert!(parts.iter().all(|part| ran.stderr.contains(part)), "{file}: {}", ran.stderr);
    }
}
