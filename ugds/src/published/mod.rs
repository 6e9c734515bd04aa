//! Statistics for other processes: `ugds stat` reads them from a socket of each device that publishes them.
//!
//! A device publishes when its [`Options`] or the environment say so:
//!
//! | `UGDS_STATS` | means |
//! |---|---|
//! | not set | what the options say |
//! | `1` | statistics with latencies, [`Statistics::Latencies`] |
//! | `counters` | what is counted anyway, at no cost, and whatever the options say |
//! | `0` | nothing is published, whatever the options say |
//!
//! [`DeviceInfo::statistics`] says where that is, or why they are not published: that is no reason not to open a device.
//!
//! The socket is `PID.N` in [`folder`], which only its user may enter. Whoever connects gets one line of JSON and the end
//! of the stream; nothing is read from him. One thread waits there without using the processor, and ends with the device.
//! A child of the process has neither thread nor socket.
//!
//! [`list`] and [`read`] are the other side. They trust nothing that they find.

mod client;
mod folder;
mod server;
mod wish;

pub use client::{Entry, ReadError, list, read};
pub use folder::{PublishError, folder};

pub(crate) use server::{Publisher, Source};
pub(crate) use wish::Wish;

#[cfg(doc)]
use crate::{DeviceInfo, Options, Statistics};
