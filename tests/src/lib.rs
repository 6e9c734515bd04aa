//! What the whole-system tests share. The tests themselves are in the folder `tests` beside this one.

pub mod oracle;
