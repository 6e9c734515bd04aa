#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

mod place;
mod split;

pub use place::{Place, RoundRobin};
pub use split::{Limits, LimitsError, Piece, Split};
