//! Admin commands, right and wrong: each wrong input has the status that the specification gives it.

mod support;

use nvme_proto::admin::{
    Abort, AsyncEventConfig, AsyncEventRequest, Cns, DoorbellBufferConfig, Feature, FeatureId, FormatNvm,
    GetFeatures, GetLogPage, HostBehaviorSupport, Identify, InterruptVectorConfig, KeepAlive, LogId,
    NumberOfQueues, PowerManagement, Sanitize, SanitizeAction, SecureErase, Select, SetFeatures,
    TemperatureThreshold, VolatileWriteCache,
};
use nvme_proto::identify::{Controller, ControllerList, Namespace, NamespaceDescriptors, NamespaceList};
use nvme_proto::log::{ErrorEntry, FirmwareSlots, SanitizeState, SanitizeStatus, Smart};
use nvme_proto::nvm::{Flush, Opcode};
use nvme_proto::status::{command, generic};
use nvme_proto::zerocopy::FromBytes;
use nvme_proto::{BusAddr, Cid, Count16, Csi, DataPointer, Nsid, Qid, Sqe, Status};
use support::{
    Driver, assert_status, create_cq, create_sq, delete_cq, delete_sq, in_both_modes, pattern, read,
    read_data, write, write_data,
};
use ugds_hal::Backend;
use ugds_hal::Clock;
use ugds_hal::emu::{EmuConfig, NamespaceConfig, Oddities};

fn stepped() -> EmuConfig {
    EmuConfig::default().stepped()
}

#[test]
fn creating_and_deleting_queues_refuses_every_wrong_input() {
    let config = EmuConfig { cqr: true, queues: 4, vectors: 3, mqes_z: 298, ..stepped() };
    let mut driver = Driver::new(config);
    let memory = driver.buffer(64 << 10);
    let base = memory.mapping().contiguous().unwrap();
    let off = BusAddr(base.0 + 64);
    let cq = |qid, entries| create_cq(qid, entries, base);
    let sq = |qid, cqid, entries| create_sq(qid, cqid, entries, base);
    let refused = [
        (cq(0, 2).to_sqe(), command::INVALID_QUEUE_ID),
        (cq(5, 2).to_sqe(), command::INVALID_QUEUE_ID),
        (cq(0xffff, 2).to_sqe(), command::INVALID_QUEUE_ID),
        (cq(1, 1).to_sqe(), command::INVALID_QUEUE_SIZE),
        (cq(1, 300).to_sqe(), command::INVALID_QUEUE_SIZE),
        (create_cq(1, 2, off).to_sqe(), generic::PRP_OFFSET_INVALID),
        (
            nvme_proto::admin::CreateCq { interrupt_vector: Some(3), ..cq(1, 2) }.to_sqe(),
            command::INVALID_INTERRUPT_VECTOR,
        ),
        (
            nvme_proto::admin::CreateCq { physically_contiguous: false, ..cq(1, 2) }.to_sqe(),
            generic::INVALID_FIELD,
        ),
        (sq(1, 1, 2).to_sqe(), command::CQ_INVALID),
        (sq(1, 0, 2).to_sqe(), command::CQ_INVALID),
        (delete_cq(1), command::INVALID_QUEUE_ID),
        (delete_sq(1), command::INVALID_QUEUE_ID),
        (delete_sq(0), command::INVALID_QUEUE_ID),
    ];
    for (sqe, status) in refused {
        assert_status(driver.admin.run(&sqe), status);
    }
    driver.admin.run(&cq(1, 299).to_sqe()).unwrap();
    driver
        .admin
        .run(&nvme_proto::admin::CreateCq { interrupt_vector: Some(2), ..cq(2, 2) }.to_sqe())
        .unwrap();
    driver.admin.run(&sq(3, 1, 2).to_sqe()).unwrap();
    let refused = [
        (cq(1, 2).to_sqe(), command::INVALID_QUEUE_ID),
        (sq(0, 1, 2).to_sqe(), command::INVALID_QUEUE_ID),
        (sq(3, 1, 2).to_sqe(), command::INVALID_QUEUE_ID),
        (sq(5, 1, 2).to_sqe(), command::INVALID_QUEUE_ID),
        (sq(4, 1, 1).to_sqe(), command::INVALID_QUEUE_SIZE),
        (sq(4, 1, 300).to_sqe(), command::INVALID_QUEUE_SIZE),
        (create_sq(4, 1, 2, off).to_sqe(), generic::PRP_OFFSET_INVALID),
        (
            nvme_proto::admin::CreateSq { physically_contiguous: false, ..sq(4, 1, 2) }.to_sqe(),
            generic::INVALID_FIELD,
        ),
        (delete_cq(1), command::INVALID_QUEUE_DELETION),
    ];
    for (sqe, status) in refused {
        assert_status(driver.admin.run(&sqe), status);
    }
    for sqe in [delete_sq(3), delete_cq(1), delete_cq(2)] {
        driver.admin.run(&sqe).unwrap();
    }
    driver.emu.assert_clean();
}

