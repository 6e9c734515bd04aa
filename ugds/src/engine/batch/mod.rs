//! Batches: many requests of one owner, whose outcomes are collected later.

mod collect;
mod entry;
mod fifo;
mod held;
mod launch;
mod pieces;
mod reap;
mod work;

pub(crate) use collect::{Span, close, harvest};
pub(crate) use entry::{Kind, Order, What};
pub(crate) use launch::submit;
pub(crate) use work::Work;
