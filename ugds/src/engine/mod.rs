//! The corridor of a request: split, place, submit, reap.

mod cell;
mod channel;
mod core;
mod drain;
mod expire;
mod flush;
mod record;
mod report;
mod request;
mod wait;

pub(crate) use self::core::{Core, Found};
pub(crate) use flush::flush;
pub(crate) use request::{Direction, Request};
