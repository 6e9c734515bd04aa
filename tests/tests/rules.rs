//! The table of rules in the README beside this folder: each rule names tests, and each of those is there. And the
//! rules about sources that no test of behaviour shows.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn readme() -> String {
    fs::read_to_string(root().join("tests/README.md")).unwrap()
}

/// The rules of a README, in the table below their heading, each with what its second column says.
fn rules(readme: &str) -> Vec<(&str, &str)> {
    let (_, section) = readme.split_once("\n## Rules").unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    // Behind the row of headings and the line below it.
    rows.skip(2)
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let ["", rule, tests, ""] = cells[..] else { panic!("two columns are expected: {row}") };
            (rule, tests)
        })
        .collect()
}

/// What stands in backquotes: `FILE::FUNCTION`, `FILE::"STEP"`, or a file alone.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// What is wrong with a name, if anything.
fn fault(name: &str, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (file, place) = name.split_once("::").map_or((name, None), |(file, place)| (file, Some(place)));
    let Some(text) = read(file) else { return Some(format!("there is no {file}")) };
    let found = match place {
        None => true,
        Some(step) if step.starts_with('"') => text.contains(step),
        Some(function) => is_test(&text, function),
    };
    (!found).then(|| format!("{file} has no test {}", place.unwrap_or_default()))
}

/// Whether `text` has a function of that name right below the attribute of a test.
fn is_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let signature = format!("fn {function}(");
    let below = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    lines
        .iter()
        .enumerate()
        .any(|(at, line)| line.starts_with(&signature) && below(at).any(|line| *line == "#[test]"))
}

#[test]
fn each_rule_names_tests_that_exist_or_says_why_there_is_none() {
    let readme = readme();
    let rules = rules(&readme);
    assert!(rules.len() > 40, "the table has {} rows", rules.len());
    let read = |file: &str| fs::read_to_string(root().join(file)).ok();
    let mut faults = Vec::new();
    for (rule, tests) in rules {
        let names = names(tests);
        if names.is_empty() && !tests.starts_with("none: ") {
            faults.push(format!("{rule}: no test, and no reason"));
        }
        faults.extend(
            names.iter().filter_map(|name| fault(name, read)).map(|fault| format!("{rule}: {fault}")),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_program_that_must_not_compile_stands_for_a_rule() {
    let readme = readme();
    let named: Vec<&str> = rules(&readme).into_iter().flat_map(|(_, tests)| names(tests)).collect();
    for entry in fs::read_dir(root().join("tests/compile_fail")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = format!("tests/compile_fail/{name}");
        assert!(!name.ends_with(".rs") || named.contains(&&*path), "{path} is not in the table");
    }
}

#[test]
fn a_table_that_is_wrong_is_found_out() {
    let table = "| another | table |\n|---|---|\n\n## Rules\n| rule | tests |\n|---|---|\n| one | `a.rs::is` and `b.rs` |\n| two | none: later |\n";
    let rules = rules(table);
    assert_eq!(rules, [("one", "`a.rs::is` and `b.rs`"), ("two", "none: later")]);
    assert_eq!(names(rules[0].1), ["a.rs::is", "b.rs"]);
    let read = |file: &str| {
        let text = "  #[test]\n  #[ignore]\n  fn is(x: u8) {\n  }\n  fn helper() {\n  }\n  \"a step\"";
        (file == "a.rs").then(|| text.to_owned())
    };
    for (name, sound) in [
        ("a.rs::is", true),
        ("a.rs::\"a step\"", true),
        ("a.rs", true),
        ("a.rs::helper", false),
        ("a.rs::i", false),
        ("a.rs::\"another\"", false),
        ("b.rs::is", false),
    ] {
        assert_eq!(fault(name, read).is_none(), sound, "{name}");
    }
}

/// The driver's own sources: without their tests, without the controller model, which is the other side, and without the
/// policy, which hears nothing from outside.
fn driver_sources() -> Vec<(String, String)> {
    let crates = ["nvme-proto", "ugds-hal", "ugds-mem", "ugds-queue", "ugds"];
    let mut folders: Vec<PathBuf> = crates.iter().map(|name| root().join(name).join("src")).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && relative != "ugds-hal/src/emu" {
                folders.push(path);
            } else if relative.ends_with(".rs") && !relative.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
                let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
                sources.push((relative, lines.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    assert!(sources.len() > 60, "{} sources", sources.len());
    sources
}

/// Ordering points are named once: a barrier anywhere else would be one without a name.
#[test]
fn barriers_stand_in_one_file() {
    let with: Vec<String> = driver_sources()
        .into_iter()
        .filter(|(_, code)| code.contains("fence"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(with, ["ugds-hal/src/order.rs"]);
}

/// What a device, a driver library or the kernel says is no reason to panic.
#[test]
fn nothing_is_unwrapped_on_the_drivers_side() {
    let mut faults = Vec::new();
    for (path, code) in driver_sources() {
        for panics in [".unwrap()", ".expect(", "panic!(", "unreachable!(", "todo!("] {
            if let Some(at) = code.find(panics) {
                faults.push(format!("{path}:{}: {panics}", code[..at].lines().count()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
