//! From the text of an `emu:` URI to the description of a controller model.

use std::path::Path;
use std::time::Duration;

use ugds_hal::emu::EmuConfig;

use super::{EmuUri, UriError};

impl EmuUri {
    /// The controller that the URI describes.
    ///
    /// Without `size`, an image that exists and has content decides it.
    ///
    /// # Errors
    ///
    /// [`UriError::ImageLength`] when that image can't be divided into whole blocks.
    pub fn to_config(&self) -> Result<EmuConfig, UriError> {
        let default = EmuConfig::default();
        let config = EmuConfig {
            queues: self.queues,
            mqes_z: self.mqes_z,
            dstrd: self.dstrd,
            mpsmin: self.mpsmin,
            mpsmax: default.mpsmax.max(self.mpsmin),
            mdts: self.mdts,
            sgl: self.sgl,
            dbbuf: self.dbbuf,
            vwc: self.vwc,
            out_of_order: self.out_of_order,
            latency: Duration::from_micros(self.latency_us.into()),
            bandwidth_mib_s: self.bandwidth_mib_s.into(),
            ..default
        };
        let config = config.with_namespaces(self.namespaces, self.namespace_bytes()?, self.lba_bytes);
        Ok(match &self.file {
            Some(file) => config.with_file(file),
            None => config,
        })
    }

    fn namespace_bytes(&self) -> Result<u64, UriError> {
        if let Some(size_bytes) = self.size_bytes {
            return Ok(size_bytes);
        }
        match self.file.as_deref().and_then(|path| Some((path, content_bytes(path)?))) {
            Some((path, len_bytes)) => self.share_of(path, len_bytes),
            None => Ok(Self::DEFAULT_SIZE_BYTES),
        }
    }

    fn share_of(&self, path: &Path, len_bytes: u64) -> Result<u64, UriError> {
        let multiple_bytes = u64::from(self.namespaces) * u64::from(self.lba_bytes);
        if !len_bytes.is_multiple_of(multiple_bytes) {
            return Err(UriError::ImageLength { path: path.to_owned(), len_bytes, multiple_bytes });
        }
        Ok(len_bytes / u64::from(self.namespaces))
    }
}

/// The length of a file with content. What is wrong with a file that can't be looked at, the emulator says when it
/// opens it.
fn content_bytes(path: &Path) -> Option<u64> {
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(file.len()).filter(|len_bytes| *len_bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uri::{Target, Uri};
    use ugds_hal::emu::Backing;

    #[test]
    fn every_accepted_extreme_is_a_valid_description() {
        for query in [
            "ns=1",
            "queues=1&mqes=0&mdts=0",
            "queues=1024&dstrd=8&mpsmin=8&mdts=16&namespaces=1024&size=1024T",
        ] {
            let Target::Emu(uri) = Uri::parse(&format!("emu:?{query}")).unwrap().target else {
                panic!("{query}")
            };
            let config = uri.to_config().unwrap();
            config.validate().unwrap_or_else(|error| panic!("{query}: {error}"));
            assert_eq!(config.backing, Backing::Memory);
            assert_eq!(config.namespaces.len(), uri.namespaces as usize);
        }
    }

    #[test]
    fn an_image_with_content_decides_the_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let uri = EmuUri { file: Some(path.clone()), namespaces: 2, ..EmuUri::default() };
        assert_eq!(uri.to_config().unwrap().namespaces[0].size_bytes, EmuUri::DEFAULT_SIZE_BYTES);

        std::fs::write(&path, vec![0; 4 * 4096]).unwrap();
        assert_eq!(uri.to_config().unwrap().namespaces[1].size_bytes, 2 * 4096);
        let asked = EmuUri { size_bytes: Some(4096), ..uri.clone() };
        assert_eq!(asked.to_config().unwrap().namespaces[0].size_bytes, 4096);

        std::fs::write(&path, vec![0; 3 * 4096]).unwrap();
        let message = uri.to_config().unwrap_err().to_string();
        assert!(message.contains("has 12288 bytes; a multiple of 8192 bytes"), "{message}");
    }
}
