//! What can be wrong with GPU memory and with the libraries that know about it.

use super::{Code, Kind};
use std::string::String;

/// An error about GPU memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// A library can't be loaded.
    #[error("{library} can't be loaded ({reason}); {remedy}")]
    Library {
        /// Its name.
        library: &'static str,
        /// The loader's reason.
        reason: String,
        /// What would help.
        remedy: &'static str,
    },
    /// A library lacks a function.
    #[error("{library} has no function {symbol}; {remedy}")]
    Symbol {
        /// The library's name.
        library: &'static str,
        /// The function.
        symbol: &'static str,
        /// What would help.
        remedy: &'static str,
    },
    /// A driver is older than this crate understands.
    #[error("{library} is of version {found}; at least {needed} is accepted: {remedy}")]
    Version {
        /// The library's name.
        library: &'static str,
        /// Its version.
        found: String,
        /// The least that is accepted.
        needed: &'static str,
        /// What would help.
        remedy: &'static str,
    },
    /// A function of a library failed.
    #[error("{call} failed: {name} ({code})")]
    Call {
        /// The function.
        call: &'static str,
        /// What it answered.
        code: Code,
        /// The library's name for that.
        name: String,
    },
    /// A library answered something that can't be.
    #[error("{call} answered nonsense: {what}")]
    Nonsense {
        /// The function.
        call: &'static str,
        /// The answer, and what it should have been.
        what: String,
    },
    /// The address is not in GPU memory.
    #[error("address {address:#x} is {kind}; memory of a GPU is accepted")]
    NotGpu {
        /// The address.
        address: u64,
        /// What the driver says it is.
        kind: Kind,
    },
    /// A range leaves its allocation or its registration.
    #[error(
        "{len_bytes} bytes at {address:#x} do not lie within the {limit_bytes} bytes at {limit_address:#x}"
    )]
    Range {
        /// Where it begins.
        address: u64,
        /// Its length.
        len_bytes: u64,
        /// Where the allocation begins.
        limit_address: u64,
        /// The allocation's length.
        limit_bytes: u64,
    },
    /// There is no context to make calls in, and none is made here.
    #[error(
        "no context is current or active on GPU {ordinal}, and none is made here; make one before memory is registered"
    )]
    NoContext {
        /// The GPU's number.
        ordinal: i32,
    },
    /// No driver of a GPU can be used.
    #[error("no GPU's driver can be used: {cuda}; {hip}")]
    NoDriver {
        /// Why not CUDA.
        cuda: String,
        /// Why not HIP.
        hip: String,
    },
    /// Options contradict themselves.
    #[error("{what} {value} is not possible; {accepted} is accepted")]
    Option {
        /// Which option.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What is accepted.
        accepted: &'static str,
    },
    /// Memory of another vendor's GPU.
    #[error("the memory belongs to another driver than the copies")]
    ForeignVendor,
    /// A copy failed before, and whether the GPU is done with the chunks is not known.
    #[error("the copies were given up after a failure: {reason}")]
    Broken {
        /// That failure.
        reason: String,
    },
    /// Host memory was refused.
    #[error("no pinned memory for {len_bytes} bytes: {reason}")]
    Pinned {
        /// How much was asked for.
        len_bytes: usize,
        /// Why not.
        reason: String,
    },
}
