//! GPU memory: what it is, which way data takes to it, and the copies of the staged way.
//!
//! | module | holds |
//! |---|---|
//! | [`Vendor`] | what a vendor's driver is asked; [`cuda`](crate::cuda) and [`hip`](crate::hip) answer |
//! | [`Pointer`] | what a driver says about an address |
//! | [`Registration`] | memory of a GPU that somebody promised to keep, and its [`Path`] |
//! | [`Staging`] | a ring of pinned chunks, and the copies between them and the GPU |
//! | [`OnTheFly`] | registrations of buffers that nobody registered |
//!
//! Nothing here makes a GPU context: a context is an application's, and calls are made in the one that the memory
//! belongs to.

mod code;
mod error;
pub(crate) mod load;
mod on_the_fly;
mod path;
mod pointer;
mod registration;
mod staging;
mod vendor;

pub use code::Code;
pub use error::GpuError;
pub use on_the_fly::{Found, OnTheFly};
pub use path::{Path, WhyStaged};
pub(crate) use pointer::text;
pub use pointer::{Kind, PciAddress, Pointer};
pub use registration::{How, Registration};
pub use staging::{Chunk, CopyError, Copying, Piece, Staging, StagingOptions};
pub use vendor::{GpuCopy, Lane, PeerWrites, Vendor, VendorName};
