//! The speed of the staged way against that of plain copies from the same pinned memory, one after the other in turns.
//!
//! UNSAFETY: enqueues plain copies from the ring's memory, and waits for them before anything else uses it.

#![allow(unsafe_code)]

use crate::Bench;
use crate::driver::{Allocation, Buffer, Plain, Way};
use crate::report::{Facts, Report};
use anyhow::{Context, ensure};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use ugds_mem::gpu::{Copying, How, Piece, Registration, Staging, StagingOptions};

pub(crate) fn check(bench: &Bench, report: &mut Report, quick: bool) {
    for way in [Way::In, Way::Out] {
        for size in [128 << 10, 1 << 20, 16 << 20] {
            let name = match way {
                Way::In => format!("rate to the GPU, {} KiB each", size >> 10),
                Way::Out => format!("rate from the GPU, {} KiB each", size >> 10),
            };
            report.check(&name, |facts| compare(bench, way, size, quick, facts));
        }
    }
}

fn compare(bench: &Bench, way: Way, size: usize, quick: bool, facts: &mut Facts) -> anyhow::Result<()> {
    let (rounds, total) = if quick { (3, 32 << 20) } else { (21, 512 << 20) };
    let buffer = bench.driver.alloc(Allocation::Plain, size)?;
    let registration = bench.register(&buffer, 0, size, How::Best)?;
    let staging = Staging::new(&registration, StagingOptions::default())?;
    let plain = Plain::open(&bench.driver)?;
    let (mut ceilings, mut staged, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=rounds {
        let ceiling = plain_rate(&plain, way, &buffer, &staging, size, total)?;
        let rate = staged_rate(way, &registration, &staging, size, total)?;
        if round > 0 {
            ceilings.push(ceiling);
            staged.push(rate);
            ratios.push(rate / ceiling);
        }
    }
    let ratio = median(&mut ratios);
    facts.push(("plain", format!("{:.2} GB/s", median(&mut ceilings))));
    facts.push(("staged", format!("{:.2} GB/s", median(&mut staged))));
    facts.push(("ratio", format!("{ratio:.3} (median of {rounds} turns)")));
    ensure!(ratio > 0.0 && ratio.is_finite(), "the ratio is {ratio}");
    Ok(())
}

/// Copies from, or to, the ring's memory, as fast as the driver takes them, in 10^9 bytes a second.
fn plain_rate(
    plain: &Plain,
    way: Way,
    buffer: &Buffer,
    staging: &Staging,
    size: usize,
    total: usize,
) -> anyhow::Result<f64> {
    let memory = staging.memory();
    let slots = memory.len_bytes() / size;
    ensure!(slots > 0, "the ring is smaller than {size} bytes");
    let start = Instant::now();
    for number in 0..total / size {
        let host = (memory.address() + number % slots * size) as *mut u8;
        // SAFETY: inside of the ring's memory, which `staging` keeps; nothing refers to it, and `finish` is next.
        unsafe { plain.copy(way, buffer, host, size) }?;
    }
    plain.finish()?;
    Ok(rate(total, start))
}

/// The same through chunks, as a request that is staged goes: taken, copied, waited for when all are on their way.
fn staged_rate(
    way: Way,
    registration: &Arc<Registration>,
    staging: &Staging,
    size: usize,
    total: usize,
) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut copying: VecDeque<Copying> = VecDeque::new();
    for _ in 0..total / size {
        for offset in (0..size).step_by(staging.chunk_bytes()) {
            let chunk = match staging.take() {
                Some(chunk) => chunk,
                None => copying.pop_front().context("chunks are lost")?.finish()?,
            };
            let len_bytes = staging.chunk_bytes().min(size - offset);
            let piece = [Piece { chunk_offset: 0, offset, len_bytes }];
            copying.push_back(match way {
                Way::In => chunk.begin_copy_in(registration, &piece)?,
                Way::Out => chunk.begin_copy_out(registration, &piece)?,
            });
        }
    }
    for copy in copying {
        drop(copy.finish()?);
    }
    Ok(rate(total, start))
}

fn rate(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
