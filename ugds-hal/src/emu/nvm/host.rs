//! The host's buffer of a command, as the pieces that its data pointer describes.

use crate::emu::dma::{DmaMap, Purpose};
use crate::emu::model::Core;
use nvme_proto::sgl::{self, Direction, Excess, Piece, Rules};
use nvme_proto::status::generic;
use nvme_proto::{PageSize, Psdt, Sqe, Status, prp};

/// A position in the host's buffer. Each piece is looked up in the DMA map when it is used.
pub(in crate::emu) struct HostBuffer<'a> {
    dma: &'a DmaMap,
    purpose: Purpose,
    pieces: &'a [Piece],
    /// What of the first piece was used.
    used: u64,
}

impl<'a> HostBuffer<'a> {
    /// Reads the data pointer of `sqe` for a transfer of `len` bytes into `pieces`. No data moves if it is wrong.
    pub(in crate::emu) fn new(
        core: &'a Core,
        page: PageSize,
        sqe: &Sqe,
        len: u64,
        direction: Direction,
        pieces: &'a mut Vec<Piece>,
    ) -> Result<Self, Status> {
        pieces.clear();
        let read = |addr, to: &mut [u8]| core.dma.read(addr, to, Purpose::List);
        if sqe.psdt() == Some(Psdt::Prp) {
            for piece in prp::walk(page, sqe.prp1(), sqe.prp2(), len, read) {
                let (addr, len_bytes) = piece.map_err(|error| error.status())?;
                pieces.push(Piece::Data { addr, len_bytes });
            }
        } else {
            for piece in sgl::walk(sqe.sgl1(), len, direction, SGL_RULES, read) {
                pieces.push(piece.map_err(|error| error.status())?);
            }
        }
        Ok(Self { dma: &core.dma, purpose: Purpose::Data, pieces, used: 0 })
    }

    /// One contiguous buffer: MPTR, for metadata that lies apart.
    pub(super) fn metadata(core: &'a Core, piece: &'a Piece) -> Self {
        Self { dma: &core.dma, purpose: Purpose::Metadata, pieces: core::slice::from_ref(piece), used: 0 }
    }

    /// Writes the next bytes of the buffer.
    pub(in crate::emu) fn put(&mut self, mut from: &[u8]) -> Result<(), Status> {
        while !from.is_empty() {
            let (piece, len) = self.take(from.len())?;
            let (now, rest) = from.split_at(len);
            if let Piece::Data { addr, .. } = piece {
                self.dma.write(addr, now, self.purpose).map_err(|_| generic::DATA_TRANSFER_ERROR)?;
            }
            from = rest;
        }
        Ok(())
    }

    /// Reads the next bytes of the buffer.
    pub(in crate::emu) fn get(&mut self, mut to: &mut [u8]) -> Result<(), Status> {
        while !to.is_empty() {
            let (piece, len) = self.take(to.len())?;
            let (now, rest) = to.split_at_mut(len);
            if let Piece::Data { addr, .. } = piece {
                self.dma.read(addr, now, self.purpose).map_err(|_| generic::DATA_TRANSFER_ERROR)?;
            }
            to = rest;
        }
        Ok(())
    }

    /// Uses up to `len` bytes of the current piece.
    fn take(&mut self, len: usize) -> Result<(Piece, usize), Status> {
        let Some((&piece, rest)) = self.pieces.split_first() else { return Err(generic::INTERNAL_ERROR) };
        let left = piece.len_bytes() - self.used;
        let len = left.min(len as u64);
        let here = match piece {
            Piece::Data { addr, .. } => {
                let addr = addr.checked_add(self.used).ok_or(generic::DATA_TRANSFER_ERROR)?;
                Piece::Data { addr, len_bytes: len }
            }
            Piece::Discard { .. } => Piece::Discard { len_bytes: len },
        };
        if len == left {
            self.pieces = rest;
            self.used = 0;
        } else {
            self.used += len;
        }
        Ok((here, len as usize))
    }
}

/// As `SGLS` of Identify Controller says: any alignment, bit buckets, nothing longer than the transfer.
const SGL_RULES: Rules =
    Rules { excess: Excess::Refused, bit_bucket: true, align_bytes: 1, max_descriptors: 1 << 16 };
