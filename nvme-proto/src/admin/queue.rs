//! Creating and deleting I/O queues: the CQ before its SQ, and the SQ before its CQ.

use super::Opcode;
use crate::sqe::{DataPointer, Sqe};
use crate::types::{BusAddr, Count16, Nsid, Qid};

/// Create I/O Completion Queue. Its memory has to be zero beforehand, or an old phase tag passes for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateCq {
    /// QID of the new queue.
    pub qid: Qid,
    /// The number of entries (QSIZE): 2 up to `Cap::max_queue_entries`.
    pub entries: Count16,
    /// Where the queue begins, or, when it is not contiguous, its PRP list.
    pub base: BusAddr,
    /// PC: the queue is physically contiguous. `CAP.CQR` demands it.
    pub physically_contiguous: bool,
    /// The interrupt vector (IEN and IV), relative to the enabled MSI-X table. `None` for a queue that is polled.
    pub interrupt_vector: Option<u16>,
}

impl CreateCq {
    /// The command, data pointer included.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let interrupt = self.interrupt_vector.map_or(0, |vector| u32::from(vector) << 16 | IEN);
        Sqe::new(Opcode::CREATE_CQ.0, Nsid::NONE)
            .with_data_pointer(DataPointer::prp(self.base, BusAddr(0)))
            .with_cdw10(size_and_id(self.entries, self.qid))
            .with_cdw11(interrupt | u32::from(self.physically_contiguous))
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let cdw11 = sqe.cdw11.get();
        Self {
            qid: Qid(sqe.cdw10.get() as u16),
            entries: Count16::from_z((sqe.cdw10.get() >> 16) as u16),
            base: sqe.prp1(),
            physically_contiguous: cdw11 & PC != 0,
            interrupt_vector: (cdw11 & IEN != 0).then_some((cdw11 >> 16) as u16),
        }
    }
}

/// Create I/O Submission Queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSq {
    /// QID of the new queue.
    pub qid: Qid,
    /// CQID: the queue that completions go to, which must exist.
    pub cqid: Qid,
    /// The number of entries (QSIZE): 2 up to `Cap::max_queue_entries`.
    pub entries: Count16,
    /// Where the queue begins, or, when it is not contiguous, its PRP list.
    pub base: BusAddr,
    /// PC: the queue is physically contiguous. `CAP.CQR` demands it.
    pub physically_contiguous: bool,
    /// QPRIO: the class under weighted round robin arbitration.
    pub priority: Priority,
}

impl CreateSq {
    /// The command, data pointer included.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let priority = u32::from(self.priority.0 & 0b11) << 1;
        Sqe::new(Opcode::CREATE_SQ.0, Nsid::NONE)
            .with_data_pointer(DataPointer::prp(self.base, BusAddr(0)))
            .with_cdw10(size_and_id(self.entries, self.qid))
            .with_cdw11(u32::from(self.cqid.0) << 16 | priority | u32::from(self.physically_contiguous))
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let cdw11 = sqe.cdw11.get();
        Self {
            qid: Qid(sqe.cdw10.get() as u16),
            cqid: Qid((cdw11 >> 16) as u16),
            entries: Count16::from_z((sqe.cdw10.get() >> 16) as u16),
            base: sqe.prp1(),
            physically_contiguous: cdw11 & PC != 0,
            priority: Priority((cdw11 >> 1) as u8 & 0b11),
        }
    }
}

open_enum! {
    /// QPRIO, the class of a submission queue under weighted round robin arbitration.
    Priority(u8) {
        URGENT = 0, "urgent";
        HIGH = 1, "high";
        MEDIUM = 2, "medium";
        LOW = 3, "low";
    }
}

/// Delete I/O Submission Queue. Its memory is the controller's until this has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteSq {
    /// QID.
    pub qid: Qid,
}

impl DeleteSq {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::DELETE_SQ.0, Nsid::NONE).with_cdw10(self.qid.0.into())
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self { qid: Qid(sqe.cdw10.get() as u16) }
    }
}

/// Delete I/O Completion Queue, once all its submission queues are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteCq {
    /// QID.
    pub qid: Qid,
}

impl DeleteCq {
    /// The command.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        Sqe::new(Opcode::DELETE_CQ.0, Nsid::NONE).with_cdw10(self.qid.0.into())
    }

    /// The fields of `sqe`.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        Self { qid: Qid(sqe.cdw10.get() as u16) }
    }
}

fn size_and_id(entries: Count16, qid: Qid) -> u32 {
    u32::from(entries.z()) << 16 | u32::from(qid.0)
}

const PC: u32 = 1 << 0;
const IEN: u32 = 1 << 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_commands_by_the_figures() {
        let cq = CreateCq {
            qid: Qid(3),
            entries: Count16::new(256).unwrap(),
            base: BusAddr(0x8000),
            physically_contiguous: true,
            interrupt_vector: Some(7),
        };
        let sqe = cq.to_sqe();
        assert_eq!((sqe.opcode, sqe.cdw10.get(), sqe.cdw11.get()), (5, 0x00ff_0003, 0x0007_0003));
        assert_eq!((sqe.prp1(), sqe.prp2()), (BusAddr(0x8000), BusAddr(0)));
        assert_eq!(CreateCq { interrupt_vector: None, ..cq }.to_sqe().cdw11.get(), 1);

        let sq = CreateSq {
            qid: Qid(4),
            cqid: Qid(3),
            entries: Count16::MAX,
            base: BusAddr(0x9000),
            physically_contiguous: true,
            priority: Priority::MEDIUM,
        };
        let sqe = sq.to_sqe();
        assert_eq!((sqe.opcode, sqe.cdw10.get(), sqe.cdw11.get()), (1, 0xffff_0004, 0x0003_0005));
        assert_eq!(DeleteSq { qid: Qid(4) }.to_sqe().cdw10.get(), 4);
        assert_eq!(DeleteCq { qid: Qid(3) }.to_sqe().opcode, 4);
    }
}
