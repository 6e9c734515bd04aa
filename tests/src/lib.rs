//! What the whole-system tests share. The tests themselves are in the folder `tests` beside this one.

pub mod oracle;
pub mod stubs;

/// How many times as many random cases are wanted: `UGDS_CASES`, or 1.
///
/// # Panics
///
/// When it is set to something that is no number from 1 to 1000.
#[must_use]
pub fn times() -> u32 {
    let Ok(word) = std::env::var("UGDS_CASES") else { return 1 };
    let times = word.parse().ok().filter(|times| (1..=1000).contains(times));
    times.unwrap_or_else(|| panic!("UGDS_CASES is {word}; a number from 1 to 1000 is accepted"))
}
