//! HIP and HSA, by stand-ins: two GPUs, at 0000:c1:00.0 and 0000:c2:00.0.

use crate::app::{error_of, peek};
use crate::stubs::Stub;
use nix::sys::uio::pread;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use ugds_mem::gpu::{
    Code, GpuError, How, Kind, Path, PciAddress, PeerWrites, Piece, Registration, Staging, StagingOptions,
    Vendor, VendorName, WhyStaged,
};
use ugds_mem::hip::Hip;

struct App {
    stub: Stub,
    hip: Arc<dyn Vendor>,
}

fn stubs(lacking: &[&str], hsa_lacks: &[&str]) -> Stub {
    let stub = Stub::empty().with("hip.c", "libamdhip64.so", lacking);
    stub.with("hsa.c", "libhsa-runtime64.so.1", hsa_lacks)
}

impl App {
    fn new() -> Self {
        Self::with(stubs(&[], &[]))
    }

    fn with(stub: Stub) -> Self {
        type Export = unsafe extern "C" fn(u64, u64, *mut u64) -> c_int;
        // SAFETY: the types are those of the stubs, which stay loaded as long as each other.
        unsafe {
            let export: Export = stub.function("stub_export");
            let exporter: unsafe extern "C" fn(Export) = stub.function_of(1, "stub_exporter");
            exporter(export);
        }
        let hip = Hip::load_from(stub.folder()).unwrap();
        Self { stub, hip }
    }

    fn alloc(&self, function: &str, len: usize) -> u64 {
        let mut address = null_mut();
        // SAFETY: the types are those of the stub; the last argument is ignored by those that take two.
        unsafe {
            let alloc: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int =
                self.stub.function(function);
            assert_eq!(alloc(&raw mut address, len, 0), 0);
        }
        address as u64
    }

    fn set_device(&self, device: c_int) {
        // SAFETY: the type is that of the stub.
        unsafe {
            let set: unsafe extern "C" fn(c_int) -> c_int = self.stub.function("hipSetDevice");
            assert_eq!(set(device), 0);
        }
    }

    fn register(&self, address: u64, len: usize) -> Result<Arc<Registration>, GpuError> {
        // SAFETY: the tests never free what they registered.
        unsafe { Registration::new(&self.hip, address, len, How::Best) }
    }

    fn why(&self, settings: &str) -> WhyStaged {
        self.stub.set(settings);
        let registration = self.register(self.alloc("hipMalloc", 4096), 4096).unwrap();
        registration.path().why_staged().cloned().unwrap_or_else(|| panic!("{settings}: it is direct"))
    }
}

#[test]
fn libraries_functions_and_versions_that_are_missing_are_named() {
    let error = error_of(Hip::load_from(Stub::empty().folder()));
    assert!(matches!(error, GpuError::Library { library: "libamdhip64.so", .. }), "{error:?}");
    assert!(error.to_string().contains("ROCm"), "{error}");
    for name in [
        "hipInit",
        "hipRuntimeGetVersion",
        "hipGetErrorName",
        "hipGetDevice",
        "hipSetDevice",
        "hipDeviceGetPCIBusId",
        "hipPointerGetAttributes",
        "hipPointerGetAttribute",
        "hipPointerSetAttribute",
        "hipMemGetAddressRange",
        "hipHostMalloc",
        "hipHostFree",
        "hipMemcpyAsync",
        "hipStreamCreateWithFlags",
        "hipStreamSynchronize",
        "hipStreamDestroy",
        "hipEventCreateWithFlags",
        "hipEventRecord",
        "hipEventQuery",
        "hipEventSynchronize",
        "hipEventDestroy",
    ] {
        let stub = Stub::empty().with("hip.c", "libamdhip64.so", &[name]);
        let error = error_of(Hip::load_from(stub.folder()));
        assert!(matches!(error, GpuError::Symbol { symbol, .. } if symbol == name), "{name}: {error}");
    }
    let stub = stubs(&[], &[]);
    stub.set("version=50731921");
    let error = error_of(Hip::load_from(stub.folder()));
    assert!(matches!(&error, GpuError::Version { found, needed: "6.0", .. } if found == "5.7"), "{error:?}");
    for (settings, call) in
        [("version=,hipInit=100", "hipInit"), ("hipInit=,hipRuntimeGetVersion=4242", "hipRuntimeGetVersion")]
    {
        stub.set(settings);
        let error = error_of(Hip::load_from(stub.folder()));
        assert!(matches!(&error, GpuError::Call { call: failed, .. } if *failed == call), "{error:?}");
    }
}

