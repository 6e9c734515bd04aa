//! How a device is named: `emu:FILE?size=4G&lba=4096`, `vfio:0000:01:00.0`, `ugds:/dev/ugds_drv0`.
//!
//! A [`Uri`] is text that has been understood, no more: nothing is opened or looked up. A [`Location`] adds a place
//! on the namespace, as in `emu:disk.img?ns=2#1M+64K`.

mod bytes;
mod emu;
mod emu_config;
mod error;
mod escape;
mod location;
mod options;
mod pci;

pub use bytes::{Bytes, BytesError};
pub use emu::EmuUri;
pub use error::UriError;
pub use location::Location;
pub use pci::PciAddress;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nvme_proto::Nsid;
use options::Options;

/// The name of a device, and of one of its namespaces.
///
/// | form | device |
/// |---|---|
/// | `emu:[FILE][?OPTIONS]` | the emulated controller over a file, or over memory; see [`EmuUri`] for the options |
/// | `vfio:[DOMAIN:]BUS:DEVICE.FUNCTION[?ns=N]` | a PCI device that is bound to `vfio-pci` |
/// | `ugds:/PATH[?ns=N]` | a device node of the kernel module |
///
/// In a file name the characters `?`, `#`, `%` and `&` are written `%3F`, `%23`, `%25` and `%26`; any other byte may
/// be written so. `Display` gives the shortest text for the same name.
///
/// # Examples
///
/// ```
/// use ugds::uri::Uri;
///
/// let uri = Uri::parse("emu:disk.img?size=4096M&lba=4K&ns=1").unwrap();
/// assert_eq!(uri.to_string(), "emu:disk.img?size=4G&ns=1");
///
/// let error = Uri::parse("emu:disk.img?seize=4G").unwrap_err();
/// assert!(error.to_string().contains("did you mean `size`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Uri {
    /// The emulated controller.
    Emu(EmuUri),
    /// A PCI device, through VFIO.
    Vfio {
        /// Where the device is.
        address: PciAddress,
        /// The namespace, when one was chosen.
        nsid: Option<Nsid>,
    },
    /// A device node of the kernel module.
    Kmod {
        /// The device node.
        path: PathBuf,
        /// The namespace, when one was chosen.
        nsid: Option<Nsid>,
    },
}

impl Uri {
    /// Understands `text`.
    ///
    /// # Errors
    ///
    /// [`UriError`] names the part that is wrong and what would be accepted.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        if text.contains('#') {
            return Err(UriError::Fragment { text: text.to_owned() });
        }
        let scheme = Scheme::of(text).ok_or_else(|| UriError::Scheme { text: text.to_owned() })?;
        let rest = &text[scheme.prefix().len()..];
        let (name, query) = rest.split_once('?').map_or((rest, None), |(name, query)| (name, Some(query)));
        match scheme {
            Scheme::Emu => EmuUri::parse(name, query).map(Self::Emu),
            Scheme::Vfio => {
                Ok(Self::Vfio { address: name.parse()?, nsid: only_namespace(scheme.prefix(), query)? })
            }
            Scheme::Kmod => {
                let path = escape::decode(name)?;
                if !path.is_absolute() {
                    return Err(UriError::NodePath { path });
                }
                Ok(Self::Kmod { path, nsid: only_namespace(scheme.prefix(), query)? })
            }
        }
    }

    /// Whether `text` starts like the name of a device, so that it is no file name.
    ///
    /// A file whose name starts so can be written with a leading `./`.
    #[must_use]
    pub fn is_uri(text: &str) -> bool {
        Scheme::of(text).is_some()
    }

    /// The namespace that was chosen with `ns=N`, if any was.
    #[must_use]
    pub fn nsid(&self) -> Option<Nsid> {
        match self {
            Self::Emu(emu) => emu.nsid,
            Self::Vfio { nsid, .. } | Self::Kmod { nsid, .. } => *nsid,
        }
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        Self::parse(text)
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emu(emu) => return write!(f, "emu:{emu}"),
            Self::Vfio { address, .. } => write!(f, "vfio:{address}")?,
            Self::Kmod { path, .. } => write!(f, "ugds:{}", escape::encode(path))?,
        }
        match self.nsid() {
            Some(nsid) => write!(f, "?ns={nsid}"),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
enum Scheme {
    Emu,
    Vfio,
    Kmod,
}

impl Scheme {
    fn of(text: &str) -> Option<Self> {
        [Self::Emu, Self::Vfio, Self::Kmod].into_iter().find(|scheme| text.starts_with(scheme.prefix()))
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Emu => "emu:",
            Self::Vfio => "vfio:",
            Self::Kmod => "ugds:",
        }
    }
}

fn only_namespace(scheme: &'static str, query: Option<&str>) -> Result<Option<Nsid>, UriError> {
    Options::parse(scheme, &["ns"], query)?.namespace()
}

#[cfg(test)]
mod tests;
