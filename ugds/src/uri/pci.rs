//! Addresses of PCI devices.

use std::fmt;
use std::str::FromStr;

use super::UriError;

/// The address of a PCI function: domain, bus, device and function, as in `0000:01:00.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PciAddress {
    /// The domain, also called segment.
    pub domain: u16,
    /// The bus.
    pub bus: u8,
    /// The device on the bus, 0 to 31.
    pub device: u8,
    /// The function of the device, 0 to 7.
    pub function: u8,
}

impl FromStr for PciAddress {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        parts(text).ok_or_else(|| UriError::PciAddress { text: text.to_owned() })
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

fn parts(text: &str) -> Option<PciAddress> {
    let (place, function) = text.split_once('.')?;
    let (rest, device) = place.rsplit_once(':')?;
    let (domain, bus) = rest.split_once(':').unwrap_or(("0", rest));
    Some(PciAddress {
        domain: hexadecimal(domain, 0xffff)?,
        bus: hexadecimal(bus, 0xff)?.try_into().ok()?,
        device: hexadecimal(device, 0x1f)?.try_into().ok()?,
        function: hexadecimal(function, 7)?.try_into().ok()?,
    })
}

fn hexadecimal(text: &str, max: u16) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(text, 16).ok().filter(|number| plain && *number <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_may_be_left_out() {
        let address: PciAddress = "01:1f.7".parse().unwrap();
        assert_eq!(address, PciAddress { domain: 0, bus: 1, device: 31, function: 7 });
        assert_eq!(address.to_string(), "0000:01:1f.7");
        assert_eq!("0000:01:1f.7".parse(), Ok(address));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "01:00",
            "01.0",
            "0000:01:20.0",
            "01:00.8",
            "10000:01:00.0",
            "1:2:3:4.0",
            "+1:00.0",
            "01:00.0 ",
        ] {
            let error = text.parse::<PciAddress>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }
}
