//! Random reads and writes through the facade, against byte arrays, on controllers of every make.
//!
//! The controller model is stepped by hand, so a case is the same each time it is run. Its record of DMA is the
//! judge: an access outside a live mapping fails the case, and so does a slot, a mapping or a command left over.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::Duration;
use ugds::emu::{Emu, EmuConfig, Iova, NamespaceConfig};
use ugds::{Device, Options};
use ugds_tests::oracle::{Random, Twin};

/// What one controller is like.
#[derive(Clone, Debug)]
struct Make {
    lba_shift: Vec<u32>,
    queues: u16,
    mqes_z: u16,
    dstrd: u8,
    mpsmin: u8,
    mdts: u8,
    sgl: bool,
    dbbuf: bool,
    vwc: bool,
    out_of_order: Option<u64>,
    scattered: Option<u64>,
    noiob: u16,
    latency_us: u64,
    entries: u16,
}

fn make() -> impl Strategy<Value = Make> {
    let shape = (
        prop::collection::vec(prop_oneof![Just(9u32), Just(12)], 1..4),
        1u16..6,
        prop_oneof![Just(1u16), Just(2), Just(7), Just(299), Just(1023), Just(65535)],
        0u8..5,
        0u8..3,
        0u8..9,
    );
    let features = (any::<bool>(), any::<bool>(), any::<bool>(), any::<Option<u64>>(), any::<Option<u64>>());
    let speed = (
        prop_oneof![Just(0u16), Just(16), Just(24)],
        0u64..40,
        prop_oneof![Just(2u16), Just(8), Just(64), Just(1024)],
    );
    (shape, features, speed).prop_map(|(shape, features, speed)| {
        let (lba_shift, queues, mqes_z, dstrd, mpsmin, mdts) = shape;
        let (sgl, dbbuf, vwc, out_of_order, scattered) = features;
        let (noiob, latency_us, entries) = speed;
        Make {
            lba_shift,
            queues,
            mqes_z,
            dstrd,
            mpsmin,
            mdts,
            sgl,
            dbbuf,
            vwc,
            out_of_order,
            scattered,
            noiob,
            latency_us,
            entries,
        }
    })
}

impl Make {
    fn config(&self) -> EmuConfig {
        let namespace = |(index, shift): (usize, &u32)| NamespaceConfig {
            noiob: self.noiob,
            // Sparse identifiers.
            ..NamespaceConfig::new(1 + 7 * index as u32, NAMESPACE_BYTES, 1 << shift)
        };
        EmuConfig {
            namespaces: self.lba_shift.iter().enumerate().map(namespace).collect(),
            queues: self.queues,
            mqes_z: self.mqes_z,
            dstrd: self.dstrd,
            mpsmin: self.mpsmin,
            mpsmax: self.mpsmin + 2,
            mdts: self.mdts,
            sgl: self.sgl,
            dbbuf: self.dbbuf,
            vwc: self.vwc,
            out_of_order: self.out_of_order,
            latency: Duration::from_micros(self.latency_us),
            iova: self.scattered.map_or(Iova::Contiguous, |seed| Iova::Scattered { seed }),
            ..EmuConfig::default()
        }
        .stepped()
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        options.queues = self.queues;
        options.queue_entries = self.entries;
        options
    }
}

fn run(make: &Make, seed: u64, operations: u32) {
    let emu = Emu::new(make.config()).unwrap();
    let device = Device::with_emu(emu.clone(), make.options(), None).unwrap();
    assert_eq!(device.namespaces().len(), make.lba_shift.len());
    let mut twins: Vec<Twin<'_>> = device
        .namespaces()
        .iter()
        .map(|namespace| Twin::new(&device, namespace, NAMESPACE_BYTES as usize).unwrap())
        .collect();
    let mut random = Random::new(seed);
    for _ in 0..operations {
        let twin = random.below(twins.len() as u64) as usize;
        twins[twin].step(&mut random).unwrap();
    }
    twins.iter_mut().for_each(|twin| twin.compare().unwrap());
    let stats = device.stats();
    assert_eq!(stats.total(|queue| queue.outstanding.into()), 0);
    assert_eq!(stats.total(|queue| queue.submitted), stats.total(|queue| queue.completed));
    assert_eq!(stats.total(|queue| queue.failed), 0);
    drop(twins);
    device.close().unwrap();
    assert_eq!(emu.violations(), [], "every access of the device was to mapped memory");
    assert_eq!(emu.live_mappings(), 0, "nothing stays mapped");
}

#[test]
fn random_operations_agree_with_byte_arrays() {
    let (cases, operations) = if cfg!(debug_assertions) { (12, 1_000) } else { (48, 10_000) };
    let cases = cases * ugds_tests::times();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(make(), any::<u64>()), |(make, seed)| {
            run(&make, seed, operations);
            Ok(())
        })
        .unwrap();
    println!("{cases} controllers, {operations} operations each");
}

const NAMESPACE_BYTES: u64 = 3 << 20;
