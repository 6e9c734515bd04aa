#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod domain;
mod error;
mod io;
mod lists;
mod mapped;
mod region;
mod registry;
mod transfer;

#[cfg(feature = "std")]
pub mod host;

pub use domain::Domain;
pub use error::MemError;
pub use io::{Format, FormatError, Io};
pub use mapped::Mapped;
pub use region::{Memory, Region, Token};
pub use registry::Registry;
pub use transfer::{MAX_TRANSFER_BYTES, Transfer};