#[test]
fn a_controller_that_reports_no_queue_entries_takes_some() {
    let mut driver = Driver::new(EmuConfig { mqes_z: 0, ..stepped() });
    let mut queue = driver.open(1, 64);
    write_data(&driver, &mut queue, write(0, 1), &[1; 512]).unwrap();
}

#[test]
fn commands_that_are_malformed_or_unknown_are_refused() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        let unknown = |opcode: u8| Sqe::new(opcode, Nsid::NONE);
        let with_flags = |flags: u8| Sqe { flags, ..Identify::controller().to_sqe() };
        let refused = [
            (unknown(0x03), generic::INVALID_OPCODE),
            (unknown(0x7c), generic::INVALID_OPCODE),
            (unknown(0x15), generic::INVALID_OPCODE),
            (unknown(0xff), generic::INVALID_OPCODE),
            (KeepAlive.to_sqe(), generic::INVALID_OPCODE),
            (with_flags(1), generic::INVALID_FIELD),
            (with_flags(0x40), generic::INVALID_FIELD),
            (with_flags(0x80), generic::INVALID_FIELD),
            (with_flags(0xc0), generic::INVALID_FIELD),
            (Sqe { flags: 0x40, ..AsyncEventRequest.to_sqe() }, generic::INVALID_FIELD),
        ];
        for (sqe, status) in refused {
            let result = driver.admin.run(&sqe);
            assert!(result.unwrap_err().do_not_retry(), "{status}");
            assert_status(result, status);
        }
    });
}

