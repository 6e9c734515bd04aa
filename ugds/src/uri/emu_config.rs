//! From the text of an `emu:` URI to the description of a controller model.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use ugds_hal::emu::EmuConfig;

use super::{EmuUri, UriError};

impl EmuUri {
    /// The controller that the URI describes.
    ///
    /// Without `size`, the image's content decides it.
    ///
    /// # Errors
    ///
    /// Without `size`, [`UriError::NoImage`] when the image is missing or empty, and [`UriError::ImageLength`] when
    /// its content can't be divided into whole blocks. With it, [`UriError::ImageSize`] when there is content of
    /// another length. [`UriError::NoRegularFile`] for a folder, a pipe or a device.
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
        let Some(path) = self.file.as_deref() else {
            return Ok(self.size_bytes.unwrap_or(Self::DEFAULT_SIZE_BYTES));
        };
        match (Image::at(path)?, self.size_bytes) {
            (Image::Content { len_bytes }, Some(size_bytes)) => self.agreed(path, len_bytes, size_bytes),
            (Image::Content { len_bytes }, None) => self.share_of(path, len_bytes),
            (Image::Unknown, size_bytes) => Ok(size_bytes.unwrap_or(Self::DEFAULT_SIZE_BYTES)),
            (Image::Missing | Image::Empty, Some(size_bytes)) => Ok(size_bytes),
            (image, None) => {
                Err(UriError::NoImage { path: path.to_owned(), empty: matches!(image, Image::Empty) })
            }
        }
    }

    fn agreed(&self, path: &Path, len_bytes: u64, size_bytes: u64) -> Result<u64, UriError> {
        let namespaces = self.namespaces;
        if size_bytes.checked_mul(namespaces.into()) != Some(len_bytes) {
            return Err(UriError::ImageSize { path: path.to_owned(), len_bytes, size_bytes, namespaces });
        }
        Ok(size_bytes)
    }

    fn share_of(&self, path: &Path, len_bytes: u64) -> Result<u64, UriError> {
        let multiple_bytes = u64::from(self.namespaces) * u64::from(self.lba_bytes);
        if !len_bytes.is_multiple_of(multiple_bytes) {
            return Err(UriError::ImageLength { path: path.to_owned(), len_bytes, multiple_bytes });
        }
        Ok(len_bytes / u64::from(self.namespaces))
    }
}

/// What there is under the name of an image.
enum Image {
    Missing,
    Empty,
    Content {
        len_bytes: u64,
    },
    /// It can't be looked at. Why, the emulator says when it opens it.
    Unknown,
}

impl Image {
    fn at(path: &Path) -> Result<Self, UriError> {
        match std::fs::metadata(path) {
            Ok(file) if !file.is_file() => Err(UriError::NoRegularFile {
                path: path.to_owned(),
                block_device: file.file_type().is_block_device(),
            }),
            Ok(file) if file.len() == 0 => Ok(Self::Empty),
            Ok(file) => Ok(Self::Content { len_bytes: file.len() }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Missing),
            Err(_) => Ok(Self::Unknown),
        }
    }
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
        std::fs::write(&path, vec![0; 4 * 4096]).unwrap();
        assert_eq!(uri.to_config().unwrap().namespaces[1].size_bytes, 2 * 4096);
        let asked = EmuUri { size_bytes: Some(2 * 4096), ..uri.clone() };
        assert_eq!(asked.to_config().unwrap().namespaces[0].size_bytes, 2 * 4096);
        for size_bytes in [4096, 4 * 4096, u64::MAX / 4096 * 4096] {
            let asked = EmuUri { size_bytes: Some(size_bytes), namespaces: 1, ..uri.clone() };
            let fits = size_bytes == 4 * 4096;
            assert_eq!(asked.to_config().is_ok(), fits, "{size_bytes}");
        }
        let asked = EmuUri { size_bytes: Some(4096), ..uri.clone() };
        let message = asked.to_config().unwrap_err().to_string();
        assert!(message.contains("has 16K, but namespaces=2 times size=4K is 8K"), "{message}");

        std::fs::write(&path, vec![0; 3 * 4096]).unwrap();
        let message = uri.to_config().unwrap_err().to_string();
        assert!(message.contains("has 12K, which is no multiple of 8K"), "{message}");
    }

    #[test]
    fn a_misspelled_name_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a%.img");
        let uri = EmuUri { file: Some(path.clone()), ..EmuUri::default() };
        let sized = EmuUri { size_bytes: Some(8192), ..uri.clone() };
        let message = uri.to_config().unwrap_err().to_string();
        let example = format!("as in 'emu:{}/a%25.img?size=1G'", folder.path().display());
        assert!(message.starts_with("no such image: ") && message.contains(&example), "{message}");
        assert_eq!(sized.to_config().unwrap().namespaces[0].size_bytes, 8192);

        std::fs::write(&path, b"").unwrap();
        assert!(uri.to_config().unwrap_err().to_string().contains("is empty"));
        assert_eq!(sized.to_config().unwrap().namespaces[0].size_bytes, 8192);

        let odd = EmuUri { file: Some(folder.path().to_owned()), ..sized };
        assert!(odd.to_config().unwrap_err().to_string().contains("is no regular file"));
    }
}
