//! `ugds trace`: lives that hang together, as a table and as a file that viewers of traces read.

use crate::place::{Place, bytes};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Runs a trace and returns its events and its text.
fn trace(place: &Place, words: &[&str]) -> (Vec<Value>, String) {
    let text = place.ok(&[&["trace"], words, &["-o", "trace.json"]].concat());
    let mut document: Value = serde_json::from_slice(&place.read("trace.json")).unwrap();
    assert_eq!(document["otherData"]["dropped_events"], 0);
    let Value::Array(events) = document["traceEvents"].take() else { panic!("{document}") };
    (events, text)
}

fn of_kind<'e>(events: &'e [Value], cat: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["cat"] == cat).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What viewers need, and what all traces have in common.
fn check(events: &[Value]) {
    let mut names = BTreeMap::new();
    for event in events {
        assert_eq!(event["pid"], 1, "{event}");
        let track = event["tid"].as_u64().unwrap();
        match event["ph"].as_str().unwrap() {
            "M" if event["name"] == "thread_name" => {
                assert!(names.insert(track, event["args"]["name"].clone()).is_none(), "{event}");
            }
            "M" => {}
            "X" => assert!(number(&event["ts"]) >= 0.0 && number(&event["dur"]) >= 0.0, "{event}"),
            "s" | "f" => assert!(event["id"].is_u64() && number(&event["ts"]) >= 0.0, "{event}"),
            other => panic!("{other} is no kind of event that is written"),
        }
    }
    let used: BTreeSet<u64> = events
        .iter()
        .filter(|event| event["ph"] != "M")
        .map(|event| event["tid"].as_u64().unwrap())
        .collect();
    assert!(used.iter().all(|track| names.contains_key(track)), "{names:?}");
    let mut ends: BTreeMap<u64, f64> = BTreeMap::new();
    for event in of_kind(events, "command") {
        let args = &event["args"];
        let times = ["entered_us", "staged_us", "rung_us", "completed_us", "returned_us"]
            .map(|name| number(&args[name]));
        assert!(times.is_sorted(), "{event}");
        assert!((number(&event["ts"]) - times[1]).abs() < 1e-6, "{event}");
        assert!((number(&event["dur"]) - (times[3] - times[1])).abs() < 2e-3, "{event}");
        let track = event["tid"].as_u64().unwrap();
        assert!(names[&track].as_str().unwrap().starts_with(&format!("queue {}", args["qid"])), "{event}");
        // On one track, one after the other.
        let end = ends.insert(track, times[3]);
        assert!(end.is_none_or(|end| end <= times[1] + 1e-6), "{event}");
    }
}

#[test]
fn each_command_has_one_slice_with_its_times_in_order() {
    let place = Place::new();
    for (words, requests, commands) in [
        (&["emu:?size=8M&mdts=5"][..], 32, 32),
        (&["emu:?size=8M&mdts=5&ooo=3", "--bs", "512k", "--count", "5"], 5, 20),
        (&["emu:?size=8M&ooo=3", "--rw", "randread", "--depth", "8", "--count", "100"], 100, 100),
        (&["emu:?size=8M&queues=1", "--rw", "write", "--depth", "3", "--count", "10"], 10, 10),
        (&["emu:?size=8M&namespaces=2&ns=2#1M+64K", "--rw", "randwrite", "--count", "10"], 10, 10),
    ] {
        let (events, text) = trace(&place, words);
        check(&events);
        assert_eq!(of_kind(&events, "request").len(), requests, "{words:?}");
        assert!(text.contains(&format!("commands {commands}\n")), "{words:?}: {text}");
        let slices = of_kind(&events, "command");
        assert_eq!(slices.len(), commands, "{words:?}");
        // The blocks of a request are those of its commands.
        let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
        for slice in &slices {
            let args = &slice["args"];
            *blocks.entry(args["request"].as_u64().unwrap()).or_default() += args["blocks"].as_u64().unwrap();
            assert_eq!((&args["ok"], &args["status"]), (&true.into(), &"0h/00h".into()));
            let name = if words.iter().any(|word| word.contains("write")) { "write" } else { "read" };
            assert_eq!(slice["name"], name);
        }
        for (request, event) in of_kind(&events, "request").iter().enumerate() {
            assert_eq!(event["args"]["blocks"], blocks[&(request as u64)], "{event}");
        }
    }
}

#[test]
fn the_time_goes_where_the_device_is_slow() {
    let place = Place::new();
    let (events, text) = trace(&place, &["emu:?size=1M&latency_us=20000", "--count", "3", "--show", "2"]);
    for slice in of_kind(&events, "command") {
        let args = &slice["args"];
        assert!(number(&args["completed_us"]) - number(&args["rung_us"]) >= 20_000.0, "{args}");
    }
    let line = text.lines().find(|line| line.starts_with("device  ") && line.contains('%')).unwrap();
    let share: f64 = line.split_whitespace().nth(1).unwrap().trim_end_matches('%').parse().unwrap();
    assert!(share > 50.0, "{text}");
    assert!(text.contains("... and 1 more\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn data_are_destroyed_only_when_asked_for() {
    let place = Place::new();
    let before = bytes(1 << 20);
    place.write("a.img", &before);
    for rw in ["write", "randwrite"] {
        let ran = place.ugds(&["trace", "emu:a.img", "--rw", rw]);
        assert_eq!(ran.status, 2);
        assert!(ran.stderr.contains("--erase"), "{}", ran.stderr);
    }
    place.ok(&["trace", "emu:a.img", "--rw", "randread"]);
    assert!(place.read("a.img") == before);
    place.ok(&["trace", "emu:a.img#64K+128K", "--rw", "write", "--erase"]);
    let after = place.read("a.img");
    assert!(after[..64 << 10] == before[..64 << 10] && after[192 << 10..] == before[192 << 10..]);
    assert!(after[64 << 10..192 << 10] != before[64 << 10..192 << 10]);
}

#[test]
fn mistakes_are_told_and_leave_no_file() {
    let place = Place::new();
    for (words, part) in [
        (&["emu:?size=1M", "--bs", "1000"][..], "a multiple of the block"),
        (&["emu:?size=1M", "--bs", "128M"], "64 MiB"),
        (&["emu:?size=1M", "--bs", "512k", "--depth", "4"], "too small"),
        (&["emu:?size=1M", "--count", "0"], "--count"),
        (&["emu:?size=1M#1000"], "offset 1000 bytes"),
    ] {
        let ran = place.ugds(&[&["trace"], words, &["-o", "trace.json"]].concat());
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{words:?}: {}", ran.stderr);
        assert_eq!(place.names(), [""; 0]);
    }
    let ran = place.ugds(&["trace", "emu:?size=1M", "-o", "no/trace.json"]);
    assert!(ran.stderr.contains("there is no folder no"), "{}", ran.stderr);
}
