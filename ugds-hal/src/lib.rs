#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod backend;
mod clock;
mod command;
mod error;
mod histogram;
mod memory;
mod order;
mod port;
mod stop;
mod table;

pub mod pcie;
pub mod probes;

#[cfg(feature = "std")]
pub mod emu;
#[cfg(feature = "std")]
mod event;
#[cfg(feature = "std")]
mod event_set;
#[cfg(feature = "std")]
pub mod faulty;
#[cfg(feature = "std")]
mod fork;
#[cfg(feature = "std")]
pub mod metered;
#[cfg(feature = "std")]
pub mod observed;
#[cfg(feature = "std")]
pub mod traced;
#[cfg(feature = "std")]
pub mod vfio;

pub use backend::{Admin, AdminError, Backend, Source, Traits};
pub use clock::{Clock, Instant, poll};
pub use command::{Command, QueueCommand};
pub use error::{HalError, OpenError};
pub use histogram::Histogram;
pub use memory::{Direction, Dma, DomainId, Extent, Layout, Mapping, OutOfRange, SharedMemory};
pub use port::{Completion, Port, PortSpec, Reaped, Violation};
pub use stop::{Claim, Enables, Era, Quarantine, Stop, Stopped};
pub use table::{Held, Table};

#[cfg(feature = "std")]
pub use clock::MonotonicClock;
#[cfg(feature = "std")]
pub use event::Event;
#[cfg(feature = "std")]
pub use event_set::EventSet;
#[cfg(feature = "std")]
pub use fork::Process;