#[test]
fn a_library_with_a_number_in_its_name_is_found() {
    let stub = Stub::empty().with("hip.c", "libamdhip64.so.6", &[]);
    assert_eq!(Hip::load_from(stub.folder()).unwrap().version(), "6.2");
}

#[test]
fn memory_is_described_with_its_gpu() {
    let app = App::new();
    assert_eq!(app.hip.name(), VendorName::Hip);
    app.set_device(1);
    let address = app.alloc("hipMalloc", 8192);
    app.set_device(0);
    let pointer = app.hip.describe(address + 100).unwrap();
    assert_eq!((pointer.kind, pointer.base, pointer.len_bytes), (Kind::Device, address, 8192));
    assert_eq!(pointer.pci, Some(PciAddress { domain: 0, bus: 0xc2, device: 0, function: 0 }));
    assert_eq!(pointer.ordinal, 1);
    assert_ne!(pointer.buffer_id, 0);
    assert_eq!(app.hip.describe(app.alloc("hipMallocManaged", 64)).unwrap().kind, Kind::Managed);
    assert_eq!(app.hip.describe(app.alloc("hipMallocAsync", 64)).unwrap().kind, Kind::Pool);
    assert_eq!(app.hip.describe(app.alloc("hipHostMalloc", 64)).unwrap().kind, Kind::Host);
    assert_eq!(app.hip.describe(0x1000).unwrap().kind, Kind::Unknown);
    app.stub.set("unknown_code=1");
    assert_eq!(app.hip.describe(0x1000).unwrap().kind, Kind::Unknown);
    app.stub.set("unknown_code=999");
    assert!(matches!(app.hip.describe(0x1000), Err(GpuError::Call { code: Code(999), .. })));
    for (number, kind) in
        [(10, Kind::Other(10)), (11, Kind::Managed), (3, Kind::Managed), (99, Kind::Other(99))]
    {
        app.stub.set(&format!("memory_type={number}"));
        assert_eq!(app.hip.describe(address).unwrap().kind, kind);
    }
    app.stub.set("memory_type=,pci_garbage=1");
    assert!(matches!(app.hip.describe(address), Err(GpuError::Nonsense { .. })));
    app.stub.set("pci_garbage=,hipDeviceGetPCIBusId=1");
    assert!(matches!(app.hip.describe(address), Err(GpuError::Call { call: "hipDeviceGetPCIBusId", .. })));
    app.stub.set("hipDeviceGetPCIBusId=,hipMemGetAddressRange=1");
    assert!(matches!(app.hip.describe(address), Err(GpuError::Call { call: "hipMemGetAddressRange", .. })));
    assert_eq!(app.hip.peer_writes(&pointer).unwrap(), PeerWrites::Unproven);
    assert!(matches!(app.hip.flush_peer_writes(&pointer), Err(GpuError::Symbol { .. })));
}

#[test]
fn a_dmabuf_is_of_the_allocation_and_the_part_is_found_in_it() {
    let app = App::new();
    let address = app.alloc("hipMalloc", 65_536);
    let registration = app.register(address + 8192, 4096).unwrap();
    let Path::Direct(dmabuf) = registration.path() else { panic!("{}", registration.path()) };
    assert_eq!((dmabuf.offset(), dmabuf.len_bytes()), (8192, 4096));
    registration.copy_in(0, b"by HSA").unwrap();
    let mut bytes = [0; 6];
    pread(dmabuf.fd(), &mut bytes, 8192).unwrap();
    assert_eq!(&bytes, b"by HSA");
    assert_eq!(app.stub.count("sync_memops"), 1);
    assert_eq!((app.stub.count("exports"), app.stub.count("closes")), (1, 1), "closed in HSA's own way");
}

#[test]
fn each_reason_of_an_export_that_fails_is_told() {
    let app = App::new();
    assert_eq!(app.why("dmabuf=0"), WhyStaged::NoDmabuf);
    for (settings, failed) in [
        ("dmabuf=,hsa_system_get_info=4096", "hsa_system_get_info"),
        ("hsa_system_get_info=,hsa_amd_portable_export_dmabuf=4097", "hsa_amd_portable_export_dmabuf"),
        ("hsa_amd_portable_export_dmabuf=,hipPointerSetAttribute=1", "hipPointerSetAttribute"),
    ] {
        let WhyStaged::Export(GpuError::Call { call, .. }) = app.why(settings) else { panic!("{settings}") };
        assert_eq!(call, failed);
    }
    for (settings, reason) in [
        ("hipPointerSetAttribute=,fd=-3", "descriptor -3"),
        ("fd=1000000", "Bad file descriptor"),
        ("fd=,offset=4096", "fewer than 4096 at offset 4096"),
        ("offset=-1", "begins at offset"),
    ] {
        match app.why(settings) {
            WhyStaged::Unusable { reason: said } => {
                assert!(said.contains(reason) || said.contains("fewer than"), "{settings}: {said}");
            }
            other => panic!("{settings}: {other:?}"),
        }
    }
    app.stub.set("offset=");
    let managed = app.register(app.alloc("hipMallocManaged", 64), 64).unwrap();
    assert_eq!(managed.path().why_staged(), Some(&WhyStaged::Managed));
    let pool = app.register(app.alloc("hipMallocAsync", 64), 64).unwrap();
    assert_eq!(pool.path().why_staged(), Some(&WhyStaged::Pool));
    assert!(matches!(app.register(app.alloc("hipHostMalloc", 64), 64), Err(GpuError::NotGpu { .. })));
}

