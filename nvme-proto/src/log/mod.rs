//! What Get Log Page returns (Base specification, "Get Log Page Command").

mod ana;
mod effects;
mod error;
mod lists;
mod sanitize;
mod self_test;
mod smart;

pub use ana::{AnaGroup, AnaHeader, AnaState};
pub use effects::{CommandEffects, Effects};
pub use error::ErrorEntry;
pub use lists::{ChangedNamespaces, Changes, FirmwareSlots};
pub use sanitize::{SanitizeState, SanitizeStatus};
pub use self_test::{SelfTest, SelfTestOutcome, SelfTestResult};
pub use smart::{CriticalWarning, Smart};
