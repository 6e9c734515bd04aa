//! Controllers behind VFIO: a real device, driven from user space under the IOMMU's protection.
//!
//! The device is bound to `vfio-pci` beforehand; then nobody needs to be root who owns its node. Everything the
//! device may reach is mapped here, and the IOMMU refuses the rest.

mod arena;
mod backend;
mod bar;
mod config;
mod container;
mod device;
mod error;
mod group;
mod interrupts;
mod ioas;
mod ioctl;
mod iommufd;
mod iova;
mod mmio;
mod options;
pub mod sigbus;
mod sysfs;

pub use backend::Vfio;
pub use error::VfioError;
pub use options::VfioOptions;
