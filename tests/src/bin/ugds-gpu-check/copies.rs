//! Copies of the staged way, at every alignment and size class, compared byte for byte with the driver's own.

use crate::Bench;
use crate::driver::{Allocation, Buffer};
use crate::report::{Facts, Report};
use anyhow::ensure;
use std::sync::Arc;
use ugds_mem::gpu::{How, Piece, Registration, Staging, StagingOptions};

pub(crate) fn check(bench: &Bench, report: &mut Report) {
    for how in [
        Allocation::Plain,
        Allocation::Managed,
        Allocation::Pool,
        Allocation::Virtual { rdma: false },
        Allocation::Virtual { rdma: true },
    ] {
        report.check(&format!("copies with {how:?}"), |facts| every_alignment(bench, how, facts));
    }
    report.check("copies of a whole ring, many times", |facts| whole_ring(bench, facts));
    report.check("many small pieces in one copy", |_| small_pieces(bench));
    report.check("copies without a current context", |_| {
        let (buffer, registration) = memory(bench, Allocation::Plain, 1 << 20)?;
        bench.driver.leave()?;
        let copied = registration.copy_in(5, b"from a thread without a context");
        bench.driver.enter()?;
        copied?;
        ensure!(buffer.get(5, 31)? == b"from a thread without a context", "other bytes arrived");
        Ok(())
    });
    report.check("out of memory, and life after it", |facts| out_of_memory(bench, facts));
}

fn memory(bench: &Bench, how: Allocation, len: usize) -> anyhow::Result<(Buffer, Arc<Registration>)> {
    let buffer = bench.driver.alloc(how, len)?;
    let registration = bench.register(&buffer, 0, len, How::Best)?;
    Ok((buffer, registration))
}

fn every_alignment(bench: &Bench, how: Allocation, facts: &mut Facts) -> anyhow::Result<()> {
    let (buffer, registration) = memory(bench, how, 4 << 20)?;
    let staging = Staging::new(&registration, StagingOptions { chunk_bytes: 2 << 20, chunks: 2 })?;
    let mut copies = 0;
    for (number, &offset) in OFFSETS.iter().enumerate() {
        // Each place in the GPU's memory with another one in the chunk, and each length with both.
        let chunk_offset = OFFSETS[(number * 7 + 3) % OFFSETS.len()];
        for &len in LENGTHS {
            let seed = (copies as u64) << 8;
            there(&buffer, &registration, &staging, (chunk_offset, GUARD + offset, len), seed)?;
            back(&buffer, &registration, &staging, (chunk_offset, GUARD + offset, len), seed)?;
            copies += 2;
        }
    }
    facts.push(("copies", copies.to_string()));
    facts.push(("path", registration.path_text()));
    Ok(())
}

/// To the GPU: the bytes arrive, and those around them stay.
fn there(
    buffer: &Buffer,
    registration: &Arc<Registration>,
    staging: &Staging,
    (chunk_offset, offset, len): (usize, usize, usize),
    seed: u64,
) -> anyhow::Result<()> {
    let around = pattern(seed, len + 2 * GUARD);
    buffer.put(offset - GUARD, &around)?;
    let sent = pattern(seed + 1, len);
    let chunk = staging.take().ok_or_else(|| anyhow::anyhow!("no chunk is free"))?;
    chunk.write(chunk_offset, &sent)?;
    let pieces = [Piece { chunk_offset, offset, len_bytes: len }];
    drop(chunk.begin_copy_in(registration, &pieces)?.finish()?);
    let found = buffer.get(offset - GUARD, len + 2 * GUARD)?;
    ensure!(found[GUARD..GUARD + len] == sent, "{len} bytes at {offset} arrived changed");
    ensure!(found[..GUARD] == around[..GUARD], "bytes before {len} at {offset} changed");
    ensure!(found[GUARD + len..] == around[GUARD + len..], "bytes behind {len} at {offset} changed");
    Ok(())
}

/// From the GPU.
fn back(
    buffer: &Buffer,
    registration: &Arc<Registration>,
    staging: &Staging,
    (chunk_offset, offset, len): (usize, usize, usize),
    seed: u64,
) -> anyhow::Result<()> {
    let sent = pattern(seed + 2, len);
    buffer.put(offset, &sent)?;
    let chunk = staging.take().ok_or_else(|| anyhow::anyhow!("no chunk is free"))?;
    let around = pattern(seed + 3, len + 1);
    chunk.write(chunk_offset, &around)?;
    let pieces = [Piece { chunk_offset, offset, len_bytes: len }];
    let chunk = chunk.begin_copy_out(registration, &pieces)?.finish()?;
    let mut found = vec![0; len + 1];
    chunk.read(chunk_offset, &mut found)?;
    ensure!(found[..len] == sent, "{len} bytes from {offset} came back changed");
    ensure!(found[len] == around[len], "a byte behind {len} from {offset} changed");
    Ok(())
}

