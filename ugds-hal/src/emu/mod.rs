//! A complete NVMe controller in software: the embedded default, and an independent judge of the driver.
//!
//! [`Emu`] is a [`Backend`](crate::Backend) over memory or a file, in this process, without root. It keeps to the
//! specification where a driver does and where it does not: wrong commands get the status that they deserve, wrong
//! doorbells raise their event, and every access to host memory goes through a map like an IOMMU's. What the driver
//! did wrong is on record: see [`Emu::violations`], [`Emu::breaches`], [`Emu::assert_clean`].
//!
//! It runs in threads, or stepped by hand under virtual time: then it moves only in [`Emu::step`] and in the waiting
//! functions of its clock, and everything that it does is determined by its [`EmuConfig`].

mod admin;
mod backend;
mod bells;
mod breach;
mod clock;
mod config;
mod control;
mod controller;
mod deviation;
mod dma;
mod doorbells;
mod events;
mod interrupts;
mod lane;
mod model;
mod namespace;
mod nvm;
mod queue;
mod ranges;
mod registers;
mod rng;
mod shadow;
mod state;
mod stats;
mod stepper;
mod store;
mod subsystem;
mod time;
mod timing;
mod workers;

pub use backend::{Emu, EmuDoorbell};
pub use breach::Breach;
pub use clock::EmuClock;
pub use config::{Backing, ConfigError, EmuConfig, Iova, Mode, NamespaceConfig, Oddities};
pub use deviation::Deviation;
pub use dma::{DmaViolation, Purpose, Reason};
pub use events::AsyncEvent;
pub use namespace::{FaultOn, MediaFault};
pub use stats::EmuStats;
pub use subsystem::Health;
