//! The traits between one claimed controller and everything above it.

use crate::memory::{Direction, Dma, DomainId, Layout, Mapping};
use crate::stop::Driven;
use crate::{Claim, Clock, Enables, Era, HalError, OpenError, Port, PortSpec, Quarantine, Stop, Stopped};
use alloc::string::String;
use alloc::sync::Arc;
use core::ptr::NonNull;
use nvme_proto::register::Property;
use nvme_proto::{Sqe, Status};

/// What a backend knows about its device and the way to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Traits {
    /// The address domain: addresses of one domain mean nothing in another.
    pub domain: DomainId,
    /// The backend's name: `emu`, `vfio`, `kmod`.
    pub backend: &'static str,
    /// The way that data takes to memory, and why not a better one, for people to read.
    pub path: String,
    /// The largest bus address the device can put out, as a mask.
    pub address_mask: u64,
    /// Interrupt vectors that can be had. 0 means polling only.
    pub vectors: u16,
    /// How often the device was enabled. The backend notes it in [`Backend::property_write`].
    pub enables: Enables,
    driven: Driven,
}

impl Traits {
    /// Facts of a device on a local bus: 64-bit addresses, no interrupts.
    #[must_use]
    pub fn local(domain: DomainId, backend: &'static str, path: String) -> Self {
        Self {
            domain,
            backend,
            path,
            address_mask: u64::MAX,
            vectors: 0,
            enables: Enables::default(),
            driven: Driven::default(),
        }
    }

    /// The present stretch of the device's life.
    #[must_use]
    pub fn era(&self) -> Era {
        self.enables.era(self.domain)
    }

    /// Takes the right to drive the device. `None` while somebody else has it.
    #[must_use]
    pub fn claim(&self) -> Option<Claim> {
        self.driven.claim(self.domain, &self.enables)
    }

    /// The same with `vectors` interrupt vectors.
    #[must_use]
    pub fn with_vectors(mut self, vectors: u16) -> Self {
        self.vectors = vectors;
        self
    }

    /// The same for a device that puts out only the address bits in `mask`.
    #[must_use]
    pub fn with_address_mask(mut self, mask: u64) -> Self {
        self.address_mask = mask;
        self
    }
}

/// Memory to be mapped for a device.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Source {
    /// Memory of this process.
    Host {
        /// Its start.
        ptr: NonNull<u8>,
        /// Its length in bytes.
        len_bytes: usize,
    },
    /// Memory of another device, as a DMA-buf.
    DmaBuf {
        /// The descriptor, which stays open as long as the memory is to.
        fd: i32,
        /// Where the memory begins in it, in bytes.
        offset: u64,
        /// Its length in bytes.
        len_bytes: u64,
    },
}

