//! A backend that measures its ports: middleware around any other backend.
//!
//! [`Metered`] is an [`Observed`] backend whose observer is a set of [`Meters`]. For each port it counts doorbells and
//! passes and keeps a [`Histogram`] of latencies: from the doorbell that told the device about a command to the pass that
//! saw its completion, which costs one look at the clock for each of these, and none for a command.

mod meter;

pub use meter::{Meters, PortMeter, Reading};

#[cfg(doc)]
use crate::Histogram;
use crate::observed::Observed;

/// A backend that measures its ports.
pub type Metered<B> = Observed<B, Meters>;
