//! Random batches beside byte arrays: mixed operations and sizes, cancelled and harvested at any time, on devices that
//! complete in any order. Every byte is right, no access is refused, and nothing stays mapped.

use ugds::emu::{Emu, EmuConfig, Iova};
use ugds::nvme::Lba;
use ugds::{Batch, Device, Error, Namespace, Options, Outcome, Policy, Region};
use ugds_tests::oracle::Random;

/// One entry: the blocks and the bytes of the region that it moves, none of which another entry of its batch moves.
#[derive(Clone, Copy, Debug)]
struct Moved {
    writes: bool,
    disk: usize,
    memory: usize,
    len: usize,
}

/// A device and what it should hold.
struct Rig<'a> {
    namespace: &'a Namespace,
    region: Region,
    disk: Vec<u8>,
    memory: Vec<u8>,
    random: Random,
    cancelled: u64,
}

impl Rig<'_> {
    /// Fills a batch, with submits, cancels and harvests in between, and checks what it did.
    fn round(&mut self, batch: &mut Batch) {
        let entries = self.entries();
        let bytes: Vec<u8> = (0..4096).map(|_| self.random.below(256) as u8).collect();
        let at = self.random.below((MEMORY - bytes.len()) as u64) as usize;
        self.region.copy_in(at, &bytes).unwrap();
        self.memory[at..at + bytes.len()].copy_from_slice(&bytes);
        let mut outcomes = Vec::new();
        for (cookie, entry) in entries.iter().enumerate() {
            self.put(batch, entry, cookie as u64);
            match self.random.below(12) {
                0 => drop(batch.submit().unwrap()),
                1 => self.cancelled += batch.cancel(self.random.below(cookie as u64 + 1)) as u64,
                2 => drop(batch.harvest(0, Some(std::time::Duration::ZERO), &mut outcomes).unwrap()),
                3 => drop(batch.harvest_up_to(1, 3, None, &mut outcomes).unwrap()),
                4 => batch.flush(self.namespace, FLUSH).unwrap(),
                _ => {}
            }
        }
        if self.random.below(4) != 0 {
            batch.submit().unwrap();
        }
        if self.random.below(5) == 0 {
            self.cancelled += batch.cancel_all() as u64;
        }
        batch.harvest(usize::MAX, None, &mut outcomes).unwrap();
        assert!(batch.is_empty());
        outcomes.retain(|outcome| outcome.cookie != FLUSH);
        assert_eq!(outcomes.len(), entries.len());
        outcomes.iter().for_each(|outcome| self.settle(&entries[outcome.cookie as usize], outcome));
    }

    fn entries(&mut self) -> Vec<Moved> {
        let (mut disk, mut memory, mut entries) = (0, 0, Vec::new());
        loop {
            let blocks = 1 + (self.random.below(1024) >> self.random.below(11)) as usize;
            disk += self.random.below(64) as usize * BLOCK;
            memory += self.random.below(2048) as usize * 4;
            let len = blocks * BLOCK;
            if disk + len > DISK || memory + len > MEMORY || entries.len() == 100 {
                return entries;
            }
            entries.push(Moved { writes: self.random.below(2) == 0, disk, memory, len });
            disk += len;
            memory += len;
        }
    }

    fn put(&self, batch: &mut Batch, entry: &Moved, cookie: u64) {
        let (range, lba) = (entry.memory..entry.memory + entry.len, Lba((entry.disk / BLOCK) as u64));
        let put = if entry.writes { Batch::write } else { Batch::read };
        put(batch, self.namespace, &self.region, range, lba, cookie).unwrap();
    }

    /// Takes over what an entry did. One that was cancelled may have moved any of its blocks, and no others.
    fn settle(&mut self, entry: &Moved, outcome: &Outcome) {
        let Moved { writes, disk, memory, len } = *entry;
        match &outcome.result {
            Ok(()) => {
                assert_eq!(outcome.bytes, len as u64);
                if writes {
                    self.disk[disk..disk + len].copy_from_slice(&self.memory[memory..memory + len]);
                } else {
                    self.memory[memory..memory + len].copy_from_slice(&self.disk[disk..disk + len]);
                }
            }
            Err(Error::Cancelled) if writes => {
                let new = self.memory[memory..memory + len].to_vec();
                let found = self.on_disk(disk, len);
                take_over(&mut self.disk[disk..disk + len], &new, &found, outcome.bytes as usize);
            }
            Err(Error::Cancelled) => {
                let new = self.disk[disk..disk + len].to_vec();
                let mut found = vec![0; len];
                self.region.copy_out(memory, &mut found).unwrap();
                take_over(&mut self.memory[memory..memory + len], &new, &found, outcome.bytes as usize);
            }
            Err(other) => panic!("{entry:?}: {other}"),
        }
    }

    /// Reads blocks through the end of the region, which no entry moves.
    fn on_disk(&self, disk: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.namespace.read(&self.region, MEMORY..MEMORY + len, Lba((disk / BLOCK) as u64)).unwrap();
        self.region.copy_out(MEMORY, &mut bytes).unwrap();
        bytes
    }

    fn compare(&self) {
        let mut bytes = vec![0; MEMORY];
        self.region.copy_out(0, &mut bytes).unwrap();
        assert!(bytes == self.memory, "the region");
        assert!(self.on_disk(0, DISK) == self.disk, "the namespace");
    }
}

