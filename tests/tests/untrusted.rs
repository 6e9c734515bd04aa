//! A device whose answers are noise: registers, and the data of Identify and of logs. Whatever it says is an error or
//! is put up with, and no memory is touched that is not the command's.

mod hooked;

use hooked::{Hooked, Hooks};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ugds::emu::{AsyncEvent, Emu, EmuConfig};
use ugds::nvme::Lba;
use ugds::nvme::register::Property;
use ugds_hal::{Backend, Clock, Direction, SharedMemory};
use ugds_mem::Io;
use ugds_queue::QueuePair;
use ugds_queue::controller::{Controller, Namespace, Options};
use ugds_tests::oracle::Random;

/// Noise in the data of admin commands.
struct Noise {
    random: Mutex<Random>,
    /// The admin command whose data become noise, counted from 0, and all that follow.
    from: u64,
    /// How many bytes of them.
    bytes: u64,
    ended: AtomicU64,
}

impl Hooks for Noise {
    fn ended(&self, buffer: &SharedMemory) {
        if self.ended.fetch_add(1, Ordering::Relaxed) < self.from {
            return;
        }
        let mut random = self.random.lock().unwrap();
        match random.below(8) {
            // A namespace of no blocks (NSZE).
            0 => buffer.copy_in(0, &[0; 8]).unwrap(),
            // Blocks of any size up to 512 GiB (LBADS of the first format).
            1..4 => buffer.copy_in(130, &[random.below(40) as u8]).unwrap(),
            _ => {}
        }
        for _ in 0..self.bytes {
            // The interesting fields of Identify lie in its first quarter, and the formats of a namespace in 64 bytes.
            let range = [4096, 600, 192][random.below(3) as usize];
            let noise = random.below(256) as u8;
            buffer.copy_in(random.below(range) as usize, &[noise]).unwrap();
        }
    }
}

type Noisy = Hooked<Noise>;

fn emu() -> Emu {
    Emu::new(EmuConfig::default().with_namespaces(2, 16 << 20, 512).stepped()).unwrap()
}

/// Reads one block of a namespace, as it describes itself.
fn read(
    controller: &Controller<Noisy>,
    queue: &mut QueuePair<<Noisy as Backend>::Port>,
    namespace: &Namespace,
) {
    let region = ugds_mem::host::allocate(2 << 20).unwrap();
    let mapped = region.attach(controller.domain()).unwrap();
    let block_bytes = 1 << namespace.format().block_shift();
    let transfer = mapped.transfer(0, block_bytes, Direction::DeviceWrites).unwrap();
    let read = Io::read(namespace.nsid(), namespace.format(), Lba(0), transfer).unwrap();
    let _ticket = queue.submit(&read, 0).unwrap();
    queue.ring();
    let clock = controller.backend().clock();
    while queue.reap(|_| {}).unwrap() == 0 {
        clock.relax(0);
    }
    queue.detach(&mapped).unwrap();
}

/// What came of controllers that answer noise.
#[derive(Debug, Default)]
struct Tally {
    failed: usize,
    usable: usize,
    refused: usize,
}

/// One life of a controller that answers noise.
fn live(emu: &Emu, noise: Noise, tally: &mut Tally) {
    let noisy = Hooked::new(emu, noise);
    let mut options = Options::default();
    options.queues = 1;
    match Controller::bring_up(Arc::clone(&noisy), options) {
        Ok(controller) => use_it(emu, controller, tally),
        Err(_) => tally.failed += 1,
    }
    noisy.forget_buffer();
}

fn use_it(emu: &Emu, mut controller: Controller<Noisy>, tally: &mut Tally) {
    let mut queue = controller.open_queue().unwrap();
    let scan = controller.scan().unwrap();
    for namespace in &scan.namespaces {
        assert!(namespace.blocks() > 0);
        assert!((9..=20).contains(&namespace.format().block_shift()));
        assert!(namespace.max_transfer_bytes() <= 1 << 20);
        read(&controller, &mut queue, namespace);
    }
    emu.raise(AsyncEvent::NamespaceChanged);
    emu.run_until_idle();
    controller.events().unwrap();
    controller.shut_down(vec![queue]).unwrap();
    tally.usable += scan.namespaces.len();
    tally.refused += scan.refused.len();
}

#[test]
fn whatever_identify_says_is_refused_or_usable_and_touches_no_other_memory() {
    let emu = emu();
    let mut tally = Tally::default();
    for seed in 0..300 * u64::from(ugds_tests::times()) {
        let mut random = Random::new(seed);
        let bytes = 1 << random.below(13);
        // From the first on as often as from a later one on.
        let from = random.below(2) * random.below(9);
        live(&emu, Noise { random: Mutex::new(random), from, bytes, ended: AtomicU64::new(0) }, &mut tally);
        assert_eq!(emu.violations(), [], "life {seed}");
        assert_eq!(emu.live_mappings(), 0, "life {seed}");
    }
    println!("{tally:?}");
    assert!(tally.failed > 20 && tally.usable > 20 && tally.refused > 20, "all kinds are met: {tally:?}");
}

/// Noise in the registers that say what the controller is.
struct NoisyRegisters(Mutex<Random>);

impl Hooks for NoisyRegisters {
    fn read(&self, property: Property, value: u64) -> u64 {
        let mut random = self.0.lock().unwrap();
        match property {
            Property::CAP | Property::VS | Property::CRTO => {
                let flips = random.below(32);
                (0..flips).fold(value, |value, _| value ^ 1 << random.below(64))
            }
            _ => value,
        }
    }
}

#[test]
fn whatever_the_registers_say_ends_in_a_bounded_time_and_leaves_nothing() {
    let (mut failed, mut came_up) = (0, 0);
    for seed in 0..300 * u64::from(ugds_tests::times()) {
        let emu = emu();
        let begin = emu.clock().now();
        let noisy = Hooked::new(&emu, NoisyRegisters(Mutex::new(Random::new(seed))));
        let brought_up = Controller::bring_up(Arc::clone(&noisy), Options::default());
        match brought_up.map(|controller| controller.shut_down(vec![])) {
            Ok(ended) => {
                ended.unwrap();
                came_up += 1;
            }
            Err(_) => failed += 1,
        }
        noisy.forget_buffer();
        assert!(emu.clock().now().since(begin) < Duration::from_secs(1000), "seed {seed}");
        assert_eq!(emu.violations(), [], "seed {seed}");
        assert_eq!(emu.live_mappings(), 0, "seed {seed}");
    }
    println!("{came_up} came up, {failed} did not");
    assert!(failed > 20 && came_up > 20, "both kinds are met: {failed} and {came_up}");
}
