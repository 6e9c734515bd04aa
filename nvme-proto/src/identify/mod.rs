//! What Identify returns (Base specification, "Identify Command", and NVM Command Set specification).
//!
//! Each structure is the 4096 bytes as they come: reserved gaps are fields too. Numbers have the specification's
//! names in lower case; the getters beside them say what they mean.

mod ascii;
mod controller;
mod flags;
mod lists;
mod namespace;
mod nvm;
mod power;

pub use ascii::Ascii;
pub use controller::Controller;
pub use flags::{
    Cmic, ControllerType, Ctratt, EntrySizes, FlushAll, Fna, Frmw, Lpa, Oacs, Oaes, Oncs, Sanicap, Sgls, Vwc,
};
pub use lists::{ControllerList, NamespaceDescriptor, NamespaceDescriptors, NamespaceList};
pub use namespace::{LbaFormat, Namespace, Nsfeat};
pub use nvm::{ExtendedLbaFormat, NvmController, NvmNamespace};
pub use power::PowerState;
