//! The sample dump of the example `identify_hexdump` and the example's parser and report.

#[path = "../examples/identify_hexdump/hexdump.rs"]
mod hexdump;
#[path = "../examples/identify_hexdump/report.rs"]
mod report;

use nvme_proto::identify::{Ascii, Controller, Lpa, Oacs, Oncs, PowerState, Sanicap};
use nvme_proto::register::Vs;
use nvme_proto::zerocopy::{FromZeros, IntoBytes};
use std::fmt::Write;

const SAMPLE: &str = include_str!("../examples/data/identify-controller.txt");

/// The sample is this controller, made up, as `hexdump -C` prints it.
fn sample() -> Controller {
    let mut c = Controller::new_zeroed();
    (c.vid, c.ssvid) = (0x1b36.into(), 0x1af4.into());
    c.sn = Ascii::from_text("UGDS00000042");
    c.mn = Ascii::from_text("uGDS Sample Drive 2TB");
    c.fr = Ascii::from_text("1.0.3");
    (c.rab, c.ieee, c.mdts) = (3, [0x54, 0x52, 0x00], 5);
    (c.cntlid, c.cntrltype) = (1.into(), 1);
    c.ver = Vs::of(2, 0, 0).into_bits().into();
    (c.rtd3r_us, c.rtd3e_us) = (2_000_000.into(), 8_000_000.into());
    c.oaes = 0x0300.into();
    c.oacs = (Oacs::FORMAT | Oacs::FIRMWARE | Oacs::SELF_TEST | Oacs::DOORBELL_BUFFER).bits().into();
    (c.acl_z, c.aerl_z, c.frmw, c.elpe_z, c.npss_z) = (3, 7, 0x16, 63, 2);
    c.lpa = (Lpa::SMART_PER_NAMESPACE | Lpa::EFFECTS | Lpa::EXTENDED_DATA).bits();
    (c.wctemp, c.cctemp) = (355.into(), 360.into());
    c.tnvmcap = 2_000_398_934_016.into();
    c.sanicap = (Sanicap::CRYPTO_ERASE | Sanicap::BLOCK_ERASE).bits().into();
    (c.sqes, c.cqes, c.maxcmd, c.nn) = (0x66, 0x44, 1024.into(), 16.into());
    let oncs = Oncs::COMPARE | Oncs::DATASET_MANAGEMENT | Oncs::WRITE_ZEROES | Oncs::TIMESTAMP | Oncs::COPY;
    c.oncs = oncs.bits().into();
    (c.fna, c.vwc, c.awun_z, c.sgls) = (4, 7, 255.into(), (1 | 1 << 16).into());
    c.subnqn = Ascii([0; 256]);
    c.subnqn.0[..35].copy_from_slice(b"nqn.2024-01.org.example:ugds-sample");
    let state = |mp: u16, flags, enter: u32, leave: u32| PowerState {
        mp: mp.into(),
        flags,
        enlat_us: enter.into(),
        exlat_us: leave.into(),
        ..PowerState::default()
    };
    c.psd[0] = state(850, 0, 0, 0);
    c.psd[1] = state(450, 0, 0, 200);
    c.psd[2] = state(300, 3, 2000, 1200);
    c
}

/// What `hexdump -C` prints: rows of 16 bytes, `*` for repetitions, the length at the end.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut last: Option<&[u8]> = None;
    let mut starred = false;
    for (row, chunk) in bytes.chunks(16).enumerate() {
        if last == Some(chunk) {
            out.push_str(if std::mem::replace(&mut starred, true) { "" } else { "*\n" });
            continue;
        }
        (last, starred) = (Some(chunk), false);
        write!(out, "{:08x}", row * 16).unwrap();
        for (i, byte) in chunk.iter().enumerate() {
            write!(out, "{}{byte:02x}", if i % 8 == 0 { "  " } else { " " }).unwrap();
        }
        let printable = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' };
        writeln!(out, "  |{}|", chunk.iter().map(printable).collect::<String>()).unwrap();
    }
    writeln!(out, "{:08x}", bytes.len()).unwrap();
    out
}

