//! `ugds bench`: numbers that hang together, data that are checked, and consent before data are destroyed.

use crate::place::{Place, bytes};
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

/// What `--json` prints.
fn report(place: &Place, words: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[&["bench"], words, &["--json"]].concat())).unwrap()
}

/// The one run of a short bench.
fn bench(place: &Place, words: &[&str]) -> Value {
    let mut report = report(place, &[words, &["--time", "0.1"]].concat());
    assert_eq!(report["runs"].as_array().unwrap().len(), 1);
    report["runs"][0].take()
}

/// The lines with more than two points: neither axes nor samples of the legend.
fn lines(place: &Place, name: &str) -> usize {
    let text = String::from_utf8(place.read(name)).unwrap();
    let picture = roxmltree::Document::parse(&text).unwrap();
    assert_eq!(picture.root_element().tag_name().name(), "svg");
    let lines = picture.descendants().filter(|node| node.has_tag_name("polyline"));
    lines.filter(|line| line.attribute("points").unwrap().split_whitespace().count() > 2).count()
}

/// All text of a picture.
fn texts(place: &Place, name: &str) -> Vec<String> {
    let text = String::from_utf8(place.read(name)).unwrap();
    let picture = roxmltree::Document::parse(&text).unwrap();
    let texts = picture.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap().trim().to_owned()).collect()
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
        for (mode, width) in [("sync", "--depth"), ("batch", "--batch")] {
            let words =
                ["emu:?size=8M", "--rw", rw, "--bs", "8k", "--threads", "2", "--mode", mode, width, "3"];
            let report = bench(&place, &words);
            for (name, expected) in [("read", reads), ("write", writes)] {
                assert_eq!(report[name].is_object(), expected, "{rw} {name}");
                if expected {
                    let requests = report[name]["requests"].as_u64().unwrap();
                    assert!(requests > 0);
                    assert_eq!(report[name]["bytes"].as_u64().unwrap(), requests * 8192);
                    let percentiles = ["p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us"]
                        .map(|percentile| report[name][percentile].as_f64().unwrap());
                    assert!(percentiles[0] > 0.0 && percentiles.is_sorted(), "{percentiles:?}");
                }
            }
            assert_eq!((&report["rw"], &report["mode"]), (&rw.into(), &mode.into()));
            assert_eq!((&report["threads"], &report[&width[2..]]), (&2.into(), &3.into()));
            assert_eq!(report["verified_blocks"], Value::Null);
        }
    }
}

