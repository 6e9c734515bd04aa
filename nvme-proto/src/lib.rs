#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
mod macros;
mod cqe;
mod sqe;
mod types;

pub mod admin;
pub mod dbbuf;
pub mod event;
pub mod identify;
pub mod log;
pub mod nvm;
pub mod prp;
pub mod register;
pub mod sgl;
pub mod status;

pub use cqe::Cqe;
pub use sqe::{DataPointer, Psdt, Sqe};
pub use status::Status;
pub use types::{BusAddr, Cid, Count16, Csi, Lba, Nsid, PageSize, Qid};
pub use zerocopy;
