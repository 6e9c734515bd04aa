#![doc = include_str!("../README.md")]

mod asynchronous;
mod batch;
mod device;
mod drain;
mod engine;
mod error;
pub mod gpu;
mod namespace;
mod options;
pub mod published;
mod region;
mod stats;
pub mod uri;

pub use asynchronous::{AsyncQueue, Pending};
pub use batch::{Batch, Outcome};
pub use device::{Device, DeviceInfo};
pub use drain::Drain;
pub use error::{Error, IoFailure, Operation};
pub use gpu::GpuRegion;
pub use namespace::Namespace;
pub use options::{Classes, Completions, Options, Policy};
pub use region::Region;
pub use stats::{ClassStats, Measured, QueueClass, QueueStats, Statistics, Stats};
pub use ugds_queue::controller::{ControllerEvent, Detail, Refused};
pub use ugds_queue::{Generations, Wedge};
pub use ugds_sched::{Completion, Level, Mode, Settings};

pub use nvme_proto as nvme;
pub use ugds_hal::{Histogram, Instant, emu, faulty, traced, vfio};
