//! Opening and closing a queue pair on a local controller.
//!
//! UNSAFETY: vouches for the commands that create queues over memory allocated here.

#![allow(unsafe_code)]

use super::ring::Rings;
use super::{Doorbell, PciePort};
use crate::{
    Admin, AdminError, Backend, Command, Completion, Direction, Dma, HalError, Layout, OpenError, PortSpec,
    Quarantine, QueueCommand,
};
use nvme_proto::admin::{CreateCq, CreateSq, DeleteCq, DeleteSq, Priority};
use nvme_proto::register::{Aqa, Property};
use nvme_proto::{BusAddr, Count16, Cqe, Qid, Sqe};

/// A ring size that no port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ring of {entries} entries is not possible; a power of two from 2 to 32768 is")]
pub struct RingSizeError {
    /// What was asked for.
    pub entries: u16,
}

/// Opens a port over freshly allocated rings.
///
/// With `admin` both queues are created by admin commands, completion queue first. Without it the port is the admin
/// queue's: the controller must be disabled, and `AQA`, `ASQ` and `ACQ` are set. `bells` are the doorbells of the
/// submission tail and of the completion head.
///
/// # Errors
///
/// [`HalError::RingSize`], the backend's, or [`HalError::Admin`]. Whatever was done is undone; rings that the device
/// may still use are in the error, in quarantine.
pub fn open_port<B: Backend + ?Sized, D: Doorbell>(
    backend: &B,
    spec: &PortSpec,
    admin: Option<&mut dyn Admin>,
    bells: [D; 2],
) -> Result<PciePort<D>, OpenError<PciePort<D>>> {
    if spec.entries < 2 || !spec.entries.is_power_of_two() {
        return Err(HalError::from(RingSizeError { entries: spec.entries }).into());
    }
    let rings = Rings {
        submission: ring(backend, spec, size_of::<Sqe>(), Direction::DeviceReads)?,
        completion: ring(backend, spec, size_of::<Cqe>(), Direction::DeviceWrites)?,
    };
    let addresses = [contiguous(&rings.submission)?, contiguous(&rings.completion)?];
    let port = PciePort::new(rings, spec.entries, spec.qid, bells, spec.shadow.clone())
        .ok_or(HalError::from(RingSizeError { entries: spec.entries }))?;
    let created = match admin {
        None => set_admin_queue(backend, spec.entries, addresses),
        Some(admin) => create(admin, spec, addresses),
    };
    match created {
        Ok(()) => Ok(port),
        Err(Failed { error, device_has_rings: false }) => {
            port.free();
            Err(error.into())
        }
        Err(Failed { error, .. }) => {
            Err(OpenError { error, left: Some(Quarantine::new(port, backend.traits().era())) })
        }
    }
}

/// Closes a port: deletes the submission queue, then the completion queue, then frees the rings.
///
/// Without `admin` it is the admin queue's, and the caller has stopped the controller.
///
/// # Errors
///
/// The port in quarantine when the device did not confirm.
pub fn close_port<B: Backend + ?Sized, D: Doorbell>(
    backend: &B,
    port: PciePort<D>,
    admin: Option<&mut dyn Admin>,
) -> Result<(), Quarantine<PciePort<D>>> {
    if let Some(admin) = admin
        && delete(admin, port.qid()).is_err()
    {
        return Err(Quarantine::new(port, backend.traits().era()));
    }
    port.free();
    Ok(())
}

struct Failed {
    error: HalError,
    device_has_rings: bool,
}

fn ring<B: Backend + ?Sized>(
    backend: &B,
    spec: &PortSpec,
    entry_bytes: usize,
    direction: Direction,
) -> Result<Dma, HalError> {
    let len_bytes = usize::from(spec.entries) * entry_bytes;
    let align_bytes = usize::try_from(spec.page.bytes()).unwrap_or(usize::MAX);
    backend.memory(Layout { len_bytes, align_bytes, direction })
}

/// Queues are created physically contiguous: every controller takes that, and those with `CAP.CQR` nothing else.
fn contiguous(memory: &Dma) -> Result<BusAddr, HalError> {
    memory.mapping().contiguous().ok_or_else(|| HalError::Map {
        address: memory.shared().as_ptr().addr().get(),
        len_bytes: memory.shared().len_bytes(),
        reason: "a queue needs one contiguous run of bus addresses".into(),
    })
}

fn set_admin_queue<B: Backend + ?Sized>(
    backend: &B,
    entries: u16,
    [submission, completion]: [BusAddr; 2],
) -> Result<(), Failed> {
    let not_possible = || Failed { error: RingSizeError { entries }.into(), device_has_rings: false };
    let aqa = Aqa::for_entries(entries.into(), entries.into()).ok_or_else(not_possible)?;
    [
        (Property::AQA, u64::from(aqa.into_bits())),
        (Property::ASQ, submission.0),
        (Property::ACQ, completion.0),
    ]
    .into_iter()
    .try_for_each(|(property, value)| backend.property_write(property, value))
    // A disabled controller does not look at its queues.
    .map_err(|error| Failed { error, device_has_rings: false })
}

fn create(
    admin: &mut dyn Admin,
    spec: &PortSpec,
    [submission, completion]: [BusAddr; 2],
) -> Result<(), Failed> {
    let entries = Count16::new(spec.entries.into()).unwrap_or(Count16::ONE);
    let interrupt_vector = match spec.completion {
        Completion::Poll => None,
        Completion::Interrupt(vector) => Some(vector),
    };
    let qid = spec.qid;
    let create_completion =
        CreateCq { qid, entries, base: completion, physically_contiguous: true, interrupt_vector };
    let create_submission = CreateSq {
        qid,
        cqid: qid,
        entries,
        base: submission,
        physically_contiguous: true,
        priority: Priority::URGENT,
    };
    // The ring is mapped for the device to write, and the port holds it until the queue is deleted.
    execute(admin, create_completion.to_sqe())
        .map_err(|error| Failed { device_has_rings: unknown(&error), error: error.into() })?;
    // Likewise, for the device to read.
    execute(admin, create_submission.to_sqe()).map_err(|error| Failed {
        device_has_rings: unknown(&error) || execute(admin, DeleteCq { qid }.to_sqe()).is_err(),
        error: error.into(),
    })
}

/// Whether the command may have taken effect all the same.
fn unknown(error: &AdminError) -> bool {
    !matches!(error, AdminError::Status { .. })
}

fn delete(admin: &mut dyn Admin, qid: Qid) -> Result<(), AdminError> {
    execute(admin, DeleteSq { qid }.to_sqe())?;
    execute(admin, DeleteCq { qid }.to_sqe())
}

/// Executes a command of this file: one whose only address, if any, is that of a ring which its port holds.
fn execute(admin: &mut dyn Admin, sqe: Sqe) -> Result<(), AdminError> {
    // SAFETY: the rings are mapped in the direction of their use for as many entries as the commands say, and the
    // port keeps them until the device has confirmed the deletion or is proved to have stopped.
    let command = unsafe { Command::new_unchecked(sqe) };
    admin.execute(&QueueCommand::new(command)).map(drop)
}
