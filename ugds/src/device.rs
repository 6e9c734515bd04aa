//! An opened device.

use crate::asynchronous::{AsyncQueue, Shared};
use crate::batch::Batch;
use crate::drain::Drain;
use crate::engine::{Core, Engine, Found};
use crate::error::Error;
use crate::namespace::Namespace;
use crate::options::Options;
use crate::published::{self, Publisher, Source};
use crate::region::Region;
use crate::stats::{Statistics, Stats};
use crate::uri::{Target, Uri};
use nvme_proto::{Nsid, identify};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use ugds_hal::Backend;
use ugds_hal::Instant;
use ugds_hal::emu::Emu;
use ugds_hal::faulty::Faulty;
use ugds_hal::metered::Meters;
use ugds_hal::observed::Observed;
use ugds_hal::vfio::{Vfio, VfioOptions};
use ugds_mem::Memory;
use ugds_queue::Wedge;
use ugds_queue::controller::{ControllerEvent, Refused};

/// An NVMe controller that this process drives. Clones are the same device.
///
/// The controller is shut down in order when the device, and every namespace and region of it, is dropped.
///
/// # Examples
///
/// ```
/// use ugds::{Device, nvme::Lba};
///
/// let device = Device::open("emu:?size=16M&lba=4096")?;
/// let namespace = device.namespace()?;
/// let region = device.alloc(8192)?;
/// region.copy_in(0, b"over the bus and back")?;
/// namespace.write(&region, 0..4096, Lba(7))?;
/// namespace.read(&region, 4096..8192, Lba(7))?;
///
/// let mut back = [0; 21];
/// region.copy_out(4096, &mut back)?;
/// assert_eq!(&back, b"over the bus and back");
/// # Ok::<(), ugds::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
    namespaces: Arc<[Namespace]>,
    chosen: Option<Nsid>,
}

/// The device itself, which everything made from it keeps open.
pub(crate) struct Inner {
    engine: Box<dyn Engine>,
    stats: Arc<Source>,
    /// Nothing when nobody else reads the statistics, and after the device was closed. Lock order: no other is taken under
    /// it.
    publisher: Mutex<Option<Publisher>>,
    info: DeviceInfo,
    identify: Box<identify::Controller>,
    refused: Vec<Refused>,
}

/// What a device is and how it is driven.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The way that data takes, and why not a better one.
    pub path: String,
    /// Where its statistics are published, or why they are not.
    pub statistics: String,
    /// The version of the NVMe specification that the controller reports.
    pub version: String,
    /// The controller's page in bytes.
    pub page_bytes: u64,
    /// The most bytes of one command.
    pub max_transfer_bytes: u32,
    /// How many queues interrupt, and why not more if more were wanted.
    pub interrupts: String,
    /// Open I/O queues.
    pub queues: u16,
    /// Entries of each.
    pub queue_entries: u16,
    /// Whether contiguous memory is told by SGL descriptors.
    pub sgl: bool,
    /// Whether shadow doorbells are in use.
    pub shadow_doorbells: bool,
    /// Whether the controller has a volatile write cache.
    pub volatile_write_cache: bool,
}

impl Device {
    /// Opens the device that `uri` names.
    ///
    /// # Errors
    ///
    /// [`Error::Uri`] for a wrong name, else what went wrong on the way. A controller that can't be brought up is
    /// left stopped.
    pub fn open(uri: &str) -> Result<Self, Error> {
        let mut options = Options::default();
        if let Target::Emu(emu) = Uri::parse(uri)?.target() {
            // All that it was made with.
            options.queues = emu.queues();
        }
        Self::open_with(uri, options)
    }

