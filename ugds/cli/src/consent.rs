//! Commands that destroy data as a side effect ask first.

use ugds::uri::{Target, Uri};

use crate::failure::usage;

/// Fails unless `erase` was given or the device can't hold anything of value: an emulated controller over memory,
/// or over an image that is missing or empty. Call it before the device is opened, which makes a missing image.
pub(crate) fn to_destroy(what: &str, uri: &Uri, erase: Erase) -> anyhow::Result<()> {
    if erase == Erase::Granted || !may_hold_data(uri) {
        return Ok(());
    }
    Err(usage(format!(
        "{what} overwrites what {uri} holds, which needs --erase; a new or empty image, or emu: without one, does not"
    )))
}

/// Whether `--erase` was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Erase {
    /// It was.
    Granted,
    /// It was not.
    Withheld,
}

impl From<bool> for Erase {
    fn from(flag: bool) -> Self {
        if flag { Self::Granted } else { Self::Withheld }
    }
}

fn may_hold_data(uri: &Uri) -> bool {
    let Target::Emu(emu) = uri.target() else { return true };
    match emu.file.as_deref().map(std::fs::metadata) {
        None => false,
        Some(Ok(file)) => !file.is_file() || file.len() > 0,
        Some(Err(error)) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str, erase: Erase) -> Result<(), String> {
        to_destroy("randwrite", &Uri::parse(uri).unwrap(), erase).map_err(|error| error.to_string())
    }

    #[test]
    fn only_devices_that_may_hold_data_need_consent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let uri = format!("emu:{}", path.display());
        assert_eq!(asked("emu:?size=1M", Erase::Withheld), Ok(()));
        assert_eq!(asked(&uri, Erase::Withheld), Ok(()));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(asked(&uri, Erase::Withheld), Ok(()));
        std::fs::write(&path, b"precious").unwrap();
        assert!(asked(&uri, Erase::Withheld).unwrap_err().contains("--erase"));
        assert_eq!(asked(&uri, Erase::Granted), Ok(()));
        assert!(asked("vfio:01:00.0", Erase::Withheld).is_err());
        assert_eq!(asked("vfio:01:00.0", Erase::Granted), Ok(()));
    }
}
