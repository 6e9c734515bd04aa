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
    place.ok(&["copy", "in", "emu:disk.img#8K", "--verify"]);
    let mut expected = before;
    expected[8192..13192].fill(0xee);
    assert!(place.read("disk.img") == expected);
}

#[test]
fn namespaces_of_one_device_and_of_two() {
    let place = Place::new();
    let data = bytes(1 << 20);
    place.write("a.img", &[data.clone(), vec![0; 1 << 20]].concat());
    place.ok(&["copy", "emu:a.img?namespaces=2&ns=1#0+12345", "emu:a.img?namespaces=2&ns=2#64K", "--verify"]);
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
    place.ok(&["copy", "emu:a.img#0+8K", "emu:a.img#8K"]);
    let ran = place.ugds(&["copy", "emu:a.img#0+8K", "emu:a.img#4K"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("overlap"), "{}", ran.stderr);
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
    let script = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" copy in 'emu:disk.img#8M'";
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
    (&["in", "emu:?size=1M#100"], 2, &["offset 100", "multiple of 4096"]),
    (&["in", "emu:?size=1M#1M"], 2, &["offset 1048576", "less than 1048576"]),
    (&["in", "emu:?size=4K"], 2, &["10000 bytes at offset 0", "4096 bytes are accepted"]),
    (&["in", "emu:?size=1M#0+4K"], 2, &["source has 10000 bytes", "destination 4096"]),
    (&["emu:?size=1M#0+2M", "out"], 2, &["2097152 bytes at offset 0", "at most 1048576"]),
    (&["emu:?size=1M#x", "out"], 2, &["`#x`", "OFFSET+LENGTH"]),
    (&["emu:?size=1M&lba=1000", "out"], 2, &["lba=1000", "512 to 65536"]),
    (&["disk.img", "emu:disk.img"], 2, &["disk.img is the image", "another file"]),
    (&["emu:./disk.img", "disk.img"], 2, &["disk.img is the image", "another file"]),
    (&["in", "vfio:ffff:ff:1f.7"], 1, &["cannot open vfio:ffff:ff:1f.7"]),
    (&["in", "ugds:/dev/no/node"], 1, &["cannot open ugds:/dev/no/node"]),
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
