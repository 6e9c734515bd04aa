//! `ugds copy`: all bytes or an error, and no byte besides them.

use std::os::unix::fs::PermissionsExt;

use crate::place::{Place, bytes};

#[test]
fn a_file_goes_to_a_namespace_and_back() {
    for len in [1, 512, 4095, 4096, 4097, (4 << 20) + 4096, (9 << 20) + 77] {
        let place = Place::new();
        let data = bytes(len);
        place.write("in", &data);
        let out = place.ok(&["copy", "in", "emu:disk.img?size=16M#1M", "--verify"]);
        assert!(out.contains("verified, sha256"), "{out}");
        place.ok(&["copy", &format!("emu:disk.img#1M+{len}"), "out", "--verify"]);
        assert!(place.read("out") == data, "{len}");
        assert_eq!(place.names(), ["disk.img", "in", "out"]);
    }
}

#[test]
fn neighbours_of_the_last_block_survive() {
    let place = Place::new();
    let before = bytes(64 << 10);
    place.write("disk.img", &before);
    place.write("in", &[0xee; 5000]);
    place.ok(&["copy", "in", "emu:disk.img#8K", "--verify", "--erase"]);
    let mut expected = before;
    expected[8192..13192].fill(0xee);
    assert!(place.read("disk.img") == expected);
}

#[test]
fn namespaces_of_one_device_and_of_two() {
    let place = Place::new();
    let data = bytes(1 << 20);
    place.write("a.img", &[data.clone(), vec![0; 1 << 20]].concat());
    let (from, to) = ("emu:a.img?namespaces=2&ns=1#0+12345", "emu:a.img?namespaces=2&ns=2#64K");
    place.ok(&["copy", from, to, "--verify", "--erase"]);
    let image = place.read("a.img");
    assert!(image[(1 << 20) + 65536..][..12345] == data[..12345]);
    assert!(image[(1 << 20) + 65536 + 12345..].iter().all(|byte| *byte == 0));

    place.ok(&["copy", "emu:a.img?lba=512#512+1M", "emu:b.img?size=4M#4K"]);
    assert!(place.read("b.img")[4096..4096 + (1 << 20) - 512] == data[512..]);
}

