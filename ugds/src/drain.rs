//! How long to wait for commands that are outstanding when something is let go of.

use std::time::Duration;

/// What to do about commands that are outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drain {
    /// Nothing: their presence is an error, and nothing changes.
    #[default]
    Check,
    /// Wait this long for them. Meanwhile nothing new begins.
    Grace(Duration),
    /// Wait for them for as long as it takes. Meanwhile nothing new begins.
    Wait,
    /// Stop the device, so that nothing is outstanding any more. Without a proof that it stopped, all that it may
    /// still write to stays reserved, and that is an error.
    Force,
}
