//! The backend over VFIO.
//!
//! UNSAFETY: maps callers' memory for the device, and keeps the promise by unmapping it in `drop`.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::bar::{Bar, VfioDoorbell};
use super::config::{BusMaster, ConfigSpace};
use super::container::Container;
use super::device::VfioDevice;
use super::error::VfioError;
use super::interrupts::Interrupts;
use super::options::VfioOptions;
use crate::pcie::{self, PciePort};
use crate::{
    Admin, Backend, Direction, Dma, DomainId, Event, Extent, HalError, Layout, Mapping, MonotonicClock,
    OpenError, PortSpec, Quarantine, Source, Stop, Stopped, Traits, poll,
};
use nvme_proto::BusAddr;
use nvme_proto::register::{Cap, DoorbellKind, Property};
use std::sync::Arc;

/// An NVMe controller that is bound to vfio-pci.
#[derive(Debug)]
pub struct Vfio {
    traits: Traits,
    clock: MonotonicClock,
    bar: Arc<Bar>,
    config: ConfigSpace,
    interrupts: Interrupts,
    /// For memory that the device reads, writes, or both.
    arenas: [Arena; 3],
    device: VfioDevice,
}

impl Vfio {
    /// Opens the controller with this PCI address, such as `0000:01:00.0`.
    ///
    /// # Errors
    ///
    /// [`VfioError`], which says what to do about it.
    pub fn open(address: &str, options: VfioOptions) -> Result<Self, VfioError> {
        let device = VfioDevice::open(address)?;
        let config = ConfigSpace::of(&device)?;
        let class = config.class(&device)?;
        if class != NVME_CLASS {
            return Err(VfioError::NotNvme { address: address.into(), class });
        }
        if options.reset {
            if !device.can_reset {
                return Err(VfioError::Unsupported { what: format!("a reset for {address}") });
            }
            device.reset()?;
        }
        if !config.set_bus_master(&device, BusMaster::On)? {
            return Err(VfioError::Unsupported { what: format!("bus mastering for {address}") });
        }
        let bar = Arc::new(Bar::map(&device, address, options.sigbus_handler)?);
        let interrupts = Interrupts::new(device.vectors()?);
        let by = device.container.name();
        let path = format!("direct: PCI device {address} by VFIO ({by}), DMA checked by the IOMMU");
        let arena = |direction| Arena::new(direction, options.hugepages);
        Ok(Self {
            traits: Traits::local(DomainId::fresh(), NAME, path).with_vectors(interrupts.count()),
            clock: MonotonicClock::new(),
            bar,
            config,
            interrupts,
            arenas: [Direction::DeviceReads, Direction::DeviceWrites, Direction::Both].map(arena),
            device,
        })
    }

    fn doorbells(&self, spec: &PortSpec) -> Result<[VfioDoorbell; 2], HalError> {
        let dstrd = Cap::from_bits(self.property_read(Property::CAP)?).dstrd();
        let bell = |kind| VfioDoorbell::new(&self.bar, spec.qid, kind, dstrd);
        Ok([bell(DoorbellKind::SubmissionTail)?, bell(DoorbellKind::CompletionHead)?])
    }
}

impl Backend for Vfio {
    type Port = PciePort<VfioDoorbell>;
    type Clock = MonotonicClock;

    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    fn property_read(&self, property: Property) -> Result<u64, HalError> {
        self.bar.read(property)
    }

    fn property_write(&self, property: Property, value: u64) -> Result<(), HalError> {
        self.traits.enables.note(property, value);
        self.bar.write(property, value)
    }

    fn memory(&self, need: Layout) -> Result<Dma, HalError> {
        let [reads, writes, both] = &self.arenas;
        let arena = match need.direction {
            Direction::DeviceReads => reads,
            Direction::DeviceWrites => writes,
            Direction::Both => both,
        };
        arena.take(&self.device.container, self.traits.domain, need)
    }

