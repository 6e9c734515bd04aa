//! The program in the repository's README is the example, which `cargo xtask test` runs.

#[test]
fn the_readme_shows_the_first_program() {
    let readme = include_str!("../../../../README.md");
    let program = include_str!("../../examples/first.rs");
    let body = program.split_once("\n\n").unwrap().1;
    assert!(
        readme.contains(&format!("```rust\n{body}```\n")),
        "README.md shows another program than this:\n{body}"
    );
}
