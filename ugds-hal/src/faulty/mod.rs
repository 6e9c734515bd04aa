//! A backend whose device misbehaves by plan: middleware around any other backend.
//!
//! A [`FaultPlan`] says what goes wrong and when. It is plain data with a text form, the same for tests, fuzzing and
//! programs. [`Faulty`] wraps a backend and carries the plan out:
//!
//! - A command that is to fail never reaches the device: a command that moves nothing takes its place, and its
//!   completion gets the status. So what the driver is told is true.
//! - Completions are dropped, held back, returned twice, or altered between the ring and the queue above.
//! - Registers read as the plan says. A reset that does not finish is kept from the device, which goes on working: the
//!   strictest test of whoever might take its memory back.
//! - What the ring itself must notice, and data that comes late, only the device can do; such faults need a [`Model`].
//!
//! # Examples
//!
//! ```
//! use ugds_hal::emu::{Emu, EmuConfig};
//! use ugds_hal::faulty::{FaultPlan, Faulty};
//!
//! let plan: FaultPlan = "drop-cqe:qid=1,nth=3; media:on=read,lba=100+8".parse()?;
//! let backend = Faulty::over_model(Emu::new(EmuConfig::default())?, plan)?;
//! assert_eq!(backend.fired(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod error;
mod plan;
mod port;
mod state;
mod text;

pub use backend::{Faulty, Model};
pub use error::FaultPlanError;
pub use plan::{Access, Blocks, Fault, FaultPlan, Nth, Trigger, What};
pub use port::FaultyPort;
