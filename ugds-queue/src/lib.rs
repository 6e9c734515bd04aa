#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attachments;
mod error;
mod outcome;
mod pair;
mod slots;
mod wedge;

pub mod controller;

pub use attachments::Busy;
pub use error::SubmitError;
pub use outcome::{Completed, Counters, InFlight};
pub use pair::{Permit, QueuePair, Row, Ticket};
pub use slots::{Generations, MAX_SLOTS};
pub use wedge::Wedge;
