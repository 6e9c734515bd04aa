//! Whatever a device sends, reading it neither panics nor yields what cannot be.

use nvme_proto::identify::{Controller, ControllerList, Namespace, NamespaceDescriptors, NamespaceList};
use nvme_proto::log::{AnaHeader, ChangedNamespaces, Changes, ErrorEntry, FirmwareSlots, SelfTest, Smart};
use nvme_proto::register::{Aqa, Cap, Cmbloc, Cmbsz, Crto};
use nvme_proto::zerocopy::{FromBytes, IntoBytes};
use nvme_proto::{Cqe, PageSize, event::Event};
use proptest::prelude::*;

/// 4096 bytes from a seed; some pages are mostly zeroes, so that lists have ends.
fn page() -> impl Strategy<Value = Vec<u8>> {
    (proptest::collection::vec(any::<u8>(), 512), 0..4096_usize).prop_map(|(noise, from)| {
        let mut page = vec![0; 4096];
        page[from..].iter_mut().zip(noise.iter().cycle()).for_each(|(to, from)| *to = *from);
        page
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn controller(page in page(), exponent in 0_u8..16, crd: u8) {
        let controller = Controller::read_from_bytes(&page).unwrap();
        let min_page = PageSize::from_exponent(exponent).unwrap();
        if let Some(limit) = controller.max_transfer_bytes(min_page) {
            prop_assert!(limit > min_page.bytes() && limit.is_power_of_two());
        }
        prop_assert!(controller.retry_delay_ms(crd) <= 6_553_500);
        prop_assert!((1..=32).contains(&controller.power_states().len()));
        prop_assert!(controller.power_states().iter().all(|state| state.max_power_uw() <= 655_350_000));
        prop_assert!(controller.mn.as_str().chars().all(|c| c == ' ' || c.is_ascii_graphic()));
    }

    #[test]
    fn namespace(page in page()) {
        let namespace = Namespace::read_from_bytes(&page).unwrap();
        let formats = namespace.lba_formats();
        prop_assert!(usize::from(namespace.lba_format_index()) < 64 && formats.len() <= 64);
        if let Some(block) = namespace.lba_bytes() {
            prop_assert!(block >= 512 && block.is_power_of_two());
            let wire = namespace.wire_block_bytes().unwrap();
            prop_assert_eq!(wire > block, namespace.extended_lba());
        }
    }

    #[test]
    fn lists(page in page()) {
        let list = NamespaceList::read_from_bytes(&page).unwrap();
        let nsids: Vec<_> = list.iter().collect();
        prop_assert!(nsids.is_sorted() && nsids.iter().all(|nsid| nsid.is_single()));
        prop_assert_eq!(list.next_after().is_some(), nsids.len() == 1024);
        prop_assert!(ControllerList::read_from_bytes(&page).unwrap().iter().count() <= 2047);
        prop_assert!(NamespaceDescriptors::read_from_bytes(&page).unwrap().iter().count() <= 4096 / 5);
        if let Changes::These(nsids) = ChangedNamespaces::read_from_bytes(&page).unwrap().changes() {
            prop_assert!(nsids.count() <= 1024);
        }
    }

    #[test]
    fn logs(page in page(), cut in 0..4096_usize) {
        let smart = Smart::read_from_bytes(&page[..512]).unwrap();
        prop_assert!(smart.bytes_read() >= smart.data_units_read.get());
        let entry = ErrorEntry::read_from_bytes(&page[..64]).unwrap();
        prop_assert_eq!(entry.cid().is_none(), entry.cid.get() == 0xffff);
        let slots = FirmwareSlots::read_from_bytes(&page[..512]).unwrap();
        prop_assert!(slots.active_slot() < 8 && slots.next_slot() != Some(0));
        prop_assert!(SelfTest::read_from_bytes(&page[..564]).unwrap().results().count() <= 20);
        if let Some((_, groups)) = AnaHeader::parse(&page[..cut]) {
            let nsids: usize = groups.map(|(_, nsids)| nsids.count()).sum();
            prop_assert!(nsids * 4 <= cut);
        }
    }

    #[test]
    fn registers(cap: u64, low: u32, high: u32) {
        let cap = Cap::from_bits(cap);
        prop_assert!((1..=65_536).contains(&cap.max_queue_entries()));
        prop_assert!(cap.ready_timeout_with_crto_ms(Crto::from_bits(low)) >= 500);
        prop_assert!(cap.min_page().bytes() >= 4096 && cap.doorbell_stride() >= 4);
        let aqa = Aqa::from_bits(low);
        prop_assert!((1..=4096).contains(&aqa.asq_entries()) && (1..=4096).contains(&aqa.acq_entries()));
        let cmbsz = Cmbsz::from_bits(high);
        prop_assert_eq!(cmbsz.size_bytes().is_some(), Cmbloc::from_bits(low).offset_bytes(cmbsz).is_some());
    }

    #[test]
    fn completions(bytes: [u8; 16]) {
        let cqe = Cqe::read_from_bytes(&bytes).unwrap();
        prop_assert_eq!(cqe.status().to_field(cqe.phase()), cqe.status.get());
        let event = Event::from_result(cqe.result());
        prop_assert_eq!(Event::from_result(event.to_result()), event);
        prop_assert_eq!(cqe.as_bytes(), bytes);
    }
}
