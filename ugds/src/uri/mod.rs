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
pub struct Uri {
    target: Target,
    nsid: Option<Nsid>,
}

/// Which device a [`Uri`] names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The emulated controller.
    Emu(EmuUri),
    /// A PCI device, through VFIO.
    Vfio(PciAddress),
    /// A device node of the kernel module.
    Kmod(PathBuf),
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
        let options = Options::parse(scheme.prefix(), scheme.options(), query)?;
        let target = match scheme {
            Scheme::Emu => Target::Emu(EmuUri::parse(name, &options)?),
            Scheme::Vfio => Target::Vfio(name.parse()?),
            Scheme::Kmod => Target::Kmod(node(name)?),
        };
        Ok(Self { nsid: options.namespace(target.last_nsid())?, target })
    }

    /// Whether `text` starts like the name of a device, so that it is no file name.
    ///
    /// A file whose name starts so can be written with a leading `./`.
    #[must_use]
    pub fn is_uri(text: &str) -> bool {
        Scheme::of(text).is_some()
    }

    /// The device. Two URIs with equal targets name the same device, whichever namespaces they choose.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The namespace that was chosen with `ns=N`, if any was.
    #[must_use]
    pub fn nsid(&self) -> Option<Nsid> {
        self.nsid
    }
}

impl From<EmuUri> for Uri {
    fn from(emu: EmuUri) -> Self {
        Self { target: Target::Emu(emu), nsid: None }
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
        let options = match &self.target {
            Target::Emu(emu) => {
                write!(f, "emu:{}", emu.file.as_deref().map(escape::encode).unwrap_or_default())?;
                emu.options()
            }
            Target::Vfio(address) => write!(f, "vfio:{address}").map(|()| Vec::new())?,
            Target::Kmod(path) => write!(f, "ugds:{}", escape::encode(path)).map(|()| Vec::new())?,
        };
        let nsid = self.nsid.map(|nsid| ("ns", nsid.to_string()));
        for (count, (name, value)) in options.into_iter().chain(nsid).enumerate() {
            let separator = if count == 0 { '?' } else { '&' };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

impl Target {
    /// The largest identifier that a namespace can have, as far as the name tells.
    fn last_nsid(&self) -> Nsid {
        match self {
            Self::Emu(emu) => Nsid(emu.namespaces),
            Self::Vfio(_) | Self::Kmod(_) => Nsid(Nsid::ALL.0 - 1),
        }
    }
}

fn node(name: &str) -> Result<PathBuf, UriError> {
    let path = escape::decode(name)?;
    if path.is_absolute() { Ok(path) } else { Err(UriError::NodePath { path }) }
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

    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Emu => emu::OPTIONS,
            Self::Vfio | Self::Kmod => &["ns"],
        }
    }
}

#[cfg(test)]
mod tests;