#[test]
fn verified_data_are_right_in_every_pattern() {
    let place = Place::new();
    for rw in ["read", "write", "randread", "randwrite", "randrw"] {
        let uri = "emu:?size=4M&lba=512&ooo=7#64K+1M";
        for width in [&["--depth", "3"][..], &["--mode", "batch", "--batch", "5"]] {
            let words = [&[uri, "--rw", rw, "--bs", "4k", "--threads", "2", "--verify"], width].concat();
            let report = bench(&place, &words);
            assert!(report["verified_blocks"].as_u64().unwrap() >= 2048, "{rw}: {report}");
        }
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
    for mode in ["sync", "batch"] {
        let place = Place::new();
        place.write("a.img", &vec![0; 1 << 20]);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ugds"));
        let words = ["bench", "emu:a.img", "--rw", "randread", "--verify", "--erase", "--time", "60"];
        let command = command.args(words).args(["--mode", mode]).current_dir(place.path(""));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while !place.read("a.img").chunks(4096).all(|block| block[0] != 0) {
            assert!(child.try_wait().unwrap().is_none(), "{mode}: it ended before all was filled");
            std::thread::sleep(Duration::from_millis(5));
        }
        let image = std::fs::OpenOptions::new().write(true).open(place.path("a.img")).unwrap();
        image.write_all_at(&[0xee; 8], 5 * 4096).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{mode}: {stderr}");
        let start = "ugds: error: block 5 differs from byte 0 on: expected version 1";
        assert!(stderr.starts_with(start), "{mode}: {stderr}");
    }
}

/// One request after the other takes twice the time of the run at most, if each took as long as the median.
#[test]
fn a_batch_has_many_requests_out_and_gives_them_together() {
    let place = Place::new();
    let report = bench(&place, &["emu:?size=8M&latency_us=100", "--mode", "batch", "--batch", "64"]);
    let (commands, doorbells) = (report["commands"].as_u64().unwrap(), report["doorbells"].as_u64().unwrap());
    assert_eq!(commands, report["read"]["requests"].as_u64().unwrap());
    assert!(commands >= 64 && doorbells < commands, "{report}");
    let number = |name: &str| report["read"][name].as_f64().unwrap();
    assert!(number("p50_us") >= 100.0, "{report}");
    assert!(number("p50_us") * number("iops") > 2.0 * 1e6, "{report}");
}

#[test]
fn the_table_fits_a_terminal() {
    let place = Place::new();
    let out = place.ok(&["bench", "emu:?size=1M", "--rw", "randrw", "--time", "0.05"]);
    assert!(out.contains("1 threads x 1 outstanding"), "{out}");
    assert!(out.lines().filter(|line| line.contains("GiB/s")).all(|line| line.len() <= 80), "{out}");
}

#[test]
fn each_size_has_a_run_a_row_and_a_line() {
    let place = Place::new();
    let words = ["bench", "emu:?size=4M", "--rw", "randrw", "--bs", "4k,16k,64K", "--time", "0.05"];
    let out = place.ok(&[&words[..], &["--plot", "lat.SVG"]].concat());
    for name in ["read 4K", "write 4K", "read 16K", "write 16K", "read 64K", "write 64K"] {
        assert_eq!(out.lines().filter(|line| line.starts_with(&format!("{name} "))).count(), 1, "{out}");
    }
    assert!(out.lines().skip(4).all(|line| line.len() <= 80), "{out}");
    assert_eq!(lines(&place, "lat.SVG"), 6);
    let texts = texts(&place, "lat.SVG");
    for label in ["write 16 KiB", "99.99%", "latency", "randrw, 1 threads x 1 outstanding, sync"] {
        assert!(texts.iter().any(|text| text == label), "no {label} in {texts:?}");
    }
    assert_eq!(place.names(), ["lat.SVG"]);

    let report = report(&place, &words[1..]);
    let sizes: Vec<u64> =
        report["runs"].as_array().unwrap().iter().map(|run| run["bs_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [4096, 16384, 65536]);
}

#[test]
fn a_wrong_size_is_found_before_the_first_run() {
    let place = Place::new();
    let ran = place.ugds(&["bench", "emu:?size=1M", "--bs", "4k,1000", "--time", "60"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("--bs 1000"), "{}", ran.stderr);
}

#[test]
fn grids_have_tables_json_and_a_picture() {
    let place = Place::new();
    let words = [
        &["bench", "paper", "emu:?size=4M", "--bs", "4k,16k", "--time", "0.02"][..],
        &["--threads", "1,2,3", "--batch", "1,5,25"],
    ]
    .concat();
    let files = ["--json", "grid.json", "--plot", "grid.svg"];
    let out = place.ok(&[&words[..], &files].concat());
    assert!(out.contains("plan     24 runs of 20 ms, about 480 ms\n"), "{out}");
    for (grid, first, rows_expected) in [
        ("randread, sync", "threads ", ["1", "2", "3"]),
        ("randwrite, sync", "threads ", ["1", "2", "3"]),
        ("randread, batch", "batch ", ["1", "5", "25"]),
        ("randwrite, batch", "batch ", ["1", "5", "25"]),
    ] {
        for metric in ["GiB/s", "IOPS", "p99 of the latency"] {
            let table = out.split_once(&format!("\n{grid}: {metric}\n")).unwrap().1;
            let rows: Vec<&str> = table.lines().take(4).collect();
            assert!(rows[0].starts_with(first) && rows[0].ends_with("16K"), "{out}");
            for (row, name) in rows[1..].iter().zip(rows_expected) {
                let cells: Vec<&str> = row.split_whitespace().collect();
                assert!(cells.len() == 3 && cells[0] == name && !cells.contains(&"-"), "{out}");
            }
        }
    }
    assert_eq!(lines(&place, "grid.svg"), 8);
    assert_eq!(place.names(), ["grid.json", "grid.svg"]);

    let written: Value = serde_json::from_slice(&place.read("grid.json")).unwrap();
    let printed: Value = serde_json::from_str(&place.ok(&[&words[..], &["--json"]].concat())).unwrap();
    for report in [written, printed] {
        let runs = report["runs"].as_array().unwrap();
        let key = |run: &Value| {
            ["rw", "mode", "threads", "batch", "bs_bytes"].map(|name| run[name].to_string()).join(" ")
        };
        let keys: Vec<_> = runs.iter().map(key).collect();
        assert_eq!(keys.len(), 24);
        assert_eq!(keys[1], "\"randread\" \"sync\" 1 null 16384");
        assert_eq!(keys[11], "\"randwrite\" \"sync\" 3 null 16384");
        assert_eq!(keys[23], "\"randwrite\" \"batch\" 1 25 16384");
        assert!(runs.iter().all(|run| run["read"].is_object() != run["write"].is_object()));
    }
}

#[test]
fn grids_that_only_read_need_no_consent() {
    let place = Place::new();
    let before = bytes(1 << 20);
    place.write("a.img", &before);
    let words =
        ["bench", "paper", "emu:a.img", "--mode", "sync", "--threads", "1", "--bs", "4k", "--time", "0.02"];
    let ran = place.ugds(&words);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("randwrite overwrites") && ran.stderr.contains("--erase"), "{}", ran.stderr);
    place.ok(&[&words[..], &["--rw", "randread,read"]].concat());
    assert!(place.read("a.img") == before);
    place.ok(&[&words[..], &["--erase"]].concat());
    assert!(place.read("a.img") != before);
}

/// A run that would take minutes is refused at once, and nothing is left of the file.
#[test]
fn files_that_cannot_be_written_are_found_before_the_run() {
    let place = Place::new();
    place.write("folder.svg", b"a file");
    std::fs::create_dir(place.path("real.svg")).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.path("full.svg")).unwrap();
    let names = place.names();
    for (option, name, status, parts) in [
        ("--plot", "lat.png", 2, &["lat.png", "FILE.svg is accepted"][..]),
        ("--plot", "svg", 2, &["svg is no name of a picture"]),
        ("--plot", "no/lat.svg", 1, &["cannot make no/lat.svg", "no folder no"]),
        ("--plot", "folder.svg/lat.svg", 1, &["cannot make folder.svg/lat.svg"]),
        ("--plot", "/proc/lat.svg", 1, &["cannot make /proc/lat.svg", "because entity not found\n"]),
        ("--plot", "real.svg", 2, &["real.svg is no regular file", "a regular or a new file is accepted"]),
        ("--plot", "full.svg", 2, &["full.svg is no regular file"]),
        ("--json", "no/grid.json", 1, &["cannot make no/grid.json", "no folder no"]),
        ("--json", "emu:?size=1G", 2, &["emu:?size=1G", "FILE.json is accepted", "--json comes last"]),
    ] {
        for command in [&["bench", "paper"][..], &["bench"]] {
            if option == "--json" && command.len() == 1 {
                continue;
            }
            let ran = place.ugds(&[command, &["emu:?size=64M", "--time", "600", option, name]].concat());
            assert_eq!(ran.status, status, "{name}: {}", ran.stderr);
            assert!(ran.stderr.starts_with("ugds: error: "), "{name}: {}", ran.stderr);
            for part in parts {
                assert!(ran.stderr.contains(part), "{name}: no {part:?} in {}", ran.stderr);
            }
        }
    }
    assert_eq!(place.names(), names);
}

/// A limit on the size of files stands for a full disk.
#[test]
fn a_picture_that_does_not_fit_costs_no_results() {
    let place = Place::new();
    place.write("lat.svg", b"the last one");
    let script = "ulimit -f 1; exec \"$0\" bench 'emu:?size=1M' --time 0.05 --plot lat.svg";
    let mut command = std::process::Command::new("sh");
    let command = command.args(["-c", script, env!("CARGO_BIN_EXE_ugds")]).current_dir(place.path(""));
    let output = command.output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("ugds: error: cannot write ") && stderr.contains("lat.svg"), "{stderr}");
    assert!(stdout.contains("p99.99"), "{stdout}");
    assert_eq!(place.read("lat.svg"), b"the last one");
    assert_eq!(place.names(), ["lat.svg"]);
}

/// What is wrong, and what the message says.
const WRONG: &[(&[&str], &[&str])] = &[
    (&["emu:", "--rw", "readwrite"], &["readwrite", "`randrw` reads and writes"]),
    (&["emu:", "--rw", "rw"], &["rw", "`randrw` reads and writes"]),
    (&["emu:", "--mode", "async"], &["async", "sync, batch"]),
    (&["emu:", "--batch", "8"], &["--batch 8 is for --mode batch", "--mode sync has --depth"]),
    (&["emu:", "--mode", "batch", "--depth", "8"], &["--depth 8 is for --mode sync", "has --batch"]),
    (&["emu:", "--mode", "batch", "--batch", "0"], &["0", "1..=65536"]),
    (
        &["emu:?size=64K", "--mode", "batch", "--batch", "17"],
        &["64 KiB is too small for 17 outstanding requests of 4 KiB"],
    ),
    (&["paper", "emu:", "--mode", "batch", "--threads", "2"], &["--threads is for the mode sync"]),
    (&["paper", "emu:", "--mode", "sync", "--batch", "2"], &["--batch is for the mode batch"]),
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
    (&["emu:", "--bs", "4k,,8k"], &["--bs"]),
    (&["paper"], &["<URI>"]),
    (&["papr", "emu:"], &["`emu:` is a word too many", "ugds bench paper URI"]),
    (&["--bs", "8k", "paper", "emu:"], &["a word too many", "ugds bench paper URI"]),
    (&["emu:", "paper"], &["`paper` is a word too many", "ugds bench paper URI"]),
    (&["paper", "emu:", "--rw", "randread,randrw"], &["`randrw`", "randread and randwrite are accepted"]),
    (&["paper", "emu:", "--bs", "1k"], &["--bs 1K", "4 KiB"]),
    (&["paper", "emu:", "--bs", "4k,4k,4k,4k,4k,4k,4k,4k,4k,4k"], &["10 sizes", "at most 9"]),
    (&["paper", "emu:", "--threads", "1,0"], &["0", "1..=1024"]),
    (&["paper", "emu:", "--time", "0"], &["0", "0.001 to 86400"]),
    (&["paper", "emu:?size=1M"], &["1 MiB is too small for 2 outstanding requests of 1 MiB"]),
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
