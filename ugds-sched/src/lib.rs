#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod adaptive;
mod arbiter;
mod atomic;
mod chunk;
mod credit;
mod doorbell;
mod group;
mod line;
mod loads;
mod place;
mod presence;
mod ranges;
mod scheduler;
mod split;
mod tuning;
mod want;

pub use adaptive::{Adaptive, Completion, Costs};
pub use arbiter::{Arbiter, LEVELS};
pub use credit::{Credit, Credits, Full};
pub use doorbell::{DOORBELL_MAX, Doorbell, Ring};
pub use group::{Ended, Go, Group, GroupError, Member, Order, Outcome};
pub use line::Line;
pub use loads::{Load, Loads, View};
pub use place::{HeldQueue, LeastLoaded, Place, RoundRobin, Step};
pub use ranges::{Ranges, RangesError};
pub use scheduler::{NoRoom, Placement, Progress, Run, Scheduler, SchedulerError};
pub use split::{Limits, LimitsError, Piece, Split};
pub use tuning::{Tuning, TuningError};
pub use want::{Class, Direction, Level, Mode, Settings, Want};
