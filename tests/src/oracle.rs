//! A namespace and a region beside byte arrays that say what they should hold.

use ugds::nvme::Lba;
use ugds::{Device, Error, Namespace, Region};

/// A namespace and what it should hold; a region and what it should hold.
#[derive(Debug)]
pub struct Twin<'a> {
    namespace: &'a Namespace,
    blocks: Vec<u8>,
    region: Region,
    memory: Vec<u8>,
}

/// Numbers that look random and are the same each time.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the row that belongs to `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

impl<'a> Twin<'a> {
    /// Takes the first `namespace_bytes` of a namespace, fills them with zeroes, and allocates a region.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn new(device: &Device, namespace: &'a Namespace, namespace_bytes: usize) -> Result<Self, Error> {
        let region = device.alloc(REGION_BYTES)?;
        for start in (0..namespace_bytes).step_by(REGION_BYTES) {
            let len = REGION_BYTES.min(namespace_bytes - start);
            namespace.write(&region, 0..len, Lba(start as u64 / u64::from(namespace.lba_bytes())))?;
        }
        Ok(Self { namespace, blocks: vec![0; namespace_bytes], region, memory: vec![0; REGION_BYTES] })
    }

    /// Does one random thing to both sides.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn step(&mut self, random: &mut Random) -> Result<(), Error> {
        match random.below(100) {
            0 => self.namespace.flush(),
            1..20 => self.fill(random),
            20..60 => self.transfer(random, true),
            _ => self.transfer(random, false),
        }
    }

    /// Puts new bytes into the region.
    fn fill(&mut self, random: &mut Random) -> Result<(), Error> {
        let at = random.below(self.memory.len() as u64) as usize;
        let len = random.below((self.memory.len() - at).min(9000) as u64 + 1) as usize;
        let seed = random.below(256) as u8;
        let bytes: Vec<u8> = (0..len).map(|i| seed.wrapping_add((i * 7) as u8)).collect();
        self.region.copy_in(at, &bytes)?;
        self.memory[at..at + len].copy_from_slice(&bytes);
        Ok(())
    }

    fn transfer(&mut self, random: &mut Random, write: bool) -> Result<(), Error> {
        let block = self.namespace.lba_bytes() as usize;
        let most = self.blocks.len().min(self.memory.len() - 4096) / block;
        // Short requests are as likely as long ones.
        let count = 1 + (random.below(most as u64) >> random.below(12)) as usize;
        let lba = random.below((self.blocks.len() / block - count) as u64 + 1) as usize;
        let len = count * block;
        let at = random.below((self.memory.len() - len) as u64 / 4 + 1) as usize * 4;
        let (disk, memory) = (lba * block..lba * block + len, at..at + len);
        if write {
            self.namespace.write(&self.region, memory.clone(), Lba(lba as u64))?;
            self.blocks[disk].copy_from_slice(&self.memory[memory]);
        } else {
            self.namespace.read(&self.region, memory.clone(), Lba(lba as u64))?;
            self.memory[memory].copy_from_slice(&self.blocks[disk]);
        }
        Ok(())
    }

    /// Compares everything: the region's bytes, and the namespace's through the region.
    ///
    /// # Errors
    ///
    /// The device's.
    ///
    /// # Panics
    ///
    /// When a byte differs.
    pub fn compare(&mut self) -> Result<(), Error> {
        let mut bytes = vec![0; self.memory.len()];
        self.region.copy_out(0, &mut bytes)?;
        assert_same("the region", 0, &bytes, &self.memory);
        for (start, expected) in (0..).step_by(REGION_BYTES).zip(self.blocks.chunks(REGION_BYTES)) {
            let lba = Lba(start as u64 / u64::from(self.namespace.lba_bytes()));
            self.namespace.read(&self.region, 0..expected.len(), lba)?;
            let mut bytes = vec![0; expected.len()];
            self.region.copy_out(0, &mut bytes)?;
            assert_same(&format!("namespace {}", self.namespace.nsid()), start, &bytes, expected);
        }
        Ok(())
    }
}

fn assert_same(place: &str, start: usize, found: &[u8], expected: &[u8]) {
    if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
        panic!("{place} holds {:#04x} at byte {}, not {:#04x}", found[at], start + at, expected[at]);
    }
}

/// The size of each twin's region.
pub const REGION_BYTES: usize = 2 << 20;
