//! The static probes are in the program, with as many arguments as their documentation says.

/// The notes of static probes: for each, the name of its provider, its own, and its arguments, with a zero behind each.
fn arguments(program: &[u8], name: &str) -> Vec<usize> {
    let wanted = format!("ugds\0{name}\0");
    let starts = program.windows(wanted.len()).enumerate().filter(|(_, bytes)| *bytes == wanted.as_bytes());
    starts
        .filter_map(|(at, _)| {
            let rest = &program[at + wanted.len()..];
            let text = std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()?;
            let all: Vec<&str> = text.split(' ').collect();
            all.iter().all(|argument| argument.starts_with("-8@")).then_some(all.len())
        })
        .collect()
}

#[test]
#[cfg(target_pointer_width = "64")]
fn probes_have_the_arguments_that_are_documented() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_ugds")).unwrap();
    for (name, count) in [("staged", 6), ("rung", 3), ("completed", 6), ("stray", 3), ("wedged", 2)] {
        let found = arguments(&program, name);
        assert!(!found.is_empty() && found.iter().all(|found| *found == count), "{name}: {found:?}");
        let table = include_str!("../../../../ugds-hal/src/probes.rs");
        let row = table.lines().find(|line| line.starts_with(&format!("//! | `{name}` |"))).unwrap();
        let documented = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        assert_eq!(documented.split(", ").count(), count, "{row}");
    }
}
