//! Memory of the caller: it is the library's until its release, and what overlaps is each a registration of its own.
//!
//! UNSAFETY: registers memory of the tests, which they keep for as long as they promise.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::time::Duration;
use ugds::emu::{Emu, EmuConfig, Iova, Reason};
use ugds::faulty::Faulty;
use ugds::nvme::Lba;
use ugds::{Device, Error, Options, Region};
use ugds_hal::{Backend, Clock};
use ugds_mem::MemError;

/// Memory that the tests reach by pointer only, as a caller must while it is registered.
struct Own(NonNull<u8>);

impl Own {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(vec![0u128; LEN / 16].into_boxed_slice())).cast())
    }

    fn register(&self, device: &Device, at: usize, len_bytes: usize) -> Result<Region, Error> {
        assert!(at + len_bytes <= LEN);
        // SAFETY: leaked, so allocated for ever; read only between transfers, and by pointer.
        unsafe { device.register(self.0.byte_add(at), len_bytes) }
    }

    fn byte(&self, at: usize) -> u8 {
        assert!(at < LEN);
        // SAFETY: inside of the memory, and no transfer is under way.
        unsafe { self.0.byte_add(at).read_volatile() }
    }
}

fn emu(iova: Iova) -> Emu {
    let config = EmuConfig { iova, ..EmuConfig::default() };
    Emu::new(config.with_namespaces(1, 16 << 20, 512).stepped()).unwrap()
}

fn open(emu: &Emu) -> Device {
    Device::with_emu(emu.clone(), Options::default(), None).unwrap()
}

/// A device whose block `lba` holds that number in each byte.
fn numbered(emu: &Emu) -> Device {
    let device = open(emu);
    let source = device.alloc(512).unwrap();
    for lba in 0..16 {
        source.copy_in(0, &[lba; 512]).unwrap();
        device.namespace().unwrap().write(&source, 0..512, Lba(lba.into())).unwrap();
    }
    device
}

#[test]
fn registrations_that_overlap_are_mappings_of_their_own() {
    for iova in [Iova::Contiguous, Iova::Scattered { seed: 5 }] {
        let emu = emu(iova);
        let device = numbered(&emu);
        let namespace = device.namespace().unwrap().clone();
        let own = Own::new();
        let mut mapped = emu.live_mappings();
        let mut regions = Vec::new();
        // The same twice, both halves, and one across the middle.
        for (at, len) in [(0, LEN), (0, LEN), (0, LEN / 2), (LEN / 2, LEN / 2), (LEN / 4, LEN / 2)] {
            regions.push((own.register(&device, at, len).unwrap(), at));
            assert!(emu.live_mappings() > mapped, "the next is mapped, too");
            mapped = emu.live_mappings();
        }
        let tokens: BTreeSet<_> = regions.iter().map(|(region, _)| region.token()).collect();
        assert_eq!(tokens.len(), 5);
        // Each reaches the same bytes, and still does when those before it are gone.
        let mut number = 1;
        while let Some((region, at)) = regions.pop() {
            let byte = LEN / 2 - 512 * usize::from(number);
            if (at..at + region.len_bytes()).contains(&byte) {
                let offset = byte - at;
                namespace.read(&region, offset..offset + 512, Lba(number.into())).unwrap();
                assert_eq!((own.byte(byte), own.byte(byte + 511)), (number, number));
            }
            region.release().unwrap();
            assert!(emu.live_mappings() < mapped, "one is unmapped");
            mapped = emu.live_mappings();
            number += 1;
        }
        drop(namespace);
        device.close().unwrap();
        emu.assert_clean();
        assert_eq!(emu.live_mappings(), 0);
    }
}

#[test]
fn memory_that_is_registered_again_is_another_registration() {
    let emu = emu(Iova::Contiguous);
    let device = numbered(&emu);
    let own = Own::new();
    let mut tokens = BTreeSet::new();
    for number in 1..10u8 {
        let region = own.register(&device, 0, 4096).unwrap();
        assert!(tokens.insert(region.token()), "a token that somebody kept means nothing else now");
        device.namespace().unwrap().read(&region, 0..512, Lba(number.into())).unwrap();
        assert_eq!(own.byte(511), number);
        region.release().unwrap();
    }
    device.close().unwrap();
    emu.assert_clean();
}

#[test]
fn a_late_read_never_lands_in_memory_that_was_given_back() {
    let emu = emu(Iova::Contiguous);
    drop(numbered(&emu));
    let faulty =
        Faulty::over_model(emu.clone(), "late-data:opcode=0x02,nth=1,by=5s".parse().unwrap()).unwrap();
    let device = Device::with_faulty(faulty, Options::default(), None).unwrap();
    let own = Own::new();
    let region = own.register(&device, 0, 4096).unwrap();
    device.namespace().unwrap().read(&region, 0..512, Lba(7)).unwrap();
    region.release().unwrap();
    let clock = emu.clock();
    clock.wait_until(clock.now().after(Duration::from_secs(10)));
    assert_eq!(own.byte(0), 0, "the caller may have freed it");
    let violations = emu.violations();
    assert!(violations.iter().all(|refused| refused.reason == Reason::Unmapped), "{violations:?}");
    assert!(!violations.is_empty(), "the device tried");
    device.close().unwrap();
}

#[test]
fn memory_that_no_command_could_name_is_refused_with_its_address() {
    let emu = emu(Iova::Contiguous);
    let device = open(&emu);
    let own = Own::new();
    let mapped = emu.live_mappings();
    for at in 1..4 {
        let error = own.register(&device, at, 512).unwrap_err();
        let expected = own.0.addr().get() + at;
        assert!(
            matches!(error, Error::Memory(MemError::Misaligned { address }) if address == expected),
            "{error}"
        );
    }
    assert!(matches!(
        own.register(&device, 0, 0),
        Err(Error::Memory(MemError::RegionLength { len_bytes: 0 }))
    ));
    assert_eq!(emu.live_mappings(), mapped);
    device.close().unwrap();
    emu.assert_clean();
}

const LEN: usize = 64 << 10;
