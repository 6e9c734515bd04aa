//! Regions of a network adapter, by a stand-in for its library.

use crate::app::{App, error_of};
use crate::stubs::Stub;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use ugds_mem::gpu::{GpuError, WhyStaged};
use ugds_mem::rdma::{RdmaError, RdmaRegion, Verbs};
use ugds_mem::{Memory, Region};

fn verbs(lacking: &[&str]) -> (Stub, Arc<Verbs>) {
    let stub = Stub::empty().with("verbs.c", "libibverbs.so.1", lacking);
    let verbs = Verbs::load_from(stub.folder()).unwrap();
    (stub, verbs)
}

fn register(verbs: &Arc<Verbs>, region: &Region) -> Result<RdmaRegion, RdmaError> {
    // SAFETY: a protection domain of the stub is any pointer.
    unsafe { verbs.register(region, NonNull::<c_void>::dangling(), 7) }
}

#[test]
fn a_gpus_memory_is_registered_by_its_dmabuf() {
    let (app, (stub, verbs)) = (App::new(), verbs(&[]));
    let address = app.alloc(65_536);
    let region = Region::new(Memory::gpu(app.register(address + 4104, 8192).unwrap())).unwrap();
    let rdma = register(&verbs, &region).unwrap();
    assert_eq!(rdma.iova(), address + 4104);
    assert_eq!((rdma.lkey(), rdma.rkey()), (100, 101));
    assert!(!rdma.mr().is_null());
    let seen = ["at", "length", "iova", "access"].map(|what| stub.count(what));
    assert_eq!(seen, [8, 8192, (address + 4104) as i64, 7]);
    assert_eq!(region.holds(), 1, "it is in use");
    let other = register(&verbs, &region).unwrap();
    assert_ne!(other.token(), rdma.token());
    assert_ne!(rdma.token(), region.token());
    rdma.unregister().unwrap();
    drop(other);
    assert_eq!((region.holds(), stub.count("regions")), (0, 0));
}

#[test]
fn host_memory_is_registered_by_its_address() {
    let (stub, verbs) = verbs(&["ibv_reg_dmabuf_mr"]);
    let region = ugds_mem::host::allocate(12_288).unwrap();
    let rdma = register(&verbs, &region).unwrap();
    assert_eq!(rdma.iova(), region.address() as u64);
    assert_eq!((stub.count("at"), stub.count("length")), (region.address() as i64, 12_288));
    drop(rdma);
    assert_eq!(stub.count("regions"), 0);
}

#[test]
fn what_is_missing_or_refused_is_said_and_holds_nothing() {
    assert!(matches!(
        error_of(Verbs::load_from(Stub::empty().folder())),
        RdmaError::Library(GpuError::Library { library: "libibverbs.so.1", .. })
    ));
    for name in ["ibv_reg_mr", "ibv_dereg_mr"] {
        let stub = Stub::empty().with("verbs.c", "libibverbs.so.1", &[name]);
        let error = error_of(Verbs::load_from(stub.folder()));
        assert!(matches!(error, RdmaError::Library(GpuError::Symbol { symbol, .. }) if symbol == name));
    }
    let app = App::new();
    let region = Region::new(Memory::gpu(app.memory(4096))).unwrap();
    let (_old, old) = verbs(&["ibv_reg_dmabuf_mr"]);
    let error = error_of(register(&old, &region));
    assert!(matches!(error, RdmaError::Library(GpuError::Symbol { symbol: "ibv_reg_dmabuf_mr", .. })));
    let (stub, verbs) = verbs(&[]);
    stub.set("ibv_reg_dmabuf_mr=95,ibv_reg_mr=12");
    let error = error_of(register(&verbs, &region));
    assert!(matches!(error, RdmaError::Failed { call: "ibv_reg_dmabuf_mr", errno: 95, .. }), "{error}");
    let host = ugds_mem::host::allocate(4096).unwrap();
    let error = error_of(register(&verbs, &host));
    assert!(matches!(error, RdmaError::Failed { call: "ibv_reg_mr", errno: 12, .. }), "{error}");
    let staged = Region::new(Memory::gpu(app.register(app.managed(4096), 4096).unwrap())).unwrap();
    assert!(matches!(register(&verbs, &staged), Err(RdmaError::Staged(WhyStaged::Managed))));
    assert_eq!((region.holds(), host.holds(), staged.holds()), (0, 0, 0));
}

#[test]
fn memory_that_an_adapter_does_not_let_go_stays_in_use() {
    let (app, (stub, verbs)) = (App::new(), verbs(&[]));
    let region = Region::new(Memory::gpu(app.memory(4096))).unwrap();
    let rdma = register(&verbs, &region).unwrap();
    stub.set("ibv_dereg_mr=16");
    let (rdma, error) = error_of(rdma.unregister());
    assert!(matches!(error, RdmaError::Failed { call: "ibv_dereg_mr", errno: 16, .. }), "{error}");
    assert_eq!(region.holds(), 1);
    // It may succeed later.
    stub.set("ibv_dereg_mr=");
    rdma.unregister().unwrap();
    assert_eq!(region.holds(), 0);
    // Dropped while it is refused, it is never let go.
    let rdma = register(&verbs, &region).unwrap();
    stub.set("ibv_dereg_mr=16");
    drop(rdma);
    assert_eq!(region.holds(), 1);
}
