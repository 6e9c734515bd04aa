//! What can be wrong with the name of a device.

use std::path::PathBuf;

use super::BytesError;

/// Why text names no device. The message names the part that is wrong and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// It starts with no known scheme.
    #[error(
        "`{text}` names no device; emu:[FILE][?OPTIONS], vfio:BUS:DEVICE.FUNCTION and ugds:/dev/NODE are accepted"
    )]
    Scheme {
        /// The text.
        text: String,
    },
    /// There is a `#` where only a device is asked for.
    #[error("`{text}` has a `#`; a device without a place on it is accepted (in a file name, write %23)")]
    Fragment {
        /// The text.
        text: String,
    },
    /// An option without `=`, without a name or without a value.
    #[error("`{given}` is no option; NAME=VALUE, with & between options, is accepted")]
    OptionForm {
        /// What stands between two `&`.
        given: String,
    },
    /// An option that this scheme doesn't have.
    #[error("{scheme} has no option `{name}`{}; accepted are {accepted}", suggestion(closest.as_deref()))]
    UnknownOption {
        /// The scheme.
        scheme: &'static str,
        /// What was given.
        name: String,
        /// The options there are, with commas between.
        accepted: String,
        /// The option that was probably meant.
        closest: Option<String>,
    },
    /// An option that stands there twice.
    #[error("option `{name}` is given more than once; one value is accepted")]
    RepeatedOption {
        /// The option.
        name: String,
    },
    /// A value that the option can't have.
    #[error("{name}={value}: {accepted} is accepted")]
    Value {
        /// The option.
        name: &'static str,
        /// What was given.
        value: String,
        /// What could be given.
        accepted: String,
    },
    /// A `%` that two hexadecimal digits don't follow, or `%00`.
    #[error(
        "`{sequence}` in `{text}` is no encoded byte; %01 to %FF is accepted, and %25 for the character itself"
    )]
    Escape {
        /// The text around it.
        text: String,
        /// What starts at the `%`.
        sequence: String,
    },
    /// A character in a file name that would be taken for something else.
    #[error("`{character}` stands in the file name `{text}`; its code {encoded} is accepted")]
    FileCharacter {
        /// The file name.
        text: String,
        /// The character.
        character: char,
        /// How it is written.
        encoded: String,
    },
    /// No address of a PCI device.
    #[error(
        "`{text}` is no PCI address; [DOMAIN:]BUS:DEVICE.FUNCTION in hexadecimal, such as 0000:01:00.0, is accepted"
    )]
    PciAddress {
        /// What was given.
        text: String,
    },
    /// A device node that isn't an absolute path.
    #[error("`{}` is no device node; an absolute path such as /dev/ugds_drv0 is accepted", path.display())]
    NodePath {
        /// What was given.
        path: PathBuf,
    },
    /// The place after `#` doesn't have the form of one.
    #[error("`#{place}` is no place on a device; #OFFSET or #OFFSET+LENGTH in bytes is accepted: {source}")]
    Place {
        /// What stands after the `#`.
        place: String,
        /// What is wrong with the number.
        source: BytesError,
    },
    /// The place after `#` ends beyond the largest number, or has no bytes.
    #[error(
        "`#{place}` is no place on a device; a LENGTH of 1 or more, and an end within 64 bits, are accepted"
    )]
    PlaceRange {
        /// What stands after the `#`.
        place: String,
    },
    /// The image exists, no size was given, and its length can't be one.
    #[error("{} has {len_bytes} bytes; a multiple of {multiple_bytes} bytes (namespaces times block), or size=N, is accepted", path.display())]
    ImageLength {
        /// The image.
        path: PathBuf,
        /// Its length.
        len_bytes: u64,
        /// What it should be a multiple of.
        multiple_bytes: u64,
    },
}

fn suggestion(closest: Option<&str>) -> String {
    closest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
