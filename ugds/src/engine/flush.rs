//! Making written data durable.

use super::channel::Refused;
use super::core::Core;
use super::wait::wait;
use crate::Error;
use crate::error::{IoFailure, Operation};
use nvme_proto::{Lba, Nsid};
use ugds_hal::Backend;
use ugds_mem::Io;
use ugds_sched::{Class, Progress, Want};

/// Flushes a namespace. The command covers everything completed before, whatever queue it went through.
pub(crate) fn flush<B: Backend>(core: &Core<B>, nsid: Nsid) -> Result<(), Error> {
    core.begin()?;
    let (want, io) = (Want::write(0).class(Class::Control), Io::flush(nsid));
    let mut progress = Progress::new(0);
    let mut turns = 0;
    loop {
        let Ok(placement) = core.scheduler().place(&want, 0, &mut progress) else {
            core.make_room(want.class, turns)
                .inspect_err(|_| core.scheduler().leave(&want, &mut progress))?;
            turns += 1;
            continue;
        };
        let queue = placement.queue();
        // A statement of its own: the burst would keep the queue locked through the arms.
        let staged = core.channel(queue).burst().stage(&io);
        let ended = match staged {
            Ok(claim) => wait(core, queue, claim, &mut None, &want),
            Err(Refused::Full) => {
                core.scheduler().done(placement);
                core.make_room(want.class, turns)?;
                turns += 1;
                continue;
            }
            Err(refused) => Err(core.refusal(refused)),
        };
        core.scheduler().done(placement);
        let status = ended?;
        if status.is_success() {
            return Ok(());
        }
        let operation = Operation::Flush;
        return Err(Error::Io(IoFailure {
            operation,
            nsid,
            lba: Lba(0),
            len_bytes: 0,
            done_bytes: 0,
            status,
        }));
    }
}
