//! Making written data durable.

use super::channel::{Claim, Refused};
use super::core::Core;
use super::wait::{look, wait};
use crate::Error;
use crate::error::{IoFailure, Operation};
use nvme_proto::{Lba, Nsid};
use ugds_hal::{Backend, Clock};
use ugds_mem::Io;

/// Flushes a namespace. The command covers everything completed before, whatever queue it went through.
pub(crate) fn flush<B: Backend>(core: &Core<B>, nsid: Nsid) -> Result<(), Error> {
    core.begin()?;
    let queue = core.place();
    let claim = submit(core, queue, &Io::flush(nsid))?;
    let status = wait(core, queue, claim, &mut None)?;
    if status.is_success() {
        return Ok(());
    }
    let operation = Operation::Flush;
    Err(Error::Io(IoFailure { operation, nsid, lba: Lba(0), len_bytes: 0, done_bytes: 0, status }))
}

fn submit<B: Backend>(core: &Core<B>, queue: usize, io: &Io<'_>) -> Result<Claim, Error> {
    let channel = core.channel(queue);
    let mut attempt = 0;
    loop {
        // A statement of its own: the burst would keep the queue locked through the arms.
        let staged = channel.burst().stage(io);
        match staged {
            Ok(claim) => return Ok(claim),
            Err(Refused::Closed) => return Err(core.closed()),
            Err(Refused::Submit(error)) => return Err(error.into()),
            Err(Refused::Full) => {
                look(core, queue)?;
                core.clock().relax(attempt);
                attempt = attempt.saturating_add(16);
            }
        }
    }
}
