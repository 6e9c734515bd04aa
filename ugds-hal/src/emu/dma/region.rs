//! One mapping: a window of bus addresses, and the memory behind it.

use crate::emu::rng::SplitMix;
use crate::{Direction, Extent, SharedMemory};
use nvme_proto::BusAddr;

#[derive(Debug)]
pub(super) struct Region {
    pub(super) memory: SharedMemory,
    pub(super) direction: Direction,
    layout: Layout,
}

#[derive(Debug)]
enum Layout {
    Whole,
    /// The window has slots, each of a piece and an equal gap.
    Pieces {
        piece: usize,
        /// The distance of the memory's start from the start of its first piece.
        head: usize,
        /// Which piece lies in a slot.
        of_slot: Box<[u32]>,
    },
}

impl Region {
    pub(super) fn whole(memory: SharedMemory, direction: Direction) -> Self {
        Self { memory, direction, layout: Layout::Whole }
    }

    /// A region of pieces of `piece` bytes, a power of two, in an order drawn from `seed`.
    pub(super) fn pieces(memory: SharedMemory, direction: Direction, piece: u64, seed: u64) -> Option<Self> {
        let piece = usize::try_from(piece).ok()?;
        let head = memory.as_ptr().addr().get() & (piece - 1);
        let count = u32::try_from((head + memory.len_bytes()).div_ceil(piece)).ok()?;
        let mut of_slot: Box<[u32]> = (0..count).collect();
        SplitMix::new(seed).shuffle(&mut of_slot);
        Some(Self { memory, direction, layout: Layout::Pieces { piece, head, of_slot } })
    }

    /// The bus addresses that the region takes.
    pub(super) fn window_bytes(&self) -> u64 {
        match &self.layout {
            Layout::Whole => self.memory.len_bytes() as u64,
            Layout::Pieces { piece, of_slot, .. } => (of_slot.len() * piece * 2) as u64,
        }
    }

    /// Where `len` bytes at `offset` in the window lie in the memory.
    pub(super) fn locate(&self, offset: u64, len: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let start = match &self.layout {
            Layout::Whole => offset,
            Layout::Pieces { piece, head, of_slot } => {
                let within = offset & (2 * piece - 1);
                if within.checked_add(len)? > *piece {
                    return None;
                }
                let index = *of_slot.get(offset / (2 * piece))? as usize;
                (index * piece + within).checked_sub(*head)?
            }
        };
        (start.checked_add(len)? <= self.memory.len_bytes()).then_some(start)
    }

    /// The bus addresses in the order of the memory, for a window at `base`.
    pub(super) fn extents(&self, base: u64) -> Box<[Extent]> {
        let total = self.memory.len_bytes();
        match &self.layout {
            Layout::Whole => Box::new([Extent { addr: BusAddr(base), len_bytes: total as u64 }]),
            Layout::Pieces { piece, head, of_slot } => {
                let none = Extent { addr: BusAddr(0), len_bytes: 0 };
                let mut extents = vec![none; of_slot.len()].into_boxed_slice();
                for (slot, &index) in of_slot.iter().enumerate() {
                    let index = index as usize;
                    let skip = if index == 0 { *head } else { 0 };
                    let end = ((index + 1) * piece - head).min(total);
                    let start = index * piece + skip - head;
                    let addr = BusAddr(base + (slot * piece * 2 + skip) as u64);
                    extents[index] = Extent { addr, len_bytes: (end - start) as u64 };
                }
                extents
            }
        }
    }
}
