//! DMA-bufs of GPU memory, and regions in others' hands.

use crate::app::{App, peek};
use crate::stubs::Stub;
use nix::sys::uio::{pread, pwrite};
use std::os::fd::{AsFd, AsRawFd};
use ugds_mem::gpu::{Code, GpuError, Path, WhyStaged};
use ugds_mem::{MemError, Memory, Region};

#[test]
fn a_dmabuf_is_the_memory_whatever_its_alignment() {
    let app = App::new();
    for (lead, offset, len) in
        [(0, 0, 16_384), (0, 4096, 4096), (0, 4100, 4), (512, 0, 100), (512, 512, 9000), (4, 8188, 8)]
    {
        app.stub.set(&format!("lead={lead}"));
        let address = app.alloc(20_000) + offset;
        let registration = app.register(address, len).unwrap();
        let Path::Direct(dmabuf) = registration.path() else { panic!("{}", registration.path()) };
        assert_eq!(dmabuf.len_bytes(), len as u64);
        assert_eq!(dmabuf.offset(), address % 4096, "it begins at the page around the memory");
        assert!(dmabuf.size_bytes().unwrap() >= dmabuf.offset() + dmabuf.len_bytes());
        // What is written through the descriptor is in the memory, and the other way round.
        pwrite(dmabuf.fd(), b"fd", dmabuf.offset() as i64).unwrap();
        assert_eq!(peek(address, 2), b"fd");
        registration.copy_in(2, b"ab").unwrap();
        let mut bytes = [0; 4];
        pread(dmabuf.fd(), &mut bytes, dmabuf.offset() as i64).unwrap();
        assert_eq!(&bytes, b"fdab");
    }
    assert_eq!(app.stub.count("exports"), 6, "one for each registration");
    assert_eq!(app.stub.count("sync_memops"), 6, "and synchronous operations made so");
}

#[test]
fn an_export_that_fails_is_a_reason_and_no_error() {
    let app = App::new();
    let address = app.alloc(8192);
    let why = |settings: &str| {
        app.stub.set(settings);
        let registration = app.register(address, 4096).unwrap();
        registration.path().why_staged().cloned().unwrap_or_else(|| panic!("{settings}: it is direct"))
    };
    let WhyStaged::Export(GpuError::Call { call, code, .. }) = why("cuMemGetHandleForAddressRange=801")
    else {
        panic!("another reason")
    };
    assert_eq!((call, code), ("cuMemGetHandleForAddressRange", Code::NOT_SUPPORTED));
    let WhyStaged::Export(GpuError::Call { call, .. }) =
        why("cuMemGetHandleForAddressRange=,cuPointerSetAttribute=1")
    else {
        panic!("another reason")
    };
    assert_eq!(call, "cuPointerSetAttribute");
    let WhyStaged::Export(GpuError::Call { call, .. }) =
        why("cuPointerSetAttribute=,cuDeviceGetAttribute=999")
    else {
        panic!("another reason")
    };
    assert_eq!(call, "cuDeviceGetAttribute");
    // A driver that answers with something that is no descriptor, or too small a one.
    for (settings, reason) in [
        ("cuDeviceGetAttribute=,fd=-5", "descriptor -5"),
        ("fd=1000000", "descriptor 1000000"),
        ("fd=,short_dmabuf=1", "has 0 bytes"),
    ] {
        let WhyStaged::Unusable { reason: said } = why(settings) else { panic!("another reason") };
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn a_driver_without_exports_stages_and_says_so() {
    let app = App::with(Stub::cuda(&["cuMemGetHandleForAddressRange"]));
    let registration = app.memory(4096);
    let text = registration.path_text();
    assert!(text.contains("no function cuMemGetHandleForAddressRange"), "{text}");
    assert!(text.contains("install"), "what would help is said: {text}");
}

#[test]
fn an_export_counts_as_a_use_until_it_is_dropped_or_given_away() {
    let app = App::new();
    let region = Region::new(Memory::gpu(app.memory(8192))).unwrap();
    assert_eq!(region.holds(), 0);
    let one = region.export_dmabuf().unwrap();
    let two = region.export_dmabuf().unwrap();
    assert_eq!(region.holds(), 2);
    assert_ne!(one.fd().as_raw_fd(), two.fd().as_raw_fd(), "each has a descriptor of its own");
    assert_eq!((one.offset(), one.len_bytes()), (0, 8192));
    drop(one);
    assert_eq!(region.holds(), 1);
    // Given away, it is the kernel's to keep.
    let fd = two.into_fd();
    assert_eq!(region.holds(), 0);
    region.copy_in(0, b"alive").unwrap();
    drop(region);
    let mut bytes = [0; 5];
    pread(fd.as_fd(), &mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"alive");
}

#[test]
fn an_export_keeps_the_region() {
    let app = App::new();
    let region = Region::new(Memory::gpu(app.memory(4096))).unwrap();
    let gpu = std::sync::Arc::downgrade(region.gpu().unwrap());
    let export = region.export_dmabuf().unwrap();
    drop(region);
    assert!(gpu.upgrade().is_some(), "the export holds it");
    drop(export);
    assert!(gpu.upgrade().is_none());
}

#[test]
fn memory_without_a_dmabuf_says_why() {
    let host = ugds_mem::host::allocate(4096).unwrap();
    assert!(matches!(host.export_dmabuf(), Err(MemError::NoDmabuf)));
    let app = App::new();
    let managed = app.register(app.managed(4096), 4096).unwrap();
    let region = Region::new(Memory::gpu(managed)).unwrap();
    let Err(MemError::Staged(why)) = region.export_dmabuf() else { panic!("it has a DMA-buf") };
    assert_eq!(*why, WhyStaged::Managed);
    assert_eq!(region.holds(), 0);
}

#[test]
fn regions_of_a_gpu_are_copied_to_and_checked_like_any_other() {
    let app = App::new();
    let region = Region::new(Memory::gpu(app.memory(600 << 10))).unwrap();
    // More than the copies take at once, to and from an odd place.
    let sent: Vec<u8> = (0..520u32 << 10).map(|i| (i * 7 / 3) as u8).collect();
    region.copy_in(3, &sent).unwrap();
    assert_eq!(peek(region.address() as u64 + 3, sent.len()), sent);
    let mut back = vec![0; sent.len()];
    region.copy_out(3, &mut back).unwrap();
    assert_eq!(back, sent);
    for (offset, len) in [(600 << 10, 1), (0, (600 << 10) + 1), (usize::MAX, 1)] {
        let refused = region.copy_out(offset, &mut vec![0; len]);
        let Err(MemError::Gpu(error)) = refused else { panic!("{refused:?}") };
        assert!(matches!(*error, GpuError::Range { .. }), "{error}");
    }
    let odd = app.register(region.address() as u64 + 2, 8).unwrap();
    assert!(matches!(Region::new(Memory::gpu(odd)), Err(MemError::Misaligned { .. })));
}
