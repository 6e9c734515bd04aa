//! A file to a namespace and back by `ugds copy`, on controllers of every make.
//!
//! `UGDS_MATRIX_FILE` names a file of one's own to copy, such as a model's weights.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

fn ugds(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ugds")).args(words).output().unwrap()
}

fn copy(from: &str, to: &str) {
    let output = ugds(&["copy", from, to]);
    assert!(output.status.success(), "{from} to {to}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The file that is copied: the caller's, or one that is no whole number of blocks and never repeats.
fn source(folder: &Path) -> PathBuf {
    if let Some(path) = std::env::var_os("UGDS_MATRIX_FILE") {
        return path.into();
    }
    let len = if cfg!(debug_assertions) { (1 << 20) + 12_345 } else { (20 << 20) + 12_345 };
    let mut state = 1u64;
    let bytes: Vec<u8> = std::iter::from_fn(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 56) as u8)
    })
    .take(len)
    .collect();
    let path = folder.join("source");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Every combination of the options that change how data moves.
fn makes() -> Vec<String> {
    let options: [(&str, &[u32]); 6] = [
        ("lba", &[512, 4096]),
        ("mpsmin", &[0, 1]),
        ("dstrd", &[0, 2]),
        ("mdts", &[0, 1]),
        ("mqes", &[1, 1023, 299]),
        ("sgl", &[0, 1]),
    ];
    options.iter().fold(vec!["ooo=7".to_owned()], |makes, (name, values)| {
        makes
            .iter()
            .flat_map(|make| values.iter().map(move |value| format!("{make}&{name}={value}")))
            .collect()
    })
}

#[test]
fn a_file_comes_back_bit_identical_from_every_make_of_controller() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(folder.path());
    let expected = std::fs::read(&source).unwrap();
    let (image, back) = (folder.path().join("image"), folder.path().join("back"));
    let begin = Instant::now();
    let makes = makes();
    for make in &makes {
        // A namespace of its own, so that nothing is left over from the last make.
        let _ = std::fs::remove_file(&image);
        let size = (expected.len() as u64).next_multiple_of(4096) + (1 << 20);
        let device = format!("emu:{}?size={size}&{make}", image.display());
        // Not at the start, so that offsets count.
        copy(source.to_str().unwrap(), &format!("{device}#{}", 16 << 10));
        copy(&format!("{device}#{}+{}", 16 << 10, expected.len()), back.to_str().unwrap());
        assert!(std::fs::read(&back).unwrap() == expected, "{make}: the file came back changed");
    }
    println!("{} makes, {} bytes each, {:.1} s", makes.len(), expected.len(), begin.elapsed().as_secs_f32());
    assert_eq!(makes.len(), 96);
}
