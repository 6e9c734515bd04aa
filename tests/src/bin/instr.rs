//! Runs one operation many times against the null device, for a profiler to count.
//!
//! Usage: `instr KEY TIMES`

use nvme_proto::{Lba, Nsid, PageSize, Qid, identify, zerocopy};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use ugds_hal::{Backend, Completion, Direction, PortSpec};
use ugds_mem::{Domain, Format, Io, Mapped};
use ugds_null::Null;
use ugds_queue::QueuePair;

type Queue = QueuePair<<Null as Backend>::Port>;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [key, times] = &*words else { return Err("usage: instr KEY TIMES".into()) };
    let times: u64 = times.parse()?;
    let mut rig = Rig::new()?;
    match &**key {
        "empty" => rig.nothing(times),
        "queue_read_4k_b1" => rig.reads(times, 4096, 1),
        "queue_read_4k_b32" => rig.reads(times, 4096, 32),
        "queue_read_128k_b32" => rig.reads(times, 128 << 10, 32),
        other => return Err(format!("there is no operation {other}").into()),
    }
    Ok(())
}

/// A queue on the null device, and memory that is attached to it.
struct Rig {
    queue: Queue,
    mapped: Arc<Mapped>,
    format: Format,
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
        let queue = QueuePair::new(port, Qid(1), null.traits().era(), true);
        let region = ugds_mem::host::allocate(REGION_BYTES as usize)?;
        let mapped = region.attach(&Domain::of_enabled(Arc::clone(&null), false)?)?;
        let mut namespace: identify::Namespace = zerocopy::FromZeros::new_zeroed();
        namespace.lbaf[0].lbads = 12;
        Ok(Self { queue, mapped, format: Format::of(&namespace)? })
    }

    /// The loop alone: what varies from one operation to the next.
    fn nothing(&mut self, times: u64) {
        for n in 0..times {
            black_box(place(n, 4096));
        }
    }

    /// Reads of `len_bytes`, `batch` for each doorbell.
    fn reads(&mut self, times: u64, len_bytes: u32, batch: u64) {
        let mut n = 0;
        while n < times {
            for _ in 0..batch {
                let (offset, lba) = black_box(place(n, len_bytes));
                let transfer = self.mapped.transfer(offset, len_bytes, Direction::DeviceWrites);
                let read = transfer.and_then(|transfer| Io::read(Nsid(1), self.format, lba, transfer));
                let submitted = read.map(|read| self.queue.submit(&read, n));
                assert!(matches!(submitted, Ok(Ok(_))), "a read was refused");
                n += 1;
            }
            self.queue.ring();
            let mut left = batch;
            while left != 0 {
                for done in self.queue.reap().expect("the null device keeps the protocol") {
                    assert!(done.status.is_success(), "the null device fails nothing");
                    black_box(done.cookie);
                    left -= 1;
                }
            }
        }
    }
}

/// Where operation `n` takes its data from, and to which block it goes.
fn place(n: u64, len_bytes: u32) -> (u64, Lba) {
    let places = REGION_BYTES / u64::from(len_bytes);
    (n.wrapping_mul(7) % places * u64::from(len_bytes), Lba(n.wrapping_mul(13)))
}

const REGION_BYTES: u64 = 16 << 20;
