//! Blocks in memory that is allocated when it is first written.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Chunks by number, spread over locks so that workers seldom meet.
#[derive(Debug)]
pub(in crate::emu) struct MemoryMedium {
    shards: Box<[RwLock<Chunks>]>,
}

type Chunks = HashMap<u64, Box<[u8]>>;

impl Default for MemoryMedium {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }
}

impl MemoryMedium {
    pub(in crate::emu) fn read(&self, offset: u64, to: &mut [u8]) {
        let mut done = 0;
        for (chunk, start, len) in pieces(offset, to.len() as u64) {
            let out = &mut to[done..done + len];
            match self.shard(chunk).get(&chunk) {
                Some(bytes) => out.copy_from_slice(&bytes[start..start + len]),
                None => out.fill(0),
            }
            done += len;
        }
    }

    pub(in crate::emu) fn write(&self, offset: u64, from: &[u8]) {
        let mut done = 0;
        for (chunk, start, len) in pieces(offset, from.len() as u64) {
            let mut shard = self.shard_mut(chunk);
            let bytes = shard.entry(chunk).or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
            bytes[start..start + len].copy_from_slice(&from[done..done + len]);
            done += len;
        }
    }

    pub(in crate::emu) fn zero(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        if len / CHUNK_BYTES > MANY_CHUNKS {
            // A large range over sparse memory: look at what there is instead of what there could be.
            let whole = offset.div_ceil(CHUNK_BYTES)..end / CHUNK_BYTES;
            for shard in &self.shards {
                let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
                shard.retain(|chunk, _| !whole.contains(chunk));
            }
            self.zero_pieces(offset, whole.start * CHUNK_BYTES - offset);
            self.zero_pieces(whole.end * CHUNK_BYTES, end - whole.end * CHUNK_BYTES);
        } else {
            self.zero_pieces(offset, len);
        }
    }

    fn zero_pieces(&self, offset: u64, len: u64) {
        for (chunk, start, len) in pieces(offset, len) {
            let mut shard = self.shard_mut(chunk);
            if len as u64 == CHUNK_BYTES {
                shard.remove(&chunk);
            } else if let Some(bytes) = shard.get_mut(&chunk) {
                bytes[start..start + len].fill(0);
            }
        }
    }

    fn shard(&self, chunk: u64) -> RwLockReadGuard<'_, Chunks> {
        self.shards[(chunk % SHARDS) as usize].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard_mut(&self, chunk: u64) -> RwLockWriteGuard<'_, Chunks> {
        self.shards[(chunk % SHARDS) as usize].write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The chunks that a range touches: each with the start and the length of its part.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    let mut at = offset;
    core::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = at % CHUNK_BYTES;
        let part = (CHUNK_BYTES - start).min(end - at);
        let piece = (at / CHUNK_BYTES, start as usize, part as usize);
        at += part;
        Some(piece)
    })
}

const SHARDS: u64 = 64;
const CHUNK_BYTES: u64 = 64 << 10;
/// From how many chunks on a range is called large.
const MANY_CHUNKS: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_chunks_are_written_read_and_zeroed() {
        let medium = MemoryMedium::default();
        let data: Vec<u8> = (0..200_000_u32).map(|i| (i % 253) as u8 | 1).collect();
        medium.write(1000, &data);
        let mut back = vec![9; 200_200];
        medium.read(900, &mut back);
        assert!(back[..100].iter().chain(&back[200_100..]).all(|&b| b == 0));
        assert_eq!(back[100..200_100], data);
        medium.zero(2000, 150_000);
        medium.read(1000, &mut back[..200_000]);
        assert_eq!(back[..1000], data[..1000]);
        assert!(back[1000..151_000].iter().all(|&b| b == 0));
        assert_eq!(back[151_000..200_000], data[151_000..]);
    }

    #[test]
    fn a_huge_range_is_zeroed_up_to_its_very_ends() {
        let medium = MemoryMedium::default();
        let far = 1 << 50;
        for at in [0, far - 512, far] {
            medium.write(at, &[7; 512]);
        }
        medium.zero(256, far - 512);
        for (at, expected) in [(0, 7), (256, 0), (far - 512, 0), (far - 256, 7), (far, 7)] {
            let mut byte = [1];
            medium.read(at, &mut byte);
            assert_eq!(byte[0], expected, "{at}");
        }
    }
}
