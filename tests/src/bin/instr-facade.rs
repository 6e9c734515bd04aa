//! Runs one operation of the facade many times against the null device, for a profiler to count, or counts by itself
//! what a profiler does not.
//!
//! Usage: `instr-facade KEY TIMES`, or `instr-facade counts`, which prints a line `KEY NUMBER` for each.
//!
//! UNSAFETY: is the global allocator, which counts and passes everything on to the system's.

#![allow(unsafe_code)]

use nvme_proto::Lba;
use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use ugds::{Batch, Device, Namespace, Options, Outcome, Region};
use ugds_null::Null;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut rig = Rig::new()?;
    match &*words.iter().map(String::as_str).collect::<Vec<_>>() {
        ["counts"] => rig.counts(),
        [key, times] => rig.run(key, times.parse()?),
        _ => Err("usage: instr-facade KEY TIMES, or instr-facade counts".into()),
    }
}

/// A device, and what its operations are about.
struct Rig {
    namespace: Namespace,
    places: Box<[Place]>,
    batch: Batch,
    outcomes: Vec<Outcome>,
}

/// What varies from one operation to the next.
#[repr(align(32))]
struct Place {
    region: Region,
    offset: usize,
    lba: Lba,
}

impl Rig {
    fn new() -> Result<Self, Box<dyn Error>> {
        let device = Device::with_backend(Null::new(), Options::default(), None)?;
        let regions = [device.alloc(REGION_BYTES)?, device.alloc(REGION_BYTES)?, device.alloc(REGION_BYTES)?];
        let place = |n: usize| Place {
            region: regions[n % regions.len()].clone(),
            offset: n * 7 % (REGION_BYTES / LARGE) * LARGE,
            lba: Lba(n as u64 * 13),
        };
        Ok(Self {
            namespace: device.namespace()?.clone(),
            places: (0..PLACES).map(place).collect(),
            batch: device.batch(BATCH)?,
            outcomes: Vec::with_capacity(BATCH),
        })
    }

    fn run(&mut self, key: &str, times: u64) -> Result<(), Box<dyn Error>> {
        match key {
            "empty" => self.nothing(times),
            "facade_read_4k_sync" => self.reads::<SMALL>(times)?,
            "facade_read_1m_sync" => self.reads::<LARGE>(times)?,
            "facade_batch_4k_b32" => self.batches(times)?,
            other => return Err(format!("there is no operation {other}").into()),
        }
        Ok(())
    }

    /// Allocations and doorbells in steady state.
    fn counts(&mut self) -> Result<(), Box<dyn Error>> {
        for key in ["facade_read_4k_sync", "facade_read_1m_sync", "facade_batch_4k_b32"] {
            self.run(key, WARM)?;
        }
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for key in ["facade_read_4k_sync", "facade_read_1m_sync", "facade_batch_4k_b32"] {
            self.run(key, COUNTED)?;
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let before = Null::doorbells();
        self.batches(COUNTED)?;
        let doorbells = Null::doorbells() - before;
        println!("alloc_per_io {}", allocations as f64 / (3 * COUNTED) as f64);
        println!("mmio_writes_b32 {}", doorbells as f64 / (COUNTED / BATCH as u64) as f64);
        Ok(())
    }

    /// The loop alone.
    #[inline(never)]
    fn nothing(&mut self, times: u64) {
        for n in 0..times {
            black_box(&self.places[n as usize % PLACES]);
        }
    }

    #[inline(never)]
    fn reads<const LEN: usize>(&mut self, times: u64) -> Result<(), ugds::Error> {
        for n in 0..times {
            let Place { region, offset, lba } = &self.places[n as usize % PLACES];
            self.namespace.read(region, *offset..*offset + LEN, *lba)?;
        }
        Ok(())
    }

    /// Batches of reads of 4 KiB.
    #[inline(never)]
    fn batches(&mut self, times: u64) -> Result<(), ugds::Error> {
        let (mut n, mut sum) = (0, 0u64);
        while n < times {
            for _ in 0..BATCH {
                let Place { region, offset, lba } = &self.places[n as usize % PLACES];
                self.batch.read(&self.namespace, region, *offset..*offset + SMALL, *lba, n)?;
                n += 1;
            }
            self.batch.submit()?;
            self.outcomes.clear();
            self.batch.harvest(BATCH, None, &mut self.outcomes)?;
            for outcome in &self.outcomes {
                assert!(outcome.result.is_ok(), "the null device fails nothing");
                sum = sum.wrapping_add(outcome.cookie);
            }
        }
        black_box(sum);
        Ok(())
    }
}

/// Allocations since the program began.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on as it came; counting changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(ptr, layout) }
    }
}

const REGION_BYTES: usize = 16 << 20;
const SMALL: usize = 4096;
const LARGE: usize = 1 << 20;
const BATCH: usize = 32;
/// Operations until the same place is met again: a multiple of every batch.
const PLACES: usize = 1024;
const WARM: u64 = 64;
const COUNTED: u64 = 6400;
