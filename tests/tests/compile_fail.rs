//! Rules of ownership that the type system keeps: each program in `compile_fail` breaks one, and must not compile.

#[test]
fn programs_that_break_a_rule_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile_fail/*.rs");
}