/// One claimed controller.
///
/// Setup goes through this trait, may block, and may allocate. The I/O path goes through its [`Port`]s and does
/// neither.
///
/// # Implementation safety
///
/// - [`memory`](Self::memory) and [`map`](Self::map) return extents at which the device reaches exactly that memory
///   and that no other mapping of the same domain covers.
/// - A dropped [`Mapping`] makes the device unable to reach the memory before the memory is freed.
/// - [`property_write`](Self::property_write) notes the value in [`Traits::enables`] first.
///
/// Whoever holds a backend holds the device: its registers say where the queues are. Safe code above this crate keeps
/// the rules by driving the device through a controller and its queues only.
pub trait Backend: Send + Sync + 'static {
    /// Its I/O path.
    type Port: Port + 'static;
    /// Its time.
    type Clock: Clock + Clone + 'static;

    /// What is known about the device and the way to it.
    fn traits(&self) -> &Traits;

    /// Its clock.
    fn clock(&self) -> &Self::Clock;

    /// Reads a controller property: a BAR0 load, or Property Get over fabrics.
    ///
    /// # Errors
    ///
    /// [`HalError::Register`] for an access outside the registers. A removed device is no error here: it reads as
    /// all ones, and the caller decides.
    fn property_read(&self, property: Property) -> Result<u64, HalError>;

    /// Writes a controller property. 64-bit registers are written as two halves, the low one first: some
    /// controllers lose native 64-bit writes.
    ///
    /// # Errors
    ///
    /// As [`property_read`](Self::property_read).
    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError>;

    /// Allocates zeroed memory that the device reaches.
    ///
    /// # Errors
    ///
    /// [`HalError::Memory`] or [`HalError::Map`].
    fn memory(&self, need: Layout) -> Result<Dma, HalError>;

    /// Maps existing memory for the device.
    ///
    /// The bus addresses are congruent with the host's modulo the controller's page, and contiguous within one.
    ///
    /// # Errors
    ///
    /// [`HalError::Map`]; [`HalError::Unsupported`] for a kind of memory that the backend can't map.
    ///
    /// # Safety
    ///
    /// The memory stays allocated, and a descriptor of it open, until the returned mapping, and every clone of it, is gone.
    #[allow(unsafe_code)]
    unsafe fn map(&self, source: Source, direction: Direction) -> Result<Arc<Mapping>, HalError>;

    /// Opens an I/O path. Without `admin` it is the admin queue's own: the controller must be disabled.
    ///
    /// # Errors
    ///
    /// [`HalError::RingSize`], [`HalError::Memory`], or [`HalError::Admin`] with everything undone that was done. What
    /// can't be undone without a stop is in the error.
    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>>;

    /// Closes an I/O path. Its memory is freed once the device has let go of it.
    ///
    /// # Errors
    ///
    /// The port in quarantine when the device did not confirm: it may still write to the rings.
    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>>;

    /// Returns the event that interrupt `vector` signals.
    ///
    /// # Errors
    ///
    /// [`HalError::Unsupported`] from a backend that has none.
    #[cfg(feature = "std")]
    fn event(&self, vector: u16) -> Result<crate::Event, HalError> {
        let _ = vector;
        self.cannot("an interrupt")
    }

    /// Stops the device and proves it.
    ///
    /// # Errors
    ///
    /// [`HalError::Gone`] when it does not answer, which proves nothing; [`HalError::NotStopped`];
    /// [`HalError::Unsupported`] for a way that the backend does not have.
    fn stop(&self, how: Stop) -> Result<Stopped, HalError> {
        match how {
            Stop::Disable(limit) => crate::pcie::disable(self, limit),
            Stop::FunctionReset => self.cannot("a function-level reset"),
            Stop::BusMasterOff(_) => self.cannot("switching bus mastering off"),
        }
    }

    /// The answer of a backend that can't do something.
    ///
    /// # Errors
    ///
    /// Always [`HalError::Unsupported`].
    fn cannot<T>(&self, what: &'static str) -> Result<T, HalError> {
        Err(HalError::Unsupported { what, backend: self.traits().backend })
    }
}

/// Whoever can execute an admin command and wait for it.
pub trait Admin {
    /// Executes the creation or deletion of a queue, and returns its 32-bit result.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    fn execute(&mut self, command: &crate::QueueCommand) -> Result<u32, AdminError>;
}

/// Why an admin command did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The controller refused it.
    #[error("admin command {opcode:#04x} failed: {status}")]
    Status {
        /// The command's opcode.
        opcode: u8,
        /// The controller's answer.
        status: Status,
    },
    /// The controller did not answer in time; it must be stopped before its memory is reused.
    #[error("admin command {opcode:#04x} was not answered within {waited_ms} ms")]
    Timeout {
        /// The command's opcode.
        opcode: u8,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The queue can take no command any more.
    #[error("admin command {opcode:#04x} could not be sent: {reason}")]
    Unusable {
        /// The command's opcode.
        opcode: u8,
        /// What happened to the queue.
        reason: String,
    },
}

impl AdminError {
    /// The error of `sqe` that ended with `status`.
    #[must_use]
    pub fn status(sqe: &Sqe, status: Status) -> Self {
        Self::Status { opcode: sqe.opcode, status }
    }
}