/// More than the ring holds, with each chunk used again as soon as it comes back.
fn whole_ring(bench: &Bench, facts: &mut Facts) -> anyhow::Result<()> {
    const CHUNK: usize = 64 << 10;
    let (buffer, registration) = memory(bench, Allocation::Plain, 16 << 20)?;
    let staging = Staging::new(&registration, StagingOptions { chunk_bytes: CHUNK, chunks: 4 })?;
    let sent = pattern(77, buffer.len_bytes());
    let mut copying = std::collections::VecDeque::new();
    let mut waits = 0;
    for (number, bytes) in sent.chunks(CHUNK).enumerate() {
        let chunk = match staging.take() {
            Some(chunk) => chunk,
            None => {
                waits += 1;
                let oldest: ugds_mem::gpu::Copying =
                    copying.pop_front().ok_or_else(|| anyhow::anyhow!("chunks are lost"))?;
                oldest.finish()?
            }
        };
        chunk.write(0, bytes)?;
        let piece = Piece { chunk_offset: 0, offset: number * CHUNK, len_bytes: CHUNK };
        copying.push_back(chunk.begin_copy_in(&registration, &[piece])?);
    }
    // Nobody waits for the last ones: a later look at the event is enough.
    while let Some(oldest) = copying.pop_front() {
        while !oldest.is_done()? {
            std::thread::yield_now();
        }
    }
    ensure!(buffer.get(0, sent.len())? == sent, "bytes arrived changed");
    facts.push(("waits for a chunk", waits.to_string()));
    Ok(())
}

fn small_pieces(bench: &Bench) -> anyhow::Result<()> {
    let (buffer, registration) = memory(bench, Allocation::Plain, 1 << 20)?;
    let staging = Staging::new(&registration, StagingOptions { chunk_bytes: 1 << 20, chunks: 1 })?;
    let before = pattern(5, 1 << 20);
    buffer.put(0, &before)?;
    let sent = pattern(6, 512 << 10);
    let chunk = staging.take().ok_or_else(|| anyhow::anyhow!("no chunk is free"))?;
    chunk.write(0, &sent)?;
    // 512 pieces of 1 KiB: every other KiB of the first half, then a run.
    let pieces: Vec<Piece> = (0..512)
        .map(|number| {
            let offset = if number < 256 { number * 2048 } else { (512 << 10) + (number - 256) * 1024 };
            Piece { chunk_offset: number * 1024, offset, len_bytes: 1024 }
        })
        .collect();
    drop(chunk.begin_copy_in(&registration, &pieces)?.finish()?);
    let mut expected = before;
    for piece in &pieces {
        let bytes = &sent[piece.chunk_offset..piece.chunk_offset + piece.len_bytes];
        expected[piece.offset..piece.offset + piece.len_bytes].copy_from_slice(bytes);
    }
    ensure!(buffer.get(0, 1 << 20)? == expected, "bytes arrived changed or elsewhere");
    Ok(())
}

fn out_of_memory(bench: &Bench, facts: &mut Facts) -> anyhow::Result<()> {
    let (_, total) = bench.driver.memory()?;
    ensure!(bench.driver.is_out_of_memory(total + (1 << 30))?, "more than there is was allocated");
    let (buffer, registration) = memory(bench, Allocation::Plain, 4096)?;
    registration.copy_in(0, &[9; 4096])?;
    ensure!(buffer.get(0, 4096)? == [9; 4096], "bytes arrived changed");
    facts.push(("asked for", format!("{} MiB", (total + (1 << 30)) >> 20)));
    Ok(())
}

/// Bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            // An xorshift generator: full period over 64 bits.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

const OFFSETS: &[usize] = &[0, 1, 2, 3, 4, 8, 15, 16, 63, 64, 255, 256, 511, 512, 4095, 4096];
const LENGTHS: &[usize] = &[
    1,
    2,
    3,
    4,
    7,
    8,
    15,
    16,
    17,
    64,
    65,
    255,
    512,
    513,
    4095,
    4096,
    4097,
    65_536,
    65_537,
    1 << 20,
    (1 << 20) + 3,
];
/// Bytes around a copy that must stay.
const GUARD: usize = 64;