    unsafe fn map(&self, source: Source, direction: Direction) -> Result<Arc<Mapping>, HalError> {
        let Source::Host { ptr, len_bytes } = source else {
            return self.cannot("mapping a DMA-buf");
        };
        // The IOMMU maps whole pages: those around the memory, too. The extents name the memory alone.
        let lead = ptr.addr().get() & (PAGE - 1);
        let hull = (lead + len_bytes).next_multiple_of(PAGE) as u64;
        // SAFETY: only the address is used, and the page exists since the memory in it does.
        let start = unsafe { ptr.byte_sub(lead) };
        // SAFETY: the caller keeps the memory until the mapping is gone, and `Hull` unmaps it first.
        let iova = unsafe { self.device.container.map(start, hull, direction) }?;
        let container = Arc::clone(&self.device.container);
        let release = Box::new(Hull { container, iova, len_bytes: hull });
        let extent = Extent { addr: BusAddr(iova + lead as u64), len_bytes: len_bytes as u64 };
        // SAFETY: the device reaches the memory there until `release` is dropped.
        let mapping = unsafe { Mapping::new(Box::new([extent]), direction, self.traits.domain, release) };
        Ok(Arc::new(mapping))
    }

    fn open_port(
        &self,
        spec: &PortSpec,
        admin: Option<&mut dyn Admin>,
    ) -> Result<Self::Port, OpenError<Self::Port>> {
        pcie::open_port(self, spec, admin, self.doorbells(spec)?)
    }

    fn close_port(
        &self,
        port: Self::Port,
        admin: Option<&mut dyn Admin>,
    ) -> Result<(), Quarantine<Self::Port>> {
        pcie::close_port(self, port, admin)
    }

    fn stop(&self, how: Stop) -> Result<Stopped, HalError> {
        match how {
            Stop::Disable(limit) => return pcie::disable(self, limit),
            Stop::FunctionReset if !self.device.can_reset => return self.cannot("a function-level reset"),
            Stop::FunctionReset => {
                self.device.reset()?;
                // The reset has cleared it, and a device that is gone says all ones.
                self.config.class(&self.device).map_err(HalError::from).and_then(|class| {
                    if class == NVME_CLASS { Ok(()) } else { Err(HalError::Gone { offset: 0 }) }
                })?;
                self.config.set_bus_master(&self.device, BusMaster::On)?;
            }
            Stop::BusMasterOff(limit) => {
                if self.config.set_bus_master(&self.device, BusMaster::Off)? {
                    return Err(HalError::NotStopped { waited_ms: 0 });
                }
                let quiet = || Ok::<_, HalError>(self.config.is_quiet(&self.device)?.then_some(()));
                let waited_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                poll(&self.clock, limit, quiet)?.ok_or(HalError::NotStopped { waited_ms })?;
            }
        }
        // SAFETY: the function was reset and configuration space answers with its class; or bus mastering reads back as
        // off and no transaction is pending. Either way nothing that it was given is carried out any more.
        Ok(unsafe { Stopped::claim(self.traits.era()) })
    }

    fn event(&self, vector: u16) -> Result<Event, HalError> {
        self.interrupts
            .event(&self.device, vector)?
            .ok_or(HalError::Unsupported { what: "that interrupt vector", backend: NAME })
    }
}

impl Drop for Vfio {
    fn drop(&mut self) {
        // The kernel does the same when the device's last descriptor is closed; this is only sooner.
        if self.device.container.is_ours() {
            let _ = self.config.set_bus_master(&self.device, BusMaster::Off);
        }
    }
}

/// The pages around a caller's memory, as the IOMMU has them.
#[derive(Debug)]
struct Hull {
    container: Arc<Container>,
    iova: u64,
    len_bytes: u64,
}

impl Drop for Hull {
    fn drop(&mut self) {
        if self.container.is_ours() {
            // The memory is freed next. A device that still reached it would write into its next owner, so a process
            // that can't take it away must not go on.
            if self.container.unmap(self.iova, self.len_bytes).is_err() {
                std::process::abort();
            }
        }
    }
}

const NAME: &str = "vfio";
/// Base class 01h, sub class 08h, interface 02h.
const NVME_CLASS: u32 = 0x01_08_02;
const PAGE: usize = 4096;