#[test]
fn without_hsa_memory_is_staged_and_works() {
    let missing = Stub::empty().with("hip.c", "libamdhip64.so", &[]);
    let lacking = stubs(&[], &["hsa_amd_portable_export_dmabuf"]);
    let failing = stubs(&[], &[]);
    failing.set("hsa_init=4096");
    for (stub, reason) in [
        (missing, "libhsa-runtime64.so.1 can't be loaded"),
        (lacking, "no function hsa_amd_portable_export_dmabuf"),
        (failing, "hsa_init failed"),
    ] {
        let hip: Arc<dyn Vendor> = Hip::load_from(stub.folder()).unwrap();
        let app = App { stub, hip };
        let registration = app.register(app.alloc("hipMalloc", 4096), 4096).unwrap();
        assert!(registration.path_text().contains(reason), "{}", registration.path_text());
        registration.copy_in(0, b"staged").unwrap();
        assert_eq!(peek(registration.address(), 6), b"staged");
    }
}

#[test]
fn copies_are_made_on_the_memorys_gpu_and_the_callers_stays() {
    let app = App::new();
    app.set_device(1);
    let gpu = app.register(app.alloc("hipMalloc", 65_536), 65_536).unwrap();
    app.set_device(0);
    let staging = Staging::new(&gpu, StagingOptions { chunk_bytes: 8192, chunks: 2 }).unwrap();
    let chunk = staging.take().unwrap();
    chunk.write(5, b"to the second GPU").unwrap();
    let there = [Piece { chunk_offset: 5, offset: 777, len_bytes: 17 }];
    let copying = chunk.begin_copy_in(&gpu, &there).unwrap();
    while !copying.is_done().unwrap() {}
    let chunk = copying.finish().unwrap();
    assert_eq!(peek(gpu.address() + 777, 17), b"to the second GPU");
    let back = [Piece { chunk_offset: 100, offset: 777, len_bytes: 17 }];
    let chunk = chunk.begin_copy_out(&gpu, &back).unwrap().finish().unwrap();
    let mut bytes = [0; 17];
    chunk.read(100, &mut bytes).unwrap();
    assert_eq!(&bytes, b"to the second GPU");
    assert_eq!(app.stub.count("device"), 0, "the caller's device is current");
    drop((chunk, staging));
    let left = (app.stub.count("pinned"), app.stub.count("streams"), app.stub.count("events"));
    assert_eq!(left, (0, 0, 0));
}

#[test]
fn each_call_of_a_copy_may_fail() {
    for call in [
        "hipGetDevice",
        "hipSetDevice",
        "hipMemcpyAsync",
        "hipEventRecord",
        "hipEventSynchronize",
        "hipHostMalloc",
        "hipStreamCreateWithFlags",
        "hipEventCreateWithFlags",
    ] {
        let app = App::new();
        let gpu = app.register(app.alloc("hipMalloc", 4096), 4096).unwrap();
        app.stub.set(&format!("{call}=700"));
        let error = error_of(gpu.copy_in(0, b"nowhere"));
        assert!(
            matches!(&error, GpuError::Call { call: failed, .. } if *failed == call),
            "{call}: {error:?}"
        );
        assert_eq!(app.stub.count("device"), 0);
    }
    let app = App::new();
    let gpu = app.register(app.alloc("hipMalloc", 4096), 4096).unwrap();
    app.stub.set("null_pinned=1");
    assert!(matches!(gpu.copy_in(0, b"x"), Err(GpuError::Nonsense { call: "hipHostMalloc", .. })));
    // What can't be told any more is quarantined here as well.
    app.stub.set("null_pinned=,hipEventRecord=700,hipStreamSynchronize=700");
    assert!(gpu.copy_in(0, b"x").is_err());
    app.stub.set("hipEventRecord=,hipStreamSynchronize=");
    assert!(matches!(gpu.copy_in(0, b"x"), Err(GpuError::Broken { .. })));
}