#[test]
fn identify_shows_what_there_is() {
    let namespaces = vec![
        NamespaceConfig::new(2, 1 << 20, 512),
        NamespaceConfig { noiob: 256, npwg: 8, ..NamespaceConfig::new(7, 1 << 20, 4096) },
        NamespaceConfig { attached: false, ..NamespaceConfig::new(9, 1 << 20, 512) },
        NamespaceConfig { write_protected: true, ..NamespaceConfig::new(0x1_0000, 1 << 20, 512) },
    ];
    let config = EmuConfig { namespaces, vwc: true, sgl: true, dbbuf: true, mdts: 3, mpsmin: 1, ..stepped() };
    let mut driver = Driver::new(config);

    let controller = Controller::read_from_bytes(&driver.identify(Identify::controller()).unwrap()).unwrap();
    assert_eq!(controller.nn.get(), 0x1_0000);
    assert_eq!(controller.mdts, 3);
    assert_eq!((controller.sqes, controller.cqes, controller.vwc), (0x66, 0x44, 0b111));
    assert_eq!(controller.sgls.get() & 0b11, 1);
    assert_ne!(controller.oacs.get() & 1 << 8, 0);
    assert!(controller.rtd3e_us.get() != 0 && controller.sn.as_str().starts_with("EMU"));

    let list = |driver: &mut Driver, cns, after| {
        let bytes = driver.identify(Identify::new(cns, Nsid(after))).unwrap();
        let list = NamespaceList::read_from_bytes(&bytes).unwrap();
        list.iter().map(|nsid| nsid.0).collect::<Vec<_>>()
    };
    assert_eq!(list(&mut driver, Cns::ACTIVE_NAMESPACES, 0), [2, 7, 0x1_0000]);
    assert_eq!(list(&mut driver, Cns::ACTIVE_NAMESPACES, 2), [7, 0x1_0000]);
    assert_eq!(list(&mut driver, Cns::ALLOCATED_NAMESPACES, 2), [7, 9, 0x1_0000]);
    assert_eq!(list(&mut driver, Cns::ACTIVE_NAMESPACES, 0xffff_fffd), []);

    let mut namespace = |cns, nsid| {
        let bytes = driver.identify(Identify::new(cns, Nsid(nsid)));
        bytes.map(|bytes| Namespace::read_from_bytes(&bytes).unwrap())
    };
    let seven = namespace(Cns::NAMESPACE, 7).unwrap();
    assert_eq!((seven.nsze.get(), seven.lba_bytes(), seven.noiob.get()), (256, Some(4096), 256));
    assert_eq!(seven.preferred_write_blocks(), Some(8));
    assert!(namespace(Cns::NAMESPACE, 0x1_0000).unwrap().is_write_protected());
    for nsid in [1, 8, 9] {
        assert_eq!(namespace(Cns::NAMESPACE, nsid).unwrap().nsze.get(), 0, "inactive ones read as zeroes");
    }
    assert_eq!(namespace(Cns::ALLOCATED_NAMESPACE, 9).unwrap().nsze.get(), 2048);
    for nsid in [0, 0x1_0001, 0xffff_ffff] {
        assert!(namespace(Cns::NAMESPACE, nsid).unwrap_err().is(generic::INVALID_NAMESPACE_OR_FORMAT));
    }

    let descriptors = driver.identify(Identify::namespace_descriptors(Nsid(7))).unwrap();
    assert_eq!(NamespaceDescriptors::read_from_bytes(&descriptors).unwrap().iter().count(), 3);
    let controllers = driver.identify(Identify::namespace_controllers(Nsid(7), 0)).unwrap();
    assert_eq!(ControllerList::read_from_bytes(&controllers).unwrap().iter().collect::<Vec<_>>(), [0]);
    assert_eq!(driver.identify(Identify::new(Cns::COMMON_NAMESPACE, Nsid(7))).unwrap()[14], 1);
    driver.identify(Identify::csi_controller(Csi::NVM)).unwrap();
    driver.identify(Identify::csi_namespace(Nsid(7), Csi::NVM)).unwrap();
    let refused = [
        (Identify::csi_controller(Csi::ZONED), generic::INVALID_FIELD),
        (Identify::csi_namespace(Nsid(7), Csi::ZONED), generic::INVALID_FIELD),
        (Identify::new(Cns(0x1c), Nsid::NONE), generic::INVALID_FIELD),
        (Identify::new(Cns(0xff), Nsid::NONE), generic::INVALID_FIELD),
        (Identify::namespace_descriptors(Nsid(9)), generic::INVALID_NAMESPACE_OR_FORMAT),
        (Identify::active_namespaces(Nsid(0xffff_fffe)), generic::INVALID_NAMESPACE_OR_FORMAT),
        (Identify::active_namespaces(Nsid::ALL), generic::INVALID_NAMESPACE_OR_FORMAT),
    ];
    for (identify, status) in refused {
        assert!(driver.identify(identify).unwrap_err().is(status));
    }
}

/// Drivers that mask FLBAS with Fh take format 0 for format 16, and those that ignore metadata move wrong lengths.
#[test]
fn odd_formats_are_told_as_they_are() {
    let namespaces = vec![
        NamespaceConfig { format_index: Some(33), ..NamespaceConfig::new(1, 1 << 20, 4096) },
        NamespaceConfig { metadata_bytes: 8, extended_lba: true, ..NamespaceConfig::new(2, 1 << 20, 512) },
        NamespaceConfig { metadata_bytes: 64, ..NamespaceConfig::new(3, 1 << 20, 4096) },
    ];
    let mut driver = Driver::new(EmuConfig { namespaces, ..stepped() });
    let mut namespace = |nsid| {
        let bytes = driver.identify(Identify::namespace(Nsid(nsid))).unwrap();
        Namespace::read_from_bytes(&bytes).unwrap()
    };
    let far = namespace(1);
    assert_eq!((far.flbas, far.lba_format_index(), far.lba_bytes()), (0x41, 33, Some(4096)));
    assert_eq!(namespace(2).wire_block_bytes(), Some(520));
    assert!(namespace(3).has_metadata() && !namespace(3).extended_lba());
}

