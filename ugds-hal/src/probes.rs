//! Static probes: places in the program to which `bpftrace`, `perf`, SystemTap and GDB attach from outside.
//!
//! The provider is `ugds`. Every argument is a 64-bit number. The names, and what identifies a queue and a command, are
//! those of the events of `traced`:
//!
//! | probe | when | arguments |
//! |---|---|---|
//! | `staged` | a command was stored in its ring | qid, cid, opcode, nsid, first block, blocks |
//! | `rung` | the doorbell tells the device about all that is staged | qid, commands, time |
//! | `completed` | a completion was seen | qid, cid, status, ns since its doorbell, opcode, first block |
//! | `stray` | a completion of nothing that is outstanding was seen | qid, cid, status |
//! | `wedged` | a device was given up | qid, reason |
//!
//! `status` is the status field without the phase tag: SC in bits 0 to 7, SCT in bits 8 to 10, DNR in bit 14. The time is
//! that of the device's clock, in ns. Commands that name no blocks have 0 of them. The reasons of `wedged` are: 1 a
//! completion of nothing outstanding, 2 a broken protocol, 3 a time-out, each of queue `qid`; 4 the controller reports a
//! fatal error, 5 the owner stopped it by force, 6 the NVM subsystem was reset, 7 the device is gone; 0 another.
//!
//! # Which devices have them
//!
//! A probe that nobody is attached to is one instruction that does nothing, and its arguments at hand. That is more than
//! the way of a plain queue pair has to spare: a read by itself is within one instruction of the most that it may take
//! (`cargo xtask bench instr`), and has a doorbell and a pass; even a probe where a queue wedges would cost that way its
//! leaf functions. So the first four are in [`observed`](crate::observed) ports only: those of a device with a trace or
//! with latencies (of the `ugds` program: `ugds trace`, and whatever runs with `UGDS_STATS=1`). `wedged` is in every
//! device of the facade, where it gives a device up.
//!
//! # Examples
//!
//! ```console
//! # bpftrace -e 'usdt:./ugds:ugds:completed { @ns[arg0] = hist(arg3); }' -c './ugds bench emu:?size=1G'
//! # perf buildid-cache --add ./ugds; perf probe sdt_ugds:wedged; perf record -e sdt_ugds:wedged -a
//! (gdb) info probes stap ugds
//! (gdb) break -probe-stap ugds:wedged
//! ```

use crate::Instant;
use core::time::Duration;
use nvme_proto::{Cid, Qid, Status};

/// A command was stored in its ring.
#[inline]
pub fn staged(qid: Qid, cid: Cid, opcode: u8, nsid: u32, first_block: u64, blocks: u32) {
    probe::probe!(ugds, staged, qid.0, cid.0, opcode, nsid, first_block, blocks);
}

/// The doorbell tells the device about all that is staged.
#[inline]
pub fn rung(qid: Qid, commands: usize, at: Instant) {
    probe::probe!(ugds, rung, qid.0, commands, at.0);
}

/// A completion was seen.
#[inline]
pub fn completed(qid: Qid, cid: Cid, status: Status, took: Duration, opcode: u8, first_block: u64) {
    let took_ns = took.as_nanos() as u64;
    probe::probe!(ugds, completed, qid.0, cid.0, number(status), took_ns, opcode, first_block);
}

/// A completion of nothing that is outstanding was seen.
#[cold]
pub fn stray(qid: Qid, cid: Cid, status: Status) {
    probe::probe!(ugds, stray, qid.0, cid.0, number(status));
}

/// A device was given up.
#[cold]
pub fn wedged(qid: Qid, reason: u8) {
    probe::probe!(ugds, wedged, qid.0, reason);
}

/// The status field without the phase tag.
fn number(status: Status) -> u16 {
    status.to_field(false) >> 1
}
