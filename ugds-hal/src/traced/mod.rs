//! A backend that writes down the life of each command: middleware around any other backend.
//!
//! [`Traced`] is an [`Observed`] backend whose observer is a [`Tracer`]. Each port writes typed [`Event`]s into a ring of
//! its own: a command was staged, the device was told about it, its completion was seen. A full ring drops its oldest
//! events and counts them; writing never blocks, whoever reads. Times are those of the device's clock, which is read as
//! [`observed`](crate::observed) says.
//!
//! It goes around [`Faulty`](crate::faulty::Faulty), and shows what the driver sees, or inside it, and shows what the
//! device did.
//!
//! # Examples
//!
//! ```
//! use ugds_hal::Backend;
//! use ugds_hal::emu::{Emu, EmuConfig};
//! use ugds_hal::traced::{Traced, Tracer};
//!
//! let tracer = Tracer::new(Tracer::DEFAULT_EVENTS);
//! let backend = Traced::with(Emu::new(EmuConfig::default())?, tracer.clone());
//! assert!(backend.traits().path.ends_with(", traced"));
//! // What drives the backend makes events; whoever has the tracer reads them at any time.
//! let trace = tracer.drain();
//! assert_eq!((trace.events.len(), trace.dropped), (0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
mod ring;
mod tracer;

pub use event::{Event, Step};
pub use tracer::{PortTrace, Trace, Tracer};

use crate::observed::Observed;

/// A backend that writes down the life of each command.
pub type Traced<B> = Observed<B, Tracer>;
