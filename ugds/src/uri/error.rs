//! What can be wrong with the name of a device.

use std::path::{Path, PathBuf};

use super::{Bytes, BytesError, escape};

/// Why text names no device. The message names the part that is wrong and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// It starts with no known scheme.
    #[error("`{text}` names no device; {}", accepted_instead_of(text))]
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
    /// Two options with something else than `&` between them.
    #[error("`{given}`: options are separated by &, not by `{separator}` (quote the URI in a shell)")]
    OptionSeparator {
        /// What stands between two `&`.
        given: String,
        /// What stands where an `&` should.
        separator: char,
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
    /// A number that is larger than the option takes.
    #[error("{name}={value} is too large; {accepted} is accepted")]
    TooLarge {
        /// The option.
        name: &'static str,
        /// What was given.
        value: String,
        /// What could be given.
        accepted: String,
    },
    /// A size in powers of 1000, or otherwise no number of bytes.
    #[error("{name}: {source}")]
    Bytes {
        /// The option.
        name: &'static str,
        /// What is wrong with it.
        source: BytesError,
    },
    /// A namespace that the description doesn't have.
    #[error("ns={given}: there {}; add namespaces={given}", count(*namespaces))]
    NoNamespace {
        /// The identifier.
        given: u32,
        /// How many namespaces there are, numbered from 1.
        namespaces: u32,
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
    #[error(
        "{} has {}, which is no multiple of {} (namespaces times lba)",
        path.display(), size(*len_bytes), size(*multiple_bytes)
    )]
    ImageLength {
        /// The image.
        path: PathBuf,
        /// Its length.
        len_bytes: u64,
        /// What it should be a multiple of.
        multiple_bytes: u64,
    },
    /// The image has content, and a size was given that differs.
    #[error(
        "{} has {}, but namespaces={namespaces} times size={} is {}; leave out size, or name a new or empty file",
        path.display(), size(*len_bytes), Bytes(*size_bytes), size(size_bytes.saturating_mul((*namespaces).into()))
    )]
    ImageSize {
        /// The image.
        path: PathBuf,
        /// Its length.
        len_bytes: u64,
        /// The size that was given.
        size_bytes: u64,
        /// How many namespaces have that size.
        namespaces: u32,
    },
    /// The image is missing or empty, and no size was given.
    #[error("{}; to make a new one of zeros, say its size, as in 'emu:{}?size=1G'", missing(path, *empty), escape::encode(path))]
    NoImage {
        /// The image.
        path: PathBuf,
        /// Whether there is a file, without content.
        empty: bool,
    },
    /// The image is no file that could be one.
    #[error("{} is no regular file{}", path.display(), if *block_device { NO_BLOCK_DEVICES } else { "; an image is one" })]
    NoRegularFile {
        /// The file.
        path: PathBuf,
        /// Whether it is a device of the kernel's block layer.
        block_device: bool,
    },
}

/// What to write instead of a `text` with no known scheme.
fn accepted_instead_of(text: &str) -> String {
    let scheme = text.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let block_device = ["/dev/nvme", "/dev/sd", "/dev/disk/"].iter().any(|start| text.starts_with(start));
    if block_device || scheme == "nvme" {
        return NO_BLOCK_DEVICES.trim_start_matches("; ").to_owned();
    }
    if ["emu", "vfio", "ugds"].contains(&scheme.as_str()) {
        return format!("did you mean `{scheme}:{}`?", text.get(scheme.len() + 1..).unwrap_or_default());
    }
    "emu:[FILE][?OPTIONS], vfio:BUS:DEVICE.FUNCTION and ugds:/dev/NODE are accepted".to_owned()
}

fn missing(path: &Path, empty: bool) -> String {
    if empty { format!("{} is empty", path.display()) } else { format!("no such image: {}", path.display()) }
}

fn count(namespaces: u32) -> String {
    if namespaces == 1 { "is 1 namespace".to_owned() } else { format!("are {namespaces} namespaces") }
}

/// `64M` as it is written, `1000 bytes` where no suffix is exact.
fn size(bytes: u64) -> String {
    let text = Bytes(bytes).to_string();
    if text.ends_with(|c: char| c.is_ascii_digit()) { format!("{text} bytes") } else { text }
}

const NO_BLOCK_DEVICES: &str =
    "; kernel block devices can't be opened; use vfio:BUS:DEVICE.FUNCTION, its PCI address";

fn suggestion(closest: Option<&str>) -> String {
    closest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