#[test]
fn queues_are_granted_once_and_before_they_are_made() {
    let mut driver = Driver::new(EmuConfig { queues: 8, ..stepped() });
    let asked = |pairs| SetFeatures::new(NumberOfQueues::of_pairs(Count16::new(pairs).unwrap())).to_sqe();
    let get = GetFeatures::new(FeatureId::NUMBER_OF_QUEUES).to_sqe();
    assert_eq!(driver.admin.run(&get), Ok(0x0007_0007));
    assert_status(driver.admin.run(&asked(0x1_0000)), generic::INVALID_FIELD);
    assert_eq!(driver.admin.run(&asked(6)), Ok(0x0005_0005));
    assert_eq!(driver.admin.run(&asked(2)), Ok(0x0005_0005), "it does not change between resets");
    assert_eq!(driver.admin.run(&get), Ok(0x0005_0005));
    let memory = driver.buffer(4096);
    let base = memory.mapping().contiguous().unwrap();
    assert_status(driver.admin.run(&create_cq(7, 2, base).to_sqe()), command::INVALID_QUEUE_ID);
    driver.admin.run(&create_cq(6, 2, base).to_sqe()).unwrap();
    assert_status(driver.admin.run(&asked(6)), generic::COMMAND_SEQUENCE_ERROR);

    let oddities = Oddities { grant_queues: Some((3, 1)), ..Oddities::default() };
    let mut fewer = Driver::new(EmuConfig { oddities, ..stepped() });
    assert_eq!(fewer.admin.run(&asked(64)), Ok(0x0000_0002));
    let oddities = Oddities { refuse_number_of_queues: true, ..Oddities::default() };
    let mut none = Driver::new(EmuConfig { oddities, ..stepped() });
    assert!(none.admin.run(&asked(64)).is_err());
}

#[test]
fn features_are_kept_until_a_reset_and_wrong_ones_refused() {
    let mut driver = Driver::new(EmuConfig { vectors: 2, ..stepped() });
    for (id, value) in [
        (FeatureId::ARBITRATION, 0x0102_0307),
        (FeatureId::ERROR_RECOVERY, 5),
        (FeatureId::INTERRUPT_COALESCING, 0x0207),
        (FeatureId::WRITE_ATOMICITY, 1),
        (FeatureId::ASYNC_EVENT_CONFIG, 0x0103),
    ] {
        driver.admin.run(&SetFeatures::raw(id, value).to_sqe()).unwrap();
        assert_eq!(driver.admin.run(&GetFeatures::new(id).to_sqe()), Ok(value.into()), "{id}");
        let default = GetFeatures { select: Select::DEFAULT, ..GetFeatures::new(id) };
        assert_eq!(driver.admin.run(&default.to_sqe()), Ok(0), "{id}");
        let capabilities = GetFeatures { select: Select::SUPPORTED_CAPABILITIES, ..default };
        assert_eq!(driver.admin.run(&capabilities.to_sqe()), Ok(4), "{id}");
        let save = SetFeatures { save: true, ..SetFeatures::raw(id, value) };
        assert_status(driver.admin.run(&save.to_sqe()), command::FEATURE_NOT_SAVEABLE);
        let specific = SetFeatures { nsid: Nsid(1), ..SetFeatures::raw(id, value) };
        assert_status(driver.admin.run(&specific.to_sqe()), command::FEATURE_NOT_NAMESPACE_SPECIFIC);
        let nobody = SetFeatures { nsid: Nsid(5), ..specific };
        assert_status(driver.admin.run(&nobody.to_sqe()), generic::INVALID_NAMESPACE_OR_FORMAT);
    }
    let vector = InterruptVectorConfig::new().with_iv(1).with_cd(true);
    driver.admin.run(&SetFeatures::new(vector).to_sqe()).unwrap();
    let get = GetFeatures { cdw11: 1, ..GetFeatures::new(FeatureId::INTERRUPT_VECTOR_CONFIG) };
    assert_eq!(driver.admin.run(&get.to_sqe()), Ok(vector.to_dword().into()));

    let cache = VolatileWriteCache::new().with_wce(true);
    let refused = [
        SetFeatures::new(cache).to_sqe(),
        GetFeatures::new(FeatureId::VOLATILE_WRITE_CACHE).to_sqe(),
        SetFeatures::new(InterruptVectorConfig::new().with_iv(2)).to_sqe(),
        SetFeatures::new(PowerManagement::new().with_ps(1)).to_sqe(),
        SetFeatures::new(TemperatureThreshold::new().with_tmpsel(3)).to_sqe(),
        SetFeatures::raw(FeatureId(0x33), 0).to_sqe(),
        GetFeatures::new(FeatureId::HOST_MEMORY_BUFFER).to_sqe(),
        GetFeatures { select: Select(4), ..GetFeatures::new(FeatureId::ARBITRATION) }.to_sqe(),
    ];
    for sqe in refused {
        assert_status(driver.admin.run(&sqe), generic::INVALID_FIELD);
    }

    let emu = driver.shut_down();
    let mut again = Driver::on(&emu, nvme_proto::PageSize::MIN);
    assert_eq!(again.admin.run(&GetFeatures::new(FeatureId::ARBITRATION).to_sqe()), Ok(0));
}

