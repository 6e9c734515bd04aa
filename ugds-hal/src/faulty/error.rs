//! What can be wrong with a plan.

/// A plan that can't be carried out, or a text that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultPlanError {
    /// There is no such fault.
    #[error("there is no fault {found:?}; accepted are {}", super::text::NAMES.join(", "))]
    Name {
        /// What was found.
        found: String,
    },
    /// A fault takes no such value.
    #[error("{fault} takes no {found:?}; accepted are {accepted}")]
    Key {
        /// The fault.
        fault: &'static str,
        /// What was found.
        found: String,
        /// What it takes.
        accepted: String,
    },
    /// A value is none.
    #[error("{fault}: {key}={found} is not possible; {accepted} is accepted")]
    Value {
        /// The fault.
        fault: &'static str,
        /// Which value.
        key: &'static str,
        /// What was found.
        found: String,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// A value is needed.
    #[error("{fault} needs {key}=, {accepted}")]
    Missing {
        /// The fault.
        fault: &'static str,
        /// Which value.
        key: &'static str,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// A value is given twice.
    #[error("{fault}: {key}= is given twice; once is accepted")]
    Twice {
        /// The fault.
        fault: &'static str,
        /// Which value.
        key: &'static str,
    },
    /// Only a model of a device can do that.
    #[error("{fault} needs a device model; the {backend} backend drives a device that can't be told to")]
    NeedsModel {
        /// The fault.
        fault: &'static str,
        /// The backend's name.
        backend: &'static str,
    },
}
