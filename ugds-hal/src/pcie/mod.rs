//! What every controller on a local bus shares: rings in memory, doorbells, and the way to stop it.

mod completion;
mod disable;
mod doorbell;
mod open;
mod ring;
mod submission;

pub use disable::disable;
pub use doorbell::{Doorbell, ShadowPages};
pub use open::{RingSizeError, close_port, open_port};
pub use ring::PciePort;