#[test]
fn host_behavior_travels_in_a_buffer() {
    let mut driver = Driver::new(stepped());
    let buffer = driver.buffer(4096);
    let mut sent = [0; 512];
    sent[2] = 1;
    buffer.shared().copy_in(0, &sent).unwrap();
    let pointer = DataPointer::prp(buffer.mapping().contiguous().unwrap(), BusAddr(0));
    let set = SetFeatures::raw(FeatureId::HOST_BEHAVIOR_SUPPORT, 0).to_sqe().with_data_pointer(pointer);
    driver.admin.run(&set).unwrap();
    let got: [u8; 512] = driver.fetch(&GetFeatures::new(FeatureId::HOST_BEHAVIOR_SUPPORT).to_sqe()).unwrap();
    assert_eq!(HostBehaviorSupport::read_from_bytes(&got).unwrap().lbafee, 1);
}

fn log<const N: usize>(driver: &mut Driver, lid: LogId) -> Result<[u8; N], Status> {
    driver.fetch(&GetLogPage::new(lid, N as u64).unwrap().to_sqe())
}

#[test]
fn logs_tell_what_happened() {
    let mut driver = Driver::new(EmuConfig { vwc: true, ..stepped() });
    let mut queue = driver.open(1, 16);
    write_data(&driver, &mut queue, write(0, 16), &[3; 8192]).unwrap();
    read_data(&driver, &mut queue, read(0, 1), 512).unwrap();
    assert_status(
        queue.run(&nvme_proto::nvm::ReadWrite { nsid: Nsid(4), ..read(0x55, 1) }.to_sqe()),
        generic::INVALID_NAMESPACE_OR_FORMAT,
    );

    let smart = Smart::read_from_bytes(&log::<512>(&mut driver, LogId::SMART).unwrap()).unwrap();
    assert_eq!((smart.host_reads.get(), smart.host_writes.get()), (1, 1));
    assert_eq!((smart.data_units_read.get(), smart.data_units_written.get()), (1, 1));
    assert_eq!((smart.error_log_entries.get(), smart.power_cycles.get()), (1, 1));
    assert_eq!((smart.temperature_k.get(), smart.available_spare), (310, 100));

    let entry = ErrorEntry::read_from_bytes(&log::<64>(&mut driver, LogId::ERROR).unwrap()).unwrap();
    assert_eq!((entry.count.get(), entry.lba.get(), entry.nsid.get()), (1, 0x55, 4));
    assert_eq!(entry.sqid(), Some(Qid(1)));
    assert!(entry.status().is(generic::INVALID_NAMESPACE_OR_FORMAT));

    let slots =
        FirmwareSlots::read_from_bytes(&log::<512>(&mut driver, LogId::FIRMWARE_SLOTS).unwrap()).unwrap();
    assert_eq!((slots.active_slot(), slots.revision(1).unwrap().as_str()), (1, "1.0"));
    let effects = log::<4096>(&mut driver, LogId::EFFECTS).unwrap();
    assert_eq!(effects[1024 + 4], 0b11, "writes change blocks");
    assert_eq!(effects[0x7c * 4], 0, "no doorbell buffers");
    assert_eq!(log::<16>(&mut driver, LogId::CHANGED_NAMESPACES).unwrap(), [0; 16]);

    let with_offset = GetLogPage { offset: 160, ..GetLogPage::new(LogId::SMART, 4).unwrap() };
    driver.fetch::<4>(&with_offset.to_sqe()).unwrap();
    let get = |lid, len| GetLogPage::new(lid, len).unwrap();
    let refused = [
        (get(LogId(0x99), 512), command::INVALID_LOG_PAGE),
        (get(LogId::TELEMETRY_HOST, 512), command::INVALID_LOG_PAGE),
        (GetLogPage { offset: 516, ..get(LogId::SMART, 4) }, generic::INVALID_FIELD),
        (GetLogPage { offset: 2, ..get(LogId::SMART, 4) }, generic::INVALID_FIELD),
        (GetLogPage { offset_is_index: true, ..get(LogId::SMART, 4) }, generic::INVALID_FIELD),
        (GetLogPage { nsid: Nsid(1), ..get(LogId::SMART, 4) }, generic::INVALID_FIELD),
        (get(LogId::SMART, (128 << 10) + 4), generic::INVALID_FIELD),
    ];
    for (get, status) in refused {
        assert_status(driver.admin.run(&get.to_sqe()), status);
    }
    driver.emu.assert_clean();
}

