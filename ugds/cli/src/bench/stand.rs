//! The test stand: an opened namespace, and run after run on it.

use anyhow::Context;
use ugds::uri::Location;
use ugds::{Device, Namespace, Options};

use super::job::{self, Job, Load, Results};
use super::progress::Progress;
use crate::device::{namespace, open_with};

/// A place that loads are put on.
pub(super) struct Stand {
    device: Device,
    namespace: Namespace,
    place: Location,
    memory_path: &'static str,
}

impl Stand {
    pub(super) fn open(place: &Location) -> anyhow::Result<Self> {
        let mut options = Options::default();
        // Without latencies, unless the environment wants them: nothing that is measured here changes by it.
        options.publish = Some("ugds bench".into());
        let device = open_with(&place.uri, options)?;
        let namespace = namespace(&device, place.uri.nsid())?;
        // Memory that is allocated later is of the same kind.
        let block = device.alloc(namespace.lba_bytes() as usize).context("cannot register memory")?;
        let memory_path = block.path();
        Ok(Self { device, namespace, place: place.clone(), memory_path })
    }

    pub(super) fn place(&self) -> &Location {
        &self.place
    }

    /// How commands reach the device.
    pub(super) fn device_path(&self) -> String {
        self.device.info().path.to_string()
    }

    /// How data reach memory.
    pub(super) fn memory_path(&self) -> &str {
        self.memory_path
    }

    /// Says what is wrong with any of `loads` before the first of them takes its time.
    ///
    /// # Errors
    /// When one doesn't fit the place.
    pub(super) fn check(&self, loads: &[Load]) -> anyhow::Result<()> {
        loads.iter().try_for_each(|load| job::fit(&self.namespace, &self.place, load).map(drop))
    }

    pub(super) fn run(&self, load: &Load, progress: &Progress) -> anyhow::Result<Results> {
        Job::new(&self.device, &self.namespace, &self.place, load)?.run(&self.device, progress)
    }

    pub(super) fn close(self) -> anyhow::Result<()> {
        self.device.close().context("close")
    }
}
