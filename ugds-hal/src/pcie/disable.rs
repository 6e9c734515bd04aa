//! Disabling a controller, with proof.

use crate::{Backend, HalError, Stopped, poll};
use core::time::Duration;
use nvme_proto::register::{Cc, Csts, Property};

/// Clears `CC.EN` and waits until `CSTS.RDY` reads as 0.
///
/// A controller that was just enabled and is not ready yet is let become ready first: taking `EN` back before is
/// not allowed (Base specification, `CC.EN`).
///
/// # Errors
///
/// [`HalError::Gone`] when the registers read as all ones, which proves nothing, and [`HalError::NotStopped`].
#[allow(unsafe_code)]
pub fn disable<B: Backend + ?Sized>(backend: &B, limit: Duration) -> Result<Stopped, HalError> {
    let cc = Cc::from_bits(backend.property_read(Property::CC)? as u32);
    if cc.en() {
        settle(backend, limit)?;
        backend.property_write(Property::CC, u64::from(cc.with_en(false).into_bits()))?;
    }
    wait(backend, limit, |csts| !csts.rdy())?;
    // SAFETY: RDY was read as 0 and the register not as all ones, after EN was cleared or found clear.
    Ok(unsafe { Stopped::claim(backend.traits().era()) })
}

/// Waits for a controller that is enabled to become ready or to fail; when it does neither, it is disabled anyway.
fn settle<B: Backend + ?Sized>(backend: &B, limit: Duration) -> Result<(), HalError> {
    match wait(backend, limit, |csts| csts.rdy() || csts.cfs()) {
        Ok(()) | Err(HalError::NotStopped { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

fn wait<B: Backend + ?Sized>(
    backend: &B,
    limit: Duration,
    done: impl Fn(Csts) -> bool,
) -> Result<(), HalError> {
    let look = || {
        let csts = Csts::from_bits(backend.property_read(Property::CSTS)? as u32);
        if csts.is_gone() {
            return Err(HalError::Gone { offset: Property::CSTS.offset() });
        }
        Ok(done(csts).then_some(()))
    };
    poll(backend.clock(), limit, look)?.ok_or_else(|| HalError::NotStopped {
        waited_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
    })
}
