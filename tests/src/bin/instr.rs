//! Runs one operation many times against the null device, for a profiler to count.
//!
//! Usage: `instr KEY TIMES`

use nvme_proto::{Lba, Nsid, PageSize, Qid, identify, zerocopy};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use ugds_hal::{Backend, Completion, Direction, PortSpec};
use ugds_mem::{Domain, Format, Io, ListPool, ListedIo, Mapped, Piece};
use ugds_null::Null;
use ugds_queue::{Generations, QueuePair};

type Queue = QueuePair<<Null as Backend>::Port>;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [key, times] = &*words else { return Err("usage: instr KEY TIMES".into()) };
    let times: u64 = times.parse()?;
    let mut rig = Rig::new()?;
    match &**key {
        "empty" => rig.nothing(times),
        "queue_read_4k_b1" => rig.reads::<4096, 1>(times),
        "queue_read_4k_b32" => rig.reads::<4096, 32>(times),
        "queue_read_128k_pool_b32" => rig.listed_reads::<{ 128 << 10 }, 32>(times),
        "queue_read_128k_b32" => rig.reads::<{ 128 << 10 }, 32>(times),
        other => return Err(format!("there is no operation {other}").into()),
    }
    Ok(())
}

/// A queue on the null device, and what its operations are about.
struct Rig {
    queue: Queue,
    pool: ListPool,
    places: Box<[Place; PLACES as usize]>,
    format: Format,
}

/// What varies from one operation to the next. The length does not: it is the caller's constant.
#[repr(align(32))]
struct Place {
    region: Arc<Mapped>,
    offset: u64,
    lba: Lba,
}

impl Rig {
    fn new() -> Result<Self, Box<dyn Error>> {
        let null = Arc::new(Null::new());
        let spec = PortSpec {
            qid: Qid(1),
            entries: 128,
            page: PageSize::MIN,
            completion: Completion::Poll,
            shadow: None,
        };
        let port = null.open_port(&spec, None).map_err(|failed| failed.error)?;
        let queue = QueuePair::new(port, Qid(1), null.traits().era(), Generations::On);
        let domain = Domain::of_enabled(Arc::clone(&null), false)?;
        let map = || ugds_mem::host::allocate(REGION_BYTES as usize)?.attach(&domain);
        let regions = [map()?, map()?, map()?];
        let places = (0..PLACES).map(|n| Place {
            region: Arc::clone(&regions[n as usize % regions.len()]),
            offset: n.wrapping_mul(7) % (REGION_BYTES / MAX_LEN) * MAX_LEN,
            lba: Lba(n.wrapping_mul(13)),
        });
        let mut namespace: identify::Namespace = zerocopy::FromZeros::new_zeroed();
        namespace.lbaf[0].lbads = 12;
        let Ok(places) = places.collect::<Vec<_>>().try_into() else { unreachable!("there are {PLACES}") };
        Ok(Self { queue, pool: domain.list_pool(64)?, places, format: Format::of(&namespace)? })
    }

    /// The loop alone.
    #[inline(never)]
    fn nothing(&mut self, times: u64) {
        for n in 0..times {
            black_box(&self.places[(n % PLACES) as usize]);
        }
    }

    /// Reads of `LEN` bytes, `BATCH` for each doorbell.
    #[inline(never)]
    fn reads<const LEN: u32, const BATCH: u16>(&mut self, times: u64) {
        let (mut n, mut sum) = (0, 0u64);
        while n < times {
            loop {
                let Place { region, offset, lba } = &self.places[(n % PLACES) as usize];
                let transfer = region.transfer(*offset, LEN, Direction::DeviceWrites).expect("in range");
                let read = Io::read(Nsid(1), self.format, *lba, transfer).expect("whole blocks");
                let _ticket = self.queue.submit(&read, n).expect("there is room");
                n += 1;
                if n.is_multiple_of(u64::from(BATCH)) {
                    break;
                }
            }
            self.queue.ring();
            if BATCH == 1 {
                // The null device completes at once, so one look finds it.
                let one = self.queue.reap_one(|done| {
                    assert!(done.status().is_success() && done.cookie == n - 1);
                });
                assert!(one.expect("the null device keeps the protocol"), "no completion");
                continue;
            }
            let mut left = usize::from(BATCH);
            while left != 0 {
                let passed = self.queue.reap(|done| {
                    assert!(done.status().is_success(), "the null device fails nothing");
                    sum = sum.wrapping_add(done.cookie);
                });
                left -= passed.expect("the null device keeps the protocol");
            }
        }
        black_box(sum);
    }

    /// The same, each with a list of its own from the pool.
    #[inline(never)]
    fn listed_reads<const LEN: u32, const BATCH: u16>(&mut self, times: u64) {
        let (mut n, format) = (0, self.format);
        while n < times {
            for _ in 0..BATCH {
                let Place { region, offset, lba } = &self.places[(n % PLACES) as usize];
                let page = self.queue.list_page(&self.pool).expect("more pages than commands");
                let piece = Piece { mapped: region, offset: *offset, len_bytes: LEN };
                let read = ListedIo::read(Nsid(1), format, *lba, piece, page);
                let submitted = self.queue.submit_listed(read.expect("in range"), n);
                let _ticket = submitted.expect("there is room");
                n += 1;
            }
            self.queue.ring();
            let mut left = usize::from(BATCH);
            while left != 0 {
                let passed = self.queue.reap(|done| {
                    assert!(done.status().is_success(), "the null device fails nothing");
                });
                left -= passed.expect("the null device keeps the protocol");
            }
        }
    }
}

const REGION_BYTES: u64 = 16 << 20;
/// The longest operation.
const MAX_LEN: u64 = 128 << 10;
/// Operations until the same place is met again: a multiple of every batch.
const PLACES: u64 = 1024;