/// A driver asked for 1025 dwords into a page: the last four bytes went past it.
#[test]
fn a_log_that_is_one_dword_longer_than_its_buffer_is_caught() {
    let mut driver = Driver::new(stepped());
    let page = driver.buffer(4096);
    let pointer = DataPointer::prp(page.mapping().contiguous().unwrap(), BusAddr(0));
    let get = GetLogPage::new(LogId::EFFECTS, 4100).unwrap().to_sqe().with_data_pointer(pointer);
    assert_status(driver.admin.run(&get), generic::DATA_TRANSFER_ERROR);
    assert_eq!(driver.emu.violations().len(), 1);
}

#[test]
fn aborts_take_back_what_is_not_executed() {
    let latency = core::time::Duration::from_millis(1);
    let mut driver = Driver::new(EmuConfig { latency, ..stepped() });
    let mut queue = driver.open(1, 16);
    let cid = queue.send(&Flush { nsid: Nsid(1) }.to_sqe());
    assert!(driver.emu.step());
    assert_eq!(driver.admin.run(&Abort { sqid: Qid(1), cid }.to_sqe()), Ok(0));
    let cqe = queue.wait();
    assert!(cqe.cid() == cid && cqe.status().is(generic::ABORT_REQUESTED));
    assert_eq!(driver.admin.run(&Abort { sqid: Qid(1), cid }.to_sqe()), Ok(1));
    assert_eq!(driver.admin.run(&Abort { sqid: Qid(9), cid }.to_sqe()), Ok(1));

    // Five at once are one too many.
    let abort = Abort { sqid: Qid(1), cid: Cid(99) }.to_sqe();
    for cid in 100..105 {
        driver.admin.send_as(Cid(cid), &abort);
    }
    ugds_hal::Port::publish(&mut driver.admin.port);
    let refused = (0..5).filter(|_| driver.admin.wait().status().is(command::ABORT_LIMIT_EXCEEDED)).count();
    assert_eq!(refused, 1);

    let cid = driver.admin.send(&AsyncEventRequest.to_sqe());
    let abort = driver.admin.send(&Abort { sqid: Qid::ADMIN, cid }.to_sqe());
    let first = driver.admin.wait();
    assert!(first.cid() == cid && first.status().is(generic::ABORT_REQUESTED));
    assert_eq!((driver.admin.wait().cid(), driver.emu.step()), (abort, false));
}

