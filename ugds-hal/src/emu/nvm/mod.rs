//! The NVM command set.

mod blocks;
mod copy;
mod host;
mod read_write;

pub(super) use host::HostBuffer;

use super::model::Core;
use super::namespace::{FaultOn, NamespaceState};
use super::stats;
use nvme_proto::nvm::{self, Opcode, ReadWrite};
use nvme_proto::sgl::Piece;
use nvme_proto::status::{generic, media};
use nvme_proto::{Nsid, PageSize, Psdt, Sqe, Status};

/// Memory that a lane uses again for each command.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    data: Vec<u8>,
    other: Vec<u8>,
    pieces: Vec<Piece>,
}

/// What a command is executed with.
pub(super) struct Context<'a> {
    core: &'a Core,
    page: PageSize,
    sqe: &'a Sqe,
}

/// Executes an I/O command.
pub(super) fn execute(core: &Core, scratch: &mut Scratch, page: PageSize, sqe: &Sqe) -> Result<u64, Status> {
    if !SUPPORTED.contains(&Opcode(sqe.opcode)) {
        return Err(generic::INVALID_OPCODE);
    }
    check_flags(core, sqe)?;
    if core.subsystem.is_sanitizing(|| core.now()) {
        return Err(generic::SANITIZE_IN_PROGRESS);
    }
    let context = Context { core, page, sqe };
    match Opcode(sqe.opcode) {
        Opcode::READ => context.read(scratch),
        Opcode::WRITE => context.write(scratch),
        Opcode::COMPARE => context.compare(scratch),
        Opcode::VERIFY => context.verify(scratch),
        Opcode::WRITE_ZEROES => context.write_zeroes(),
        Opcode::WRITE_UNCORRECTABLE => context.write_uncorrectable(),
        Opcode::DATASET_MANAGEMENT => context.dataset_management(scratch),
        Opcode::COPY => context.copy(scratch),
        _ => flush(core, sqe.nsid()),
    }?;
    Ok(0)
}

/// The bytes that a command moves between the host and the medium.
pub(super) fn data_bytes(core: &Core, sqe: &Sqe) -> u64 {
    match Opcode(sqe.opcode) {
        Opcode::READ | Opcode::WRITE | Opcode::COMPARE => {
            let blocks = u64::from(ReadWrite::from_sqe(sqe).blocks.get());
            let block = core.namespaces.get(sqe.nsid()).map_or(0, |found| found.read().format().data_bytes());
            blocks * block
        }
        _ => 0,
    }
}

fn check_flags(core: &Core, sqe: &Sqe) -> Result<(), Status> {
    let understood = match sqe.psdt() {
        Some(Psdt::Prp) => true,
        Some(Psdt::SglBufferMetadata) => core.config.sgl,
        // An SGL for metadata, and the reserved value.
        _ => false,
    };
    if sqe.fuse() != 0 || !understood { Err(generic::INVALID_FIELD) } else { Ok(()) }
}

fn flush(core: &Core, nsid: Nsid) -> Result<(), Status> {
    let all = nsid == Nsid::ALL && core.config.vwc;
    if !all && !core.namespaces.get(nsid).is_some_and(|namespace| namespace.read().attached) {
        return Err(generic::INVALID_NAMESPACE_OR_FORMAT);
    }
    // The cache is one for all namespaces, so that more than was asked for may become durable.
    core.namespaces.store().flush().map_err(super::store::MediumError::status)
}

impl Context<'_> {
    /// Checks what all commands on a range have in common. `data` tells whether the blocks pass through the host's
    /// memory, and so count against `MDTS`.
    fn check(&self, state: &NamespaceState, command: &ReadWrite, data: Moves) -> Result<(), Status> {
        if command.flags.dtype() != 0 {
            return Err(generic::INVALID_FIELD);
        }
        let blocks = u64::from(command.blocks.get());
        if data == Moves::Data {
            let block = state.format().data_bytes() + state.interleaved_bytes();
            if self.core.max_transfer_bytes().is_some_and(|limit| blocks * block > limit) {
                return Err(generic::INVALID_FIELD);
            }
        }
        if state.contains(command.slba.0, blocks) { Ok(()) } else { Err(generic::LBA_OUT_OF_RANGE) }
    }

    fn check_writable(&self, state: &NamespaceState) -> Result<(), Status> {
        if state.write_protected { Err(generic::NAMESPACE_WRITE_PROTECTED) } else { Ok(()) }
    }

    fn check_media(
        &self,
        state: &NamespaceState,
        on: FaultOn,
        first: u64,
        blocks: u64,
    ) -> Result<(), Status> {
        if !state.fails(on, first, blocks) {
            return Ok(());
        }
        stats::add(&self.core.subsystem.usage.media_errors, 1);
        Err(match on {
            FaultOn::Reads => media::UNRECOVERED_READ_ERROR,
            FaultOn::Writes => media::WRITE_FAULT,
        })
    }
}

/// Whether a command moves the blocks' data through the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    Data,
    Nothing,
}

impl Core {
    /// `MDTS` in bytes: in units of the smallest page, whatever `CC.MPS` says.
    pub(super) fn max_transfer_bytes(&self) -> Option<u64> {
        (self.config.mdts != 0).then(|| 4096 << (self.config.mpsmin + self.config.mdts))
    }
}

/// The commands that there are.
pub(super) const SUPPORTED: [Opcode; 9] = [
    nvm::Opcode::FLUSH,
    nvm::Opcode::WRITE,
    nvm::Opcode::READ,
    nvm::Opcode::WRITE_UNCORRECTABLE,
    nvm::Opcode::COMPARE,
    nvm::Opcode::WRITE_ZEROES,
    nvm::Opcode::DATASET_MANAGEMENT,
    nvm::Opcode::VERIFY,
    nvm::Opcode::COPY,
];

/// `MSSRL`, `MCL` and `MSRC` of Identify Namespace: the limits of Copy, in blocks and (0's based) ranges.
pub(super) const MSSRL: u16 = 256;
pub(super) const MCL: u32 = 1024;
pub(super) const MSRC_Z: u8 = 15;

/// How much is moved at once.
const CHUNK_BYTES: u64 = 128 << 10;