    /// The same, driven as `options` say.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(uri: &str, options: Options) -> Result<Self, Error> {
        let uri = Uri::parse(uri)?;
        match uri.target() {
            Target::Emu(emu) => Self::with_emu(Emu::new(emu.to_config()?)?, options, uri.nsid()),
            Target::Vfio(address) => {
                let vfio = Vfio::open(&address.to_string(), VfioOptions::default())?;
                Self::with_vfio(vfio, options, uri.nsid())
            }
            Target::Kmod(_) => Err(Error::Backend { scheme: "ugds" }),
        }
    }

    /// Opens an emulated controller that the caller made, to keep a hold on what the controller sees.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_emu(emu: Emu, options: Options, chosen: Option<Nsid>) -> Result<Self, Error> {
        Self::with_backend(emu, options, chosen)
    }

    /// Opens a device through any backend: one of this build, or one of the caller's own.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_backend<B: Backend>(
        backend: B,
        options: Options,
        chosen: Option<Nsid>,
    ) -> Result<Self, Error> {
        let (options, wish) = published::Wish::of(options);
        let meters = (options.statistics == Statistics::Latencies).then(Meters::new);
        if meters.is_none() && options.trace.is_none() {
            let (core, found) = Core::open(Arc::new(backend), &options)?;
            return Self::assemble(Box::new(core), found, chosen, None, wish);
        }
        // A device of its own kind, so that the others pay nothing.
        let observer = (options.trace.clone(), meters.clone());
        let (core, found) = Core::open(Arc::new(Observed::with(backend, observer)), &options)?;
        Self::assemble(Box::new(core), found, chosen, meters, wish)
    }

    /// Opens an emulated controller that misbehaves by plan. A clone of `faulty` tells how often it did.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use ugds::emu::{Emu, EmuConfig};
    /// use ugds::faulty::Faulty;
    /// use ugds::{Device, Error, Options, nvme::Lba};
    ///
    /// let plan = "media:on=read,lba=100+8".parse()?;
    /// let faulty = Faulty::over_model(Emu::new(EmuConfig::default())?, plan)?;
    /// let device = Device::with_faulty(faulty, Options::default(), None)?;
    /// let region = device.alloc(512)?;
    /// let failed = device.namespace()?.read(&region, 0..512, Lba(107));
    /// assert!(matches!(failed, Err(Error::Io(failure)) if failure.status.sct() == 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_faulty(faulty: Faulty<Emu>, options: Options, chosen: Option<Nsid>) -> Result<Self, Error> {
        Self::with_backend(faulty, options, chosen)
    }

    /// Opens a PCI device that the caller claimed by VFIO.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_vfio(vfio: Vfio, options: Options, chosen: Option<Nsid>) -> Result<Self, Error> {
        Self::with_backend(vfio, options, chosen)
    }

    fn assemble(
        engine: Box<dyn Engine>,
        found: Found,
        chosen: Option<Nsid>,
        meters: Option<Meters>,
        wish: published::Wish,
    ) -> Result<Self, Error> {
        let count = engine.stats();
        let stats: Arc<Source> = Arc::new(move || {
            let mut stats = count();
            // Without queues there is nothing to measure, and in a child of the process nothing to wait for.
            if let Some(meters) = meters.as_ref().filter(|_| !stats.queues.is_empty()) {
                stats.measure(&meters.read());
            }
            stats
        });
        let (publisher, statistics) = wish.carry_out(&stats, &found.path);
        let info = DeviceInfo {
            path: found.path,
            interrupts: found.interrupts,
            statistics,
            version: found.facts.version.to_string(),
            page_bytes: found.facts.page.bytes(),
            max_transfer_bytes: found.facts.max_transfer_bytes,
            queues: found.facts.queues,
            queue_entries: found.facts.queue_entries,
            sgl: found.facts.sgl,
            shadow_doorbells: found.facts.shadow_doorbells,
            volatile_write_cache: found.facts.volatile_write_cache,
        };
        let inner = Arc::new(Inner {
            engine,
            stats,
            publisher: Mutex::new(publisher),
            info,
            identify: found.identify,
            refused: found.refused,
        });
        let namespaces = found
            .namespaces
            .into_iter()
            .zip(0..)
            .map(|(described, ordinal)| Namespace::new(Arc::clone(&inner), ordinal, described))
            .collect::<Result<_, _>>()?;
        let device = Self { inner, namespaces, chosen };
        if chosen.is_some() {
            device.namespace()?;
        }
        Ok(device)
    }

    /// The namespaces that can be used, in order of their identifiers.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The active namespaces that can't be used, and why.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.inner.refused
    }

    /// The namespace that the URI chose by `ns=`, else the first.
    ///
    /// # Errors
    ///
    /// [`Error::NoNamespace`], which names those there are.
    pub fn namespace(&self) -> Result<&Namespace, Error> {
        let found = match self.chosen {
            Some(nsid) => self.namespaces.iter().find(|namespace| namespace.nsid() == nsid),
            None => self.namespaces.first(),
        };
        found.ok_or_else(|| Error::NoNamespace {
            wanted: self.chosen.map_or_else(|| "at all".into(), |nsid| nsid.to_string()),
            usable: self.usable(),
        })
    }

    fn usable(&self) -> String {
        let usable = self.namespaces.iter().map(|namespace| namespace.nsid().to_string());
        let refused =
            self.inner.refused.iter().map(|refused| format!("not {}: {}", refused.nsid, refused.reason));
        let all: Vec<String> = usable.chain(refused).collect();
        if all.is_empty() { "none".into() } else { all.join(", ") }
    }

    /// The controller's Identify data.
    #[must_use]
    pub fn identify(&self) -> &identify::Controller {
        &self.inner.identify
    }

    /// What the device is and how it is driven.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Allocates zeroed host memory that the device reaches.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`].
    pub fn alloc(&self, len_bytes: usize) -> Result<Region, Error> {
        self.attach(&ugds_mem::host::allocate(len_bytes)?)
    }

    /// Registers memory of the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`]: it must start at a multiple of four bytes, and its pages must suit the controller's.
    ///
    /// # Safety
    ///
    /// - The `len_bytes` bytes at `ptr` stay allocated until [`Region::release`] returned `Ok` for the last region of
    ///   them: the returned one, and each that [`share`](Self::share) made of it for another device. Dropping a
    ///   region is not enough, since a command may be outstanding.
    /// - Until then a device may write there at any time that a read into a region is under way, so nothing holds a
    ///   reference to those bytes meanwhile.
    #[allow(unsafe_code)]
    pub unsafe fn register(&self, ptr: NonNull<u8>, len_bytes: usize) -> Result<Region, Error> {
        // SAFETY: the caller's promise is the same.
        let memory = unsafe { Memory::foreign(ptr, len_bytes) };
        self.attach(&ugds_mem::Region::new(memory)?)
    }

    /// Makes a region of another device usable with this one, too. It is a region of its own, over the same memory.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`].
    pub fn share(&self, region: &Region) -> Result<Region, Error> {
        if region.is_of(&self.inner) { Ok(region.clone()) } else { self.attach(region.memory()) }
    }

    pub(crate) fn attach(&self, region: &ugds_mem::Region) -> Result<Region, Error> {
        let mapped = self.inner.engine.attach(region)?;
        Ok(Region::new(region.clone(), mapped, Arc::clone(&self.inner)))
    }

    /// Makes a batch of up to `depth` entries. A device may have many.
    ///
    /// # Errors
    ///
    /// [`Error::BatchDepth`] for a depth of 0 or of more than [`Batch::DEPTH_MAX`]; [`Error::Closed`] or
    /// [`Error::Wedged`].
    pub fn batch(&self, depth: usize) -> Result<Batch, Error> {
        if !(1..=Batch::DEPTH_MAX).contains(&depth) {
            return Err(Error::BatchDepth { depth, most: Batch::DEPTH_MAX });
        }
        let work = self.inner.engine.open_batch(depth, Arc::clone(&self.namespaces))?;
        Ok(Batch::new(Arc::clone(&self.inner), work))
    }

    /// Makes a queue for futures, of which up to `depth` are under way at once. A device may have many.
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch), or [`Error::Descriptor`] when the process has no descriptor left.
    pub fn async_queue(&self, depth: usize) -> Result<AsyncQueue, Error> {
        let shared = Shared::new(self.batch(depth)?, Arc::clone(&self.inner)).map_err(Error::Descriptor)?;
        Ok(AsyncQueue::new(shared))
    }

    /// The counters of all queues.
    #[must_use]
    pub fn stats(&self) -> Stats {
        (self.inner.stats)()
    }

    /// The present by the device's clock, which traces are written by. Under virtual time it does not move by itself.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.inner.engine.now()
    }

    /// Takes what the controller told since the last time without being asked: errors, its health, namespaces that
    /// changed.
    ///
    /// # Errors
    ///
    /// [`Error::Controller`], [`Error::Wedged`] or [`Error::Closed`].
    pub fn events(&self) -> Result<Vec<ControllerEvent>, Error> {
        self.inner.engine.events()
    }

    /// Why the device can't be used any more, if so.
    #[must_use]
    pub fn wedged(&self) -> Option<Wedge> {
        self.inner.engine.wedged()
    }

    /// What there was to say when the device was given up, for people to read: the reason, its registers, what was in
    /// flight, and the last events.
    #[must_use]
    pub fn report(&self) -> Option<String> {
        self.inner.engine.report()
    }

    /// Shuts the controller down in order. Everything made from the device answers [`Error::Closed`] afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Outstanding`] while requests are under way, and nothing changed. [`Error::Controller`] when the
    /// controller did not stop: what it may still write to stays reserved.
    pub fn close(self) -> Result<(), Error> {
        self.close_with(Drain::Check)
    }

    /// The same, waiting for what is outstanding, or ending it, as `drain` says.
    ///
    /// # Errors
    ///
    /// As [`close`](Self::close).
    pub fn close_with(self, drain: Drain) -> Result<(), Error> {
        self.inner.engine.close(drain)?;
        self.inner.unpublish();
        Ok(())
    }
}

impl Inner {
    #[inline]
    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Ends the thread that others read the statistics from.
    fn unpublish(&self) {
        // Whoever has the lock is doing just that, or did when this process was forked.
        let publisher = self.publisher.try_lock().ok().and_then(|mut publisher| publisher.take());
        // Behind the statement: the thread ends without the lock.
        drop(publisher);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.unpublish();
        // There is nobody to tell. What the controller may still write to has been leaked by then.
        let _ = self.engine.close(Drain::Check);
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("info", &self.inner.info).finish_non_exhaustive()
    }
}