#[test]
fn format_changes_the_blocks_and_loses_the_data() {
    in_both_modes(|config| {
        let mut driver = Driver::new(config);
        let mut queue = driver.open(1, 16);
        write_data(&driver, &mut queue, write(8, 8), &pattern(1, 4096)).unwrap();
        driver.admin.run(&FormatNvm::new(Nsid(1), 1).to_sqe()).unwrap();
        let bytes = driver.identify(Identify::namespace(Nsid(1))).unwrap();
        let namespace = Namespace::read_from_bytes(&bytes).unwrap();
        assert_eq!((namespace.lba_bytes(), namespace.nsze.get()), (Some(4096), 1 << 18));
        assert_eq!(read_data(&driver, &mut queue, read(1, 1), 4096).unwrap(), [0; 4096]);
        let refused = [
            (FormatNvm::new(Nsid(1), 63), command::INVALID_FORMAT),
            (FormatNvm { protection_type: 1, ..FormatNvm::new(Nsid(1), 2) }, command::INVALID_FORMAT),
            (FormatNvm { extended_lba: true, ..FormatNvm::new(Nsid(1), 0) }, command::INVALID_FORMAT),
            (
                FormatNvm { secure_erase: SecureErase(3), ..FormatNvm::new(Nsid(1), 0) },
                generic::INVALID_FIELD,
            ),
            (FormatNvm::new(Nsid(2), 0), generic::INVALID_NAMESPACE_OR_FORMAT),
            (FormatNvm::new(Nsid::NONE, 0), generic::INVALID_NAMESPACE_OR_FORMAT),
        ];
        for (format, status) in refused {
            assert_status(driver.admin.run(&format.to_sqe()), status);
        }
        driver.admin.run(&FormatNvm::new(Nsid::ALL, 0).to_sqe()).unwrap();
    });
}

#[test]
fn other_commands_wait_for_a_sanitize() {
    let mut driver = Driver::new(stepped());
    let mut queue = driver.open(1, 16);
    write_data(&driver, &mut queue, write(0, 1), &[7; 512]).unwrap();
    let state = |driver: &mut Driver| {
        let log = SanitizeStatus::read_from_bytes(&log::<512>(driver, LogId::SANITIZE).unwrap()).unwrap();
        (log.state(), log.sprog.get())
    };
    assert_eq!(state(&mut driver), (SanitizeState::NEVER, 0xffff));
    let sanitize = Sanitize::new(SanitizeAction::BLOCK_ERASE).to_sqe();
    driver.admin.run(&sanitize).unwrap();
    assert_eq!(state(&mut driver).0, SanitizeState::IN_PROGRESS);
    assert_status(queue.run(&Flush { nsid: Nsid(1) }.to_sqe()), generic::SANITIZE_IN_PROGRESS);
    assert_status(driver.admin.run(&sanitize), generic::SANITIZE_IN_PROGRESS);
    assert_status(driver.admin.run(&FormatNvm::new(Nsid(1), 0).to_sqe()), generic::SANITIZE_IN_PROGRESS);
    let clock = driver.emu.clock();
    clock.wait_until(clock.now().after(core::time::Duration::from_millis(10)));
    assert_eq!(state(&mut driver), (SanitizeState::COMPLETED, 0xffff));
    assert_eq!(read_data(&driver, &mut queue, read(0, 1), 512).unwrap(), [0; 512]);
    assert_status(driver.admin.run(&Sanitize::new(SanitizeAction(6)).to_sqe()), generic::INVALID_FIELD);
    driver.admin.run(&Sanitize::new(SanitizeAction::EXIT_FAILURE_MODE).to_sqe()).unwrap();
}

#[test]
fn doorbell_buffers_need_whole_pages() {
    let mut driver = Driver::new(EmuConfig { dbbuf: true, ..stepped() });
    for (shadow, event_idx) in [(0, 0x1000), (0x1000, 0), (0x1004, 0x2000), (0x1000, 0x2008)] {
        let config = DoorbellBufferConfig { shadow: BusAddr(shadow), event_idx: BusAddr(event_idx) };
        assert_status(driver.admin.run(&config.to_sqe()), generic::INVALID_FIELD);
    }
}

#[test]
fn commands_are_counted() {
    let mut driver = Driver::new(stepped());
    let before = driver.emu.stats();
    driver.identify(Identify::controller()).unwrap();
    let mut queue = driver.open(1, 16);
    write_data(&driver, &mut queue, write(0, 2), &[7; 1024]).unwrap();
    let after = driver.emu.stats();
    assert_eq!(after.admin(6) - before.admin(6), 1);
    assert_eq!((after.io(Opcode::WRITE.0), after.io(Opcode::READ.0)), (1, 0));
    assert_eq!((after.bytes_from_host, after.bytes_to_host), (1024, 0));
    assert_eq!(after.submission_doorbells - before.submission_doorbells, 4);
    assert_eq!(after.completion_doorbells - before.completion_doorbells, 4);
    assert_eq!(AsyncEventConfig::new().to_dword(), 0);
}
