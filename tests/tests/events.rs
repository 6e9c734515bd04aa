//! What the controller tells without being asked.

use ugds::emu::{Emu, EmuConfig};
use ugds::nvme::Nsid;
use ugds::nvme::event::EventType;
use ugds::{Detail, Device, Options};

fn open(namespaces: u32) -> (Emu, Device) {
    let config = EmuConfig::default().with_namespaces(namespaces, 16 << 20, 512).stepped();
    let emu = Emu::new(config).unwrap();
    let device = Device::with_emu(emu.clone(), Options::default(), None).unwrap();
    (emu, device)
}

#[test]
fn nothing_is_told_where_nothing_happened() {
    let (emu, device) = open(1);
    assert!(device.events().unwrap().is_empty());
    device.close().unwrap();
    assert_eq!(emu.live_mappings(), 0, "requests that were never answered hold nothing");
}

#[test]
fn health_is_told_with_its_log() {
    let (emu, device) = open(1);
    emu.set_temperature(400);
    emu.run_until_idle();
    let events = device.events().unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].event.kind, EventType::HEALTH);
    match &events[0].detail {
        Detail::Health(smart) => assert_eq!(smart.temperature_k.get(), 400),
        other => panic!("{other:?}"),
    }
    device.close().unwrap();
}

#[test]
fn each_change_of_namespaces_is_told_once_and_the_next_one_too() {
    let (emu, device) = open(3);
    for nsid in [2, 3] {
        emu.set_attached(Nsid(nsid), false);
        emu.run_until_idle();
        let events = device.events().unwrap();
        assert_eq!(events.len(), 1, "{events:?}");
        match &events[0].detail {
            Detail::Namespaces(Some(changed)) => assert_eq!(*changed, [Nsid(nsid)]),
            other => panic!("{other:?}"),
        }
        assert!(device.events().unwrap().is_empty());
    }
    device.close().unwrap();
    assert_eq!(emu.violations(), []);
}

#[test]
fn events_do_not_disturb_commands() {
    let (emu, device) = open(2);
    let region = device.alloc(4096).unwrap();
    let namespace = device.namespace().unwrap();
    for round in 0..20 {
        emu.set_attached(Nsid(2), round % 2 == 0);
        namespace.write(&region, 0..4096, ugds::nvme::Lba(round)).unwrap();
        namespace.flush().unwrap();
        device.events().unwrap();
    }
    device.close().unwrap();
}
