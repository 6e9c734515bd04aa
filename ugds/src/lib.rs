#![doc = include_str!("../README.md")]

mod device;
mod drain;
mod engine;
mod error;
mod namespace;
mod region;
mod stats;
pub mod uri;

pub use device::{Device, DeviceInfo};
pub use drain::Drain;
pub use error::{Error, IoFailure, Operation};
pub use namespace::Namespace;
pub use region::Region;
pub use stats::{QueueStats, Stats};
pub use ugds_queue::Wedge;
pub use ugds_queue::controller::{ControllerEvent, Detail, Options, Refused};

pub use nvme_proto as nvme;
pub use ugds_hal::{emu, faulty, vfio};
