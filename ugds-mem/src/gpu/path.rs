//! Which way data takes to GPU memory, and why not a better one.

use super::{GpuError, Kind, Pointer};
use crate::dmabuf::Dmabuf;
use core::fmt;
use std::string::String;

/// The way that data takes to registered GPU memory.
#[derive(Debug)]
pub enum Path {
    /// A device reaches the memory itself, through a DMA-buf.
    Direct(Dmabuf),
    /// Data goes through pinned host memory, and the GPU's copy engine moves it from there.
    Staged(WhyStaged),
}

impl Path {
    /// Why data does not go directly, if it does not.
    #[must_use]
    pub fn why_staged(&self) -> Option<&WhyStaged> {
        match self {
            Self::Direct(_) => None,
            Self::Staged(why) => Some(why),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(_) => f.write_str("direct: GPU memory through a DMA-buf"),
            Self::Staged(why) => write!(f, "staged: {why}"),
        }
    }
}

/// Why memory is not reached directly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhyStaged {
    /// Managed memory moves, so no device may keep its address.
    #[error("managed memory moves between host and GPU; allocate with cuMemAlloc or hipMalloc instead")]
    Managed,
    /// Memory of a pool can't be exported.
    #[error("memory of a pool can't be exported; allocate with cuMemAlloc or hipMalloc instead")]
    Pool,
    /// A virtual mapping was made without the flag that lets peers reach it.
    #[error("the virtual mapping lacks the flag gpuDirectRDMACapable of its allocation")]
    VirtualWithoutRdma,
    /// The driver says that no peer may reach the memory.
    #[error("the driver says that no peer device may reach this memory")]
    NotRdmaCapable,
    /// The GPU or the kernel driver has no DMA-buf.
    #[error(
        "the GPU's driver does not export DMA-bufs; the open kernel modules, on kernel 5.12 or later, do"
    )]
    NoDmabuf,
    /// The driver did not export this memory.
    #[error("the driver did not export the memory: {0}")]
    Export(GpuError),
    /// The driver exported something else than what was asked for.
    #[error("the driver exported a DMA-buf that can't be used: {reason}")]
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// The SSD's backend can't map DMA-bufs.
    #[error("the SSD can't be given the DMA-buf: {reason}")]
    Backend {
        /// Its reason.
        reason: String,
    },
    /// The caller wanted it so.
    #[error("the caller asked for it")]
    Asked,
}

/// Why memory is not worth an attempt to export, from what its driver says.
pub(crate) fn refusal(pointer: &Pointer) -> Option<WhyStaged> {
    match (pointer.kind, pointer.rdma_capable) {
        (Kind::Managed, _) => Some(WhyStaged::Managed),
        (_, Some(true)) => None,
        (Kind::Pool, _) => Some(WhyStaged::Pool),
        (Kind::Virtual, Some(false)) => Some(WhyStaged::VirtualWithoutRdma),
        (_, Some(false)) => Some(WhyStaged::NotRdmaCapable),
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_says_decides_before_an_export_is_tried() {
        let why = |kind, rdma_capable| refusal(&Pointer { kind, rdma_capable, ..Pointer::unknown(0) });
        assert_eq!(why(Kind::Managed, Some(true)), Some(WhyStaged::Managed));
        assert_eq!(why(Kind::Pool, None), Some(WhyStaged::Pool));
        assert_eq!(why(Kind::Pool, Some(true)), None);
        assert_eq!(why(Kind::Virtual, Some(false)), Some(WhyStaged::VirtualWithoutRdma));
        assert_eq!(why(Kind::Virtual, Some(true)), None);
        assert_eq!(why(Kind::Device, Some(false)), Some(WhyStaged::NotRdmaCapable));
        assert_eq!(why(Kind::Device, None), None);
        assert_eq!(why(Kind::Virtual, None), None);
    }
}