#[test]
fn within_one_namespace_only_apart() {
    let place = Place::new();
    place.write("a.img", &bytes(64 << 10));
    place.ok(&["copy", "emu:a.img#0+8K", "emu:a.img#8K", "--erase"]);
    let ran = place.ugds(&["copy", "emu:a.img#0+8K", "emu:a.img#4K", "--erase"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("overlap"), "{}", ran.stderr);
}

/// An image is what its file is, however it is spelled.
#[test]
fn all_names_of_an_image_are_one_device() {
    let place = Place::new();
    place.write("a.img", &bytes(64 << 10));
    std::os::unix::fs::symlink("a.img", place.path("symbolic")).unwrap();
    std::fs::hard_link(place.path("a.img"), place.path("hard")).unwrap();
    for other in ["emu:./a.img", "emu:symbolic", "emu:hard", "emu:%61.img", "emu:a.img?size=64K"] {
        let ran = place.ugds(&["copy", "emu:a.img#0+8K", &format!("{other}#4K"), "--erase"]);
        assert_eq!(ran.status, 2, "{other}: {}", ran.stderr);
        assert!(ran.stderr.contains("overlap"), "{other}: {}", ran.stderr);
        assert!(place.read("a.img") == bytes(64 << 10), "{other}");
        let apart = format!("{other}#8K");
        place.ok(&["copy", &format!("{other}#0+8K"), "emu:a.img#8K", "--erase", "--verify"]);
        place.ok(&["copy", "emu:a.img#0+8K", &apart, "--erase", "--verify"]);
        place.write("a.img", &bytes(64 << 10));
    }
    for other in ["emu:a.img?lba=512", "emu:symbolic?sgl=1", "emu:hard?namespaces=2"] {
        let ran = place.ugds(&["copy", "emu:a.img#0+8K", &format!("{other}#16K"), "--erase"]);
        assert_eq!(ran.status, 2, "{other}: {}", ran.stderr);
        assert!(ran.stderr.contains("the same image with different options"), "{}", ran.stderr);
    }
    let ran = place.ugds(&["copy", "hard", "emu:a.img", "--erase"]);
    assert!(ran.status == 2 && ran.stderr.contains("is the image"), "{}", ran.stderr);
    assert!(place.read("a.img") == bytes(64 << 10));
}

#[test]
fn an_image_is_used_by_one_process_at_a_time() {
    let place = Place::new();
    place.write("a.img", &[0; 1 << 20]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ugds"));
    let words = ["bench", "emu:a.img", "--verify", "--erase", "--time", "60"];
    let command = command.args(words).current_dir(place.path(""));
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    // Who has begun to fill it has it.
    while place.read("a.img").iter().all(|byte| *byte == 0) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ran = place.ugds(&["identify", "emu:./a.img"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let stderr = ran.stderr;
    assert!(stderr.contains("a.img is in use by another device or process"), "{stderr}");
    place.ok(&["identify", "emu:a.img"]);
}

#[test]
fn data_are_overwritten_only_when_asked_for() {
    let place = Place::new();
    place.write("in", &[0xee; 8192]);
    place.write("a.img", &bytes(1 << 20));
    place.write("empty", b"");
    for words in [["copy", "in", "emu:a.img"], ["copy", "emu:a.img#0+4K", "emu:a.img#8K"]] {
        let ran = place.ugds(&words);
        assert_eq!(ran.status, 2, "{words:?}");
        assert!(ran.stderr.contains("holds, which needs --erase"), "{}", ran.stderr);
    }
    assert_eq!(place.ugds(&["copy", "in", "vfio:ffff:ff:1f.7"]).status, 2);
    assert!(place.read("a.img") == bytes(1 << 20));
    for to in ["emu:new.img?size=1M", "emu:empty?size=1M"] {
        place.ok(&["copy", "in", to]);
    }
    place.ok(&["copy", "in", "emu:a.img", "--erase"]);
    let ran = place.ugds(&["copy", "in", "emu:?size=1M"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("ugds: warning: emu:?size=1M is in memory"), "{}", ran.stderr);
}

#[test]
fn a_missing_image_is_made_only_with_a_size() {
    let place = Place::new();
    place.write("in", &[1; 100]);
    for words in [
        &["copy", "emu:typo.img#0+8M", "out"][..],
        &["copy", "in", "emu:typo.img"],
        &["identify", "emu:typo.img"],
        &["bench", "emu:typo.img", "--rw", "randread"],
        &["bench", "emu:typo.img", "--rw", "randwrite"],
    ] {
        let ran = place.ugds(words);
        assert_eq!(ran.status, 1, "{words:?}");
        let example =
            "no such image: typo.img; to make a new one of zeros, say its size, as in 'emu:typo.img?size=1G'";
        assert!(ran.stderr.contains(example), "{}", ran.stderr);
        assert_eq!(place.names(), ["in"], "{words:?}");
    }
    place.ok(&["copy", "in", "emu:a.img?size=1M"]);
    let ran = place.ugds(&["identify", "emu:a.img?size=2M"]);
    assert!(ran.stderr.contains("a.img has 1M, but namespaces=1 times size=2M is 2M"), "{}", ran.stderr);
}

#[test]
fn a_file_may_have_any_name() {
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new();
    let name = std::ffi::OsString::from_vec(b"\xff \xfe".to_vec());
    std::fs::write(place.path("").join(&name), bytes(5000)).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ugds"));
    let command = command.arg("copy").arg(&name).arg("emu:a.img?size=1M").current_dir(place.path(""));
    assert!(command.output().unwrap().status.success());
    assert!(place.read("a.img")[..5000] == bytes(5000));
}

/// Opening a pipe for reading would wait for somebody to write.
#[test]
fn a_pipe_is_no_source() {
    let place = Place::new();
    assert!(std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    for words in [
        &["copy", "pipe", "emu:a.img?size=1M"][..],
        &["copy", "emu:?size=1M", "pipe"],
        &["demo", "--file", "pipe"],
        &["identify", "emu:pipe"],
    ] {
        let ran = place.ugds(words);
        assert!(ran.status > 0 && ran.stderr.contains("pipe is no regular file"), "{}", ran.stderr);
    }
    assert_eq!(place.names(), ["pipe"]);
}

#[test]
fn a_link_to_nothing_is_followed() {
    let place = Place::new();
    place.write("a.img", &bytes(8192));
    std::fs::create_dir(place.path("folder")).unwrap();
    std::os::unix::fs::symlink("folder/second", place.path("first")).unwrap();
    std::os::unix::fs::symlink("out", place.path("folder/second")).unwrap();
    place.ok(&["copy", "emu:a.img", "first"]);
    assert!(place.path("first").is_symlink() && place.read("folder/out") == bytes(8192));
    std::os::unix::fs::symlink("loop", place.path("loop")).unwrap();
    let ran = place.ugds(&["copy", "emu:a.img", "loop"]);
    assert!(ran.status == 1 && ran.stderr.contains("cannot make loop"), "{}", ran.stderr);
}

/// Also when whoever started the program ignores one of the signals.
#[test]
fn a_signal_leaves_no_temporary_file() {
    for (signal, script) in [
        ("INT", "exec \"$0\" \"$@\""),
        ("TERM", "exec \"$0\" \"$@\""),
        ("HUP", "exec \"$0\" \"$@\""),
        ("TERM", "trap '' INT HUP; exec \"$0\" \"$@\""),
    ] {
        let place = Place::new();
        let uri = "emu:?size=4G&bandwidth_mib=1";
        let mut command = std::process::Command::new("bash");
        let words = ["-c", script, env!("CARGO_BIN_EXE_ugds"), "copy", uri, "out"];
        let mut child = command.args(words).current_dir(place.path("")).spawn().unwrap();
        while place.names().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let kill = |signal: &str| {
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
        };
        if script.contains("trap") {
            kill("HUP");
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(place.names().len(), 1, "an ignored signal ended the copy");
        }
        kill(signal);
        assert_eq!(child.wait().unwrap().code(), None, "{signal}");
        assert_eq!(place.names(), [""; 0], "{signal}");
    }
}

#[test]
fn a_whole_namespace_is_the_default_source() {
    let place = Place::new();
    let data = bytes(3 * 4096);
    place.write("a.img", &data);
    place.ok(&["copy", "emu:a.img", "out"]);
    assert!(place.read("out") == data);
}

#[test]
fn a_file_is_replaced_whole_and_keeps_its_mode() {
    let place = Place::new();
    place.write("a.img", &bytes(8192));
    place.write("out", b"before");
    std::fs::set_permissions(place.path("out"), PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("out", place.path("link")).unwrap();
    place.ok(&["copy", "emu:a.img", "link"]);
    assert!(place.read("out") == bytes(8192));
    let metadata = std::fs::symlink_metadata(place.path("out")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert!(place.path("link").is_symlink());
}

#[test]
fn a_copy_that_fails_leaves_the_file_as_it_was() {
    let place = Place::new();
    place.write("a.img", &bytes(8192));
    place.write("out", b"before");
    let ran = place.ugds(&["copy", "emu:a.img#0+1M", "out"]);
    assert_eq!(ran.status, 2);
    assert_eq!(place.read("out"), b"before");
    assert_eq!(place.names(), ["a.img", "out"]);
}

/// The limit on file sizes stands for a full disk: the image can't grow.
#[test]
fn a_device_that_fails_is_quoted() {
    let place = Place::new();
    place.write("in", &bytes(4 << 20));
    place.write("disk.img", b"");
    std::fs::File::options().write(true).open(place.path("disk.img")).unwrap().set_len(16 << 20).unwrap();
    let script = "ulimit -f 8192; exec \"$0\" copy in 'emu:disk.img#8M' --erase";
    let mut command = std::process::Command::new("bash");
    let command = command.args(["-c", script, env!("CARGO_BIN_EXE_ugds")]).current_dir(place.path(""));
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("write 4194304 bytes at block 2048 of namespace 1"), "{stderr}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
}

/// What is wrong, the exit status, and what the message says.
const WRONG: &[(&[&str], i32, &[&str])] = &[
    (&["in", "out"], 2, &["in and out are both files", "emu:"]),
    (&["missing", "emu:?size=1M"], 1, &["cannot open missing", "No such file"]),
    (&["empty", "emu:?size=1M"], 2, &["empty is empty", "accepted"]),
    (&[".", "emu:?size=1M"], 2, &[". is no regular file", "accepted"]),
    (&["emu:?size=1M", "."], 2, &[". is no regular file", "accepted"]),
    (&["emu:?size=1M", "no/out"], 1, &["cannot make no/out"]),
    (&["in", "emu:?size=1M#100"], 2, &["offset 100 bytes", "multiple of 4 KiB"]),
    (&["in", "emu:?size=1M#1M"], 2, &["offset 1 MiB", "less than 1 MiB"]),
    (&["in", "emu:?size=4K"], 2, &["10000 bytes at offset 0", "4 KiB are accepted"]),
    (&["in", "emu:?size=1M#0+4K"], 2, &["source has 10000 bytes", "destination 4 KiB"]),
    (&["emu:?size=1M#0+2M", "out"], 2, &["2 MiB at offset 0", "at most 1 MiB"]),
    (&["emu:?size=1M#x", "out"], 2, &["`#x`", "OFFSET+LENGTH"]),
    (&["emu:?size=1M&lba=1000", "out"], 2, &["lba=1000", "512 to 65536"]),
    (&["disk.img", "emu:disk.img"], 2, &["disk.img is the image", "another file"]),
    (&["emu:./disk.img", "disk.img"], 2, &["disk.img is the image", "another file"]),
    (&["", "emu:?size=1M"], 2, &["<SRC>", "the name is empty"]),
    (&["in", ""], 2, &["<DST>", "the name is empty"]),
    (&["emu:?size=1M", "-"], 2, &["`-` is not supported", "./-"]),
    (&["emu:?size=1M", "/dev/stdout"], 2, &["`/dev/stdout` is not supported; name a file"]),
    (&["emu:?size=1M", "in/out"], 1, &["cannot make in/out", "Not a directory"]),
    (&["in", "emu:?size=4GB"], 2, &["write 4G or 4GiB"]),
    (&["in", "vfio:ffff:ff:1f.7", "--erase"], 1, &["cannot open vfio:ffff:ff:1f.7"]),
    (&["in", "ugds:/dev/no/node", "--erase"], 1, &["cannot open ugds:/dev/no/node"]),
    (&["in"], 2, &["<DST>"]),
    (&["in", "emu:", "--verfy"], 2, &["--verfy", "--verify"]),
];

#[test]
fn mistakes_are_named_with_what_is_accepted() {
    let place = Place::new();
    place.write("in", &bytes(10_000));
    place.write("empty", b"");
    place.write("disk.img", &bytes(16 << 10));
    for (words, status, parts) in WRONG {
        let ran = place.ugds(&[&["copy"], *words].concat());
        assert_eq!(ran.status, *status, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("ugds: error: "), "{words:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{words:?}");
        for part in *parts {
            assert!(ran.stderr.contains(part), "{words:?}: no {part:?} in {}", ran.stderr);
        }
    }
    assert_eq!(place.names(), ["disk.img", "empty", "in"]);
}
