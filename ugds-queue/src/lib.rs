#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attachments;
mod pair;
mod slots;
mod wedge;

pub mod controller;

pub use attachments::Busy;
pub use pair::{Completed, Counters, InFlight, Permit, QueuePair, SubmitError, Ticket};
pub use slots::MAX_SLOTS;
pub use wedge::Wedge;
