#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod bits;
mod domain;
mod error;
mod io;
mod listed;
mod lists;
mod mapped;
mod pages;
mod pool;
mod region;
mod registry;
mod transfer;

#[cfg(feature = "std")]
pub mod cuda;
#[cfg(feature = "std")]
pub mod dmabuf;
#[cfg(feature = "std")]
pub mod gpu;
#[cfg(feature = "std")]
pub mod hip;
#[cfg(feature = "std")]
pub mod host;
#[cfg(feature = "std")]
pub mod rdma;

pub use domain::Domain;
pub use error::MemError;
pub use io::{Format, FormatError, Io};
pub use listed::{ListedIo, Piece};
pub use mapped::Mapped;
pub use pool::{ListPage, ListPool};
pub use region::{Memory, Region, Token};
pub use registry::Registry;
pub use transfer::{MAX_TRANSFER_BYTES, Transfer};