/// With `UGDS_BLESS` set, the sample is written anew.
#[test]
fn the_sample_is_the_controller_above() {
    let dump = dump(sample().as_bytes());
    if std::env::var_os("UGDS_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/identify-controller.txt");
        std::fs::write(path, &dump).unwrap();
        return;
    }
    assert_eq!(SAMPLE, dump);
    assert_eq!(report::controller(&hexdump::parse(SAMPLE).unwrap()), Ok(sample()));
}

#[test]
fn the_report_tells_what_matters() {
    let report = report::report(&sample());
    for line in [
        "model                 uGDS Sample Drive 2TB",
        "version               2.0.0",
        "controller            1, I/O controller",
        "capacity              1863 GiB",
        "largest transfer      128 KiB with 4 KiB as the smallest page",
        "admin commands        format, firmware, self test, doorbell buffer",
        "write cache           volatile, broadcast flush: flushes all namespaces",
        "temperature           warns at 82 °C, critical at 87 °C",
        "power state 2         no I/O, at most 0.030 W, enter 2000 µs, leave 1200 µs",
    ] {
        assert!(report.lines().any(|printed| printed == line), "{line}\nis not in\n{report}");
    }
}

#[test]
fn all_three_kinds_of_dump_are_read() {
    let bytes: Vec<u8> = (0x4a..0x6a).collect();
    let xxd = "00000000: 4a4b 4c4d 4e4f 5051 5253 5455 5657 5859  JKLMNOPQRSTUVWXY\n\
               00000010: 5a5b 5c5d 5e5f 6061 6263 6465 6667 6869  Z[\\]^_`abcdefghi\n";
    let plain = "4a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768\n69\n\n";
    for text in [xxd, plain, &dump(&bytes)] {
        assert_eq!(hexdump::parse(text), Ok(bytes.clone()), "{text}");
    }
    let zeroes = [0; 4096];
    assert_eq!(hexdump::parse(&dump(&zeroes)), Ok(zeroes.to_vec()));
}

/// What `od -A x -t x1`, `od -A x`, `od -A x -t x4` and `hexdump` print: their offsets are no bytes.
#[test]
fn other_kinds_of_dump_are_refused() {
    for text in [
        "000000 4a 4b 4c 4d 4e 4f 50 51 4a 4b 4c 4d 4e 4f 50 51\n000010 51\n000011\n",
        "000000 045512 046514 047516 050520 045512 046514 047516 050520\n000010 000121\n000011\n",
        "000000 4d4c4b4a 51504f4e 4d4c4b4a 51504f4e\n000010 00000051\n000011\n",
        "0000000 4b4a 4d4c 4f4e 5150 4b4a 4d4c 4f4e 5150\n0000010 0051\n0000011\n",
        "0000000 0000 0000 0000 0000 0000 0000 0000 0000\n*\n0001000\n",
    ] {
        let error = hexdump::parse(text).unwrap_err();
        assert!(error.what.contains("another kind"), "{text}: {error}");
    }
    // Bytes without offsets, zeros among them, are what they were.
    assert_eq!(hexdump::parse("00 00 00 00 01\n02\n"), Ok(vec![0, 0, 0, 0, 1, 2]));
    assert_eq!(hexdump::parse("00000000 00000001\n"), Ok(vec![0, 0, 0, 0, 0, 0, 0, 1]));
}

#[test]
fn bad_input_is_named_by_line_and_column() {
    let cases = [
        ("00000000: 4a4g\n", 1, 14, "'g' is no hexadecimal digit"),
        ("4a4b\n4a 4\n", 2, 4, "half a byte"),
        ("00000000  4a\nxyz\n", 2, 1, "the line does not begin with an offset"),
        ("00000000  4a\n00000010  4b\n", 2, 1, "offset 10h, but 1h bytes stand before it"),
        ("4a\nµ\n", 2, 1, "'µ' is no hexadecimal digit"),
    ];
    for (text, line, column, what) in cases {
        let error = hexdump::parse(text).unwrap_err();
        assert_eq!((error.line, error.column, error.what.as_str()), (line, column, what));
        assert!(error.to_string().starts_with(&format!("line {line}, column {column}: ")));
    }
    assert!(report::controller(&[0; 512]).unwrap_err().starts_with("512 bytes"));
}
