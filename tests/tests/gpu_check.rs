//! The program that tries GPU memory on a machine with a GPU: here with a stand-in for the driver, and without one.

use std::process::{Command, Output};
use ugds_tests::stubs::Stub;

fn check(folder: &Stub, words: &[&str], settings: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ugds-gpu-check"))
        .args(words)
        .env("LD_LIBRARY_PATH", folder.folder())
        .env("UGDS_STUB", settings)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_passes_with_the_stand_in_and_tells_what_it_found() {
    let output = check(&Stub::cuda(&[]), &["--quick"], "");
    let report = text(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(report.ends_with(" checks, 0 failed\n"), "{report}");
    for found in ["0000:3b:00.0", "direct: GPU memory through a DMA-buf", "staged: managed memory", "ratio: "]
    {
        assert!(report.contains(found), "no `{found}` in {report}");
    }
}

#[test]
fn its_report_can_be_read_by_programs() {
    let output = check(&Stub::cuda(&[]), &["--json", "--quick"], "");
    assert!(output.status.success(), "{}", text(&output.stdout));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["failed"], 0);
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() > 30, "{} checks", checks.len());
    assert!(checks.iter().all(|check| check["error"].is_null() && check["check"].is_string()));
}

#[test]
fn a_check_that_fails_is_named_and_the_program_fails() {
    // The GPU exports nothing, so every check of a DMA-buf fails, and the copies do not.
    let output = check(&Stub::cuda(&[]), &["--json", "--quick"], "dmabuf=0");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed: Vec<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| !check["error"].is_null())
        .map(|check| check["check"].as_str().unwrap())
        .collect();
    assert!(failed.contains(&"DMA-buf of 4096 bytes"), "{failed:?}");
    assert!(!failed.iter().any(|name| name.starts_with("copies")), "{failed:?}");
    assert_eq!(report["failed"], failed.len());
}

#[test]
fn without_a_driver_or_a_gpu_it_says_so_and_neither_passes_nor_fails() {
    let nothing = check(&Stub::empty(), &["--json"], "");
    assert_eq!(nothing.status.code(), Some(3), "{}", text(&nothing.stderr));
    let report: serde_json::Value = serde_json::from_slice(&nothing.stdout).unwrap();
    assert!(report["gpu"].is_null());
    assert!(text(&nothing.stderr).contains("libcuda.so.1 can't be loaded"), "{}", text(&nothing.stderr));

    let no_gpu = check(&Stub::cuda(&[]), &[], "cuInit=100");
    assert_eq!(no_gpu.status.code(), Some(3));
    assert!(text(&no_gpu.stderr).contains("CUDA_ERROR_NO_DEVICE (100)"), "{}", text(&no_gpu.stderr));
    assert!(no_gpu.stdout.is_empty());
}

#[test]
fn a_wrong_argument_is_told_apart() {
    let output = check(&Stub::empty(), &["--fast"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`--fast`; accepted are"), "{}", text(&output.stderr));
}
