//! The corridor of a request: split, place, submit, reap.

mod batch;
mod bell;
mod cell;
mod channel;
mod core;
mod door;
mod drain;
mod expire;
mod flight;
mod flush;
mod landing;
mod listen;
#[cfg(all(test, loom))]
mod model_tests;
mod near;
mod notices;
mod policy;
mod record;
mod report;
mod request;
mod rota;
mod sync;
mod wait;

pub(crate) use self::core::{Core, Found};
pub(crate) use batch::{Kind, Order, Span, What, Work};
pub(crate) use door::Engine;
pub(crate) use request::{Direction, Request};
