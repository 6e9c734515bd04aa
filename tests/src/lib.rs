//! Whole-system tests of uGDS: see the folder `tests` beside this one.