/// Every block is old or new; those that are known to be done are new.
fn take_over(known: &mut [u8], new: &[u8], found: &[u8], done: usize) {
    for (at, found) in found.chunks(BLOCK).enumerate() {
        let range = at * BLOCK..(at + 1) * BLOCK;
        let is_new = *found == new[range.clone()];
        assert!(is_new || range.end > done && *found == known[range.clone()], "block {at}");
        known[range].copy_from_slice(found);
    }
}

fn run(seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut config = EmuConfig::default().with_namespaces(1, DISK as u64, BLOCK as u32).stepped();
    config.out_of_order = (random.below(4) != 0).then_some(seed);
    config.latency = std::time::Duration::from_nanos(random.below(3) * 7000);
    config.sgl = random.below(3) == 0;
    config.mdts = random.below(6) as u8;
    if random.below(2) == 0 {
        config.iova = Iova::Scattered { seed };
    }
    let emu = Emu::new(config).unwrap();
    let mut options = Options::default();
    options.queues = 1 + random.below(5) as u16;
    options.queue_entries = 2 << random.below(7);
    options.policy = [Policy::LeastLoaded, Policy::RoundRobin, Policy::HeldQueue][random.below(3) as usize];
    let device = Device::with_backend(emu.clone(), options, None).unwrap();
    let namespace = device.namespace().unwrap();
    let region = device.alloc(MEMORY + DISK).unwrap();
    let mut rig =
        Rig { namespace, region, disk: vec![0; DISK], memory: vec![0; MEMORY], random, cancelled: 0 };
    let mut batch = device.batch(256).unwrap();
    for _ in 0..4 {
        rig.round(&mut batch);
    }
    rig.compare();
    // The last batch goes in flight.
    for (cookie, entry) in rig.entries().iter().enumerate() {
        rig.put(&mut batch, entry, cookie as u64);
    }
    batch.submit().unwrap();
    drop(batch);
    let cancelled = rig.cancelled;
    drop(rig);
    device.close().unwrap();
    emu.assert_clean();
    assert_eq!(emu.live_mappings(), 0);
    cancelled
}

#[test]
fn random_batches_move_every_byte_once() {
    let cases = u64::from(if cfg!(debug_assertions) { 60 } else { 400 } * ugds_tests::times());
    let cancelled: u64 = (0..cases).map(run).sum();
    println!("{cases} devices, {cancelled} entries cancelled");
    assert!(cancelled > cases, "else cancelling was not tested");
}

const BLOCK: usize = 512;
const DISK: usize = 1 << 20;
const MEMORY: usize = 1 << 20;
const FLUSH: u64 = u64::MAX;
