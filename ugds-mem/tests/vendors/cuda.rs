//! Loading the CUDA driver, asking it, and what it may answer instead.

use crate::app::{App, error_of};
use crate::stubs::Stub;
use ugds_mem::cuda::Cuda;
use ugds_mem::gpu::{Code, GpuError, Kind, PciAddress, PeerWrites, WhyStaged};

/// All that the driver must have.
const NEEDED: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuPointerSetAttribute",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
];

#[test]
fn a_machine_without_the_driver_is_told_what_it_lacks() {
    let error = error_of(Cuda::load_from(Stub::empty().folder()));
    assert!(matches!(error, GpuError::Library { library: "libcuda.so.1", .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("libcuda.so.1") && text.contains("install"), "{text}");
    assert!(text.contains("No such file"), "the loader's own reason is there: {text}");
}

#[test]
fn each_function_that_is_needed_is_named_when_it_is_missing() {
    for name in NEEDED {
        let error = error_of(Cuda::load_from(Stub::cuda(&[name]).folder()));
        assert!(matches!(error, GpuError::Symbol { symbol, .. } if symbol == *name), "{name}: {error}");
    }
}

#[test]
fn loading_makes_no_context_and_asks_nothing_of_the_thread() {
    let stub = Stub::cuda(&[]);
    let _cuda = Cuda::load_from(stub.folder()).unwrap();
    assert_eq!((stub.count("contexts"), stub.count("depth")), (0, 0));
}

#[test]
fn a_driver_that_does_not_start_says_why_by_its_own_name_of_any_code() {
    for (code, name) in [
        (100, "CUDA_ERROR_NO_DEVICE"),
        (-7, "no name"),
        (123_456, "no name"),
        // Known, but without a name.
        (4242, "no name"),
    ] {
        let stub = Stub::cuda(&[]);
        stub.set(&format!("cuInit={code}"));
        let error = error_of(Cuda::load_from(stub.folder()));
        assert!(
            matches!(&error, GpuError::Call { call: "cuInit", code: Code(c), .. } if *c == code),
            "{error:?}"
        );
        assert!(error.to_string().contains(name), "{error}");
    }
    let stub = Stub::cuda(&[]);
    stub.set("cuDriverGetVersion=3");
    let error = error_of(Cuda::load_from(stub.folder()));
    assert!(matches!(error, GpuError::Call { call: "cuDriverGetVersion", code: Code(3), .. }), "{error:?}");
}

#[test]
fn an_old_driver_is_told_apart() {
    for (version, found) in [(11_030, Some("11.3")), (11_040, None), (13_000, None), (0, Some("0.0"))] {
        let stub = Stub::cuda(&[]);
        stub.set(&format!("version={version}"));
        match (Cuda::load_from(stub.folder()), found) {
            (Ok(_), None) => {}
            (Err(GpuError::Version { found, needed: "11.4", .. }), Some(expected)) => {
                assert_eq!(found, expected);
            }
            (other, _) => panic!("{version}: {other:?}"),
        }
    }
}

#[test]
fn ordinary_memory_is_told_by_whatever_a_driver_may_say() {
    let app = App::new();
    let address = app.alloc(8192);
    let pointer = app.cuda.describe(address + 4096).unwrap();
    assert_eq!((pointer.kind, pointer.base, pointer.len_bytes), (Kind::Device, address, 8192));
    assert_eq!(pointer.pci, Some(PciAddress { domain: 0, bus: 0x3b, device: 0, function: 0 }));
    assert_eq!((pointer.ordinal, pointer.rdma_capable), (0, Some(true)));
    assert_eq!(pointer.context, app.context as usize);
    assert_ne!(pointer.buffer_id, 0);

    assert_eq!(app.cuda.describe(0x1000).unwrap().kind, Kind::Unknown);
    // Some drivers refuse unknown addresses instead.
    app.stub.set("cuPointerGetAttributes=1");
    assert_eq!(app.cuda.describe(address).unwrap().kind, Kind::Unknown);
    app.stub.set("cuPointerGetAttributes=700");
    assert!(matches!(app.cuda.describe(address), Err(GpuError::Call { code: Code(700), .. })));
    app.stub.set("cuPointerGetAttributes=");
    // A kind that is not known yet is a kind, and no GPU's.
    for (number, kind) in [(3, Kind::Other(3)), (77, Kind::Other(77)), (4, Kind::Managed), (1, Kind::Host)] {
        app.stub.set(&format!("memory_type={number}"));
        assert_eq!(app.cuda.describe(address).unwrap().kind, kind);
    }
    app.stub.set("memory_type=77");
    let error = error_of(app.register(address, 4096));
    assert!(matches!(error, GpuError::NotGpu { kind: Kind::Other(77), .. }), "{error:?}");
}

#[test]
fn what_a_driver_says_about_a_gpu_is_not_believed_blindly() {
    let app = App::new();
    let address = app.alloc(4096);
    app.stub.set("pci_garbage=1");
    let error = error_of(app.cuda.describe(address));
    assert!(matches!(error, GpuError::Nonsense { call: "cuDeviceGetPCIBusId", .. }), "{error:?}");
    app.stub.set("pci_garbage=,ordinal=9");
    assert!(matches!(
        app.cuda.describe(address),
        Err(GpuError::Call { call: "cuDeviceGet", code: Code(101), .. })
    ));
    app.stub.set("ordinal=,cuDeviceGetPCIBusId=999");
    assert!(matches!(app.cuda.describe(address), Err(GpuError::Call { call: "cuDeviceGetPCIBusId", .. })));
    // Attributes that a driver does not have are unknown, and not no.
    app.stub.set("cuDeviceGetPCIBusId=,cuPointerGetAttribute=1");
    let pointer = app.cuda.describe(address).unwrap();
    assert_eq!((pointer.rdma_capable, pointer.handle_types, pointer.context), (None, 0, 0));
}

#[test]
fn ranges_outside_of_their_allocation_are_refused() {
    let app = App::new();
    let address = app.alloc(8192);
    for (at, len) in [(address, 8193), (address, 0), (address + 8191, 2), (address + 1, usize::MAX)] {
        let error = error_of(app.register(at, len));
        let GpuError::Range { limit_address, limit_bytes, .. } = error else { panic!("{error:?}") };
        assert_eq!((limit_address, limit_bytes), (address, 8192));
    }
    assert!(matches!(app.register(0x10, 4), Err(GpuError::NotGpu { kind: Kind::Unknown, .. })));
}

#[test]
fn memory_that_no_peer_reaches_is_staged_with_its_reason() {
    let app = App::new();
    let staged = |address| app.register(address, 4096).unwrap().path().why_staged().cloned();
    assert_eq!(staged(app.alloc(4096)), None);
    assert_eq!(staged(app.managed(4096)), Some(WhyStaged::Managed));
    assert_eq!(staged(app.pool(4096)), Some(WhyStaged::Pool));
    app.stub.set("rdma_attribute=0");
    assert_eq!(staged(app.alloc(4096)), Some(WhyStaged::NotRdmaCapable));
    // A driver that does not know the attribute is asked by an attempt.
    app.stub.set("rdma_attribute=-1");
    assert_eq!(staged(app.alloc(4096)), None);
    app.stub.set("rdma_attribute=");
    for dmabuf in [0, -1] {
        app.stub.set(&format!("dmabuf={dmabuf}"));
        assert_eq!(staged(app.alloc(4096)), Some(WhyStaged::NoDmabuf));
    }
    // Whatever the way, the bytes get there.
    let registration = app.memory(4096);
    assert!(registration.path_text().starts_with("staged: the GPU's driver does not export"));
    registration.copy_in(1, b"staged").unwrap();
    let mut back = [0; 6];
    registration.copy_out(1, &mut back).unwrap();
    assert_eq!(&back, b"staged");
}

#[test]
fn host_memory_of_the_driver_is_known_as_such() {
    let app = App::new();
    app.stub.set("memory_type=1");
    let error = error_of(app.register(app.alloc(4096), 4096));
    assert!(matches!(error, GpuError::NotGpu { kind: Kind::Host, .. }), "{error:?}");
    assert!(error.to_string().contains("pinned host memory"), "{error}");
}

#[test]
fn calls_leave_the_callers_context_as_it_was() {
    let app = App::new();
    let address = app.alloc(4096);
    let registration = app.register(address, 4096).unwrap();
    registration.copy_in(0, &[1; 16]).unwrap();
    assert_eq!(app.stub.count("depth"), 1);
    // A thread without one gets none, and needs none.
    app.leave();
    registration.copy_in(0, &[2; 16]).unwrap();
    let other = app.register(address, 4096).unwrap();
    assert!(other.path().why_staged().is_none());
    assert_eq!(app.stub.count("depth"), 0);
    // Also when what is called inside fails.
    app.stub.set("cuMemGetHandleForAddressRange=801");
    assert!(app.register(address, 4096).unwrap().path().why_staged().is_some());
    assert_eq!(app.stub.count("depth"), 0);
    assert_eq!(app.stub.count("contexts"), 1, "the application's, and no other");
}

#[test]
fn memory_without_a_context_uses_the_current_one_else_the_primary_one_but_makes_none() {
    let app = App::new();
    let pool = app.register(app.pool(4096), 4096).unwrap();
    pool.copy_in(0, b"current").unwrap();
    assert_eq!(app.stub.count("retains"), 1, "the current one was used as it is");
    app.leave();
    let other = app.register(app.pool(4096), 4096).unwrap();
    other.copy_in(0, b"primary").unwrap();
    assert!(app.stub.count("retains") > 1, "the primary one is kept while it is used");
    drop(other);
    assert_eq!(app.stub.count("retains"), 1, "and let go after");
    // A current context of another GPU is none for this one.
    app.enter();
    app.stub.set("current_device=1");
    let third = app.register(app.pool(4096), 4096).unwrap();
    third.copy_in(0, b"primary").unwrap();
    assert!(app.stub.count("retains") > 1);
}

#[test]
fn without_any_context_there_is_an_error_and_no_new_context() {
    let stub = Stub::cuda(&[]);
    let app = App::with(stub);
    let address = app.pool(4096);
    let registration = app.register(address, 4096).unwrap();
    app.leave();
    // SAFETY: the type is that of the stub.
    unsafe {
        let release: unsafe extern "C" fn(i32) -> i32 = app.stub.function("cuDevicePrimaryCtxRelease_v2");
        assert_eq!(release(0), 0);
    }
    let error = error_of(registration.copy_in(0, b"nowhere"));
    assert_eq!(error, GpuError::NoContext { ordinal: 0 });
    assert_eq!(app.stub.count("retains"), 0);
}

#[test]
fn each_call_on_the_way_to_a_context_may_fail() {
    for call in ["cuDeviceGet", "cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxPushCurrent_v2"] {
        let app = App::new();
        let registration = app.register(app.pool(4096), 4096).unwrap();
        app.stub.set(&format!("{call}=201"));
        let error = error_of(registration.copy_in(0, &[1]));
        let GpuError::Call { call: failed, code: Code(201), .. } = error else { panic!("{call}: {error:?}") };
        assert!(call.starts_with(failed), "{failed}");
    }
    for call in ["cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRetain"] {
        let app = App::new();
        let registration = app.register(app.pool(4096), 4096).unwrap();
        app.leave();
        app.stub.set(&format!("{call}=999"));
        assert!(
            matches!(registration.copy_in(0, &[1]), Err(GpuError::Call { code: Code(999), .. })),
            "{call}"
        );
    }
}

#[test]
fn how_peers_writes_become_visible_is_chosen_from_what_the_gpu_can() {
    let app = App::new();
    let pointer = app.cuda.describe(app.alloc(4096)).unwrap();
    for (settings, expected) in [
        ("ordering=100", PeerWrites::InOrder),
        ("ordering=200", PeerWrites::InOrder),
        ("ordering=0", PeerWrites::AfterFlush),
        ("ordering=0,flush=0", PeerWrites::Unproven),
        ("ordering=0,flush=2", PeerWrites::Unproven),
    ] {
        app.stub.set(settings);
        assert_eq!(app.cuda.peer_writes(&pointer).unwrap(), expected, "{settings}");
    }
    app.cuda.flush_peer_writes(&pointer).unwrap();
    assert_eq!(app.stub.count("flushes"), 1);
    app.stub.set("cuFlushGPUDirectRDMAWrites=801");
    assert!(matches!(
        app.cuda.flush_peer_writes(&pointer),
        Err(GpuError::Call { code: Code::NOT_SUPPORTED, .. })
    ));
    app.stub.set("cuDeviceGetAttribute=999");
    assert!(matches!(app.cuda.peer_writes(&pointer), Err(GpuError::Call { code: Code(999), .. })));
}

#[test]
fn a_driver_without_a_flush_has_no_way_but_order() {
    let app = App::with(Stub::cuda(&["cuFlushGPUDirectRDMAWrites"]));
    let pointer = app.cuda.describe(app.alloc(4096)).unwrap();
    app.stub.set("ordering=0");
    assert_eq!(app.cuda.peer_writes(&pointer).unwrap(), PeerWrites::Unproven);
    let error = error_of(app.cuda.flush_peer_writes(&pointer));
    assert!(matches!(error, GpuError::Symbol { symbol: "cuFlushGPUDirectRDMAWrites", .. }), "{error:?}");
}
