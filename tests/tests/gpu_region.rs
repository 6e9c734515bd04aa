//! GPU memory at an opened device: reached through its DMA-buf where that can be mapped, staged with a reason where not.
//!
//! UNSAFETY: plays the application with a GPU: allocates by a stand-in, and keeps the memory until it is released.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::Arc;
use ugds::emu::{Emu, EmuConfig, Iova};
use ugds::gpu::{Cuda, GpuError, Vendor, WhyStaged};
use ugds::nvme::Lba;
use ugds::{Device, Error, GpuRegion, Options};
use ugds_mem::MemError;
use ugds_tests::stubs::Stub;

struct Gpu {
    stub: Stub,
    cuda: Arc<dyn Vendor>,
}

impl Gpu {
    fn new() -> Self {
        let stub = Stub::cuda(&[]);
        let cuda = Cuda::load_from(stub.folder()).unwrap();
        let mut context: *mut c_void = null_mut();
        // SAFETY: the types are those of the stub.
        unsafe {
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                stub.function("cuDevicePrimaryCtxRetain");
            assert_eq!(retain(&raw mut context, 0), 0);
            let set: unsafe extern "C" fn(*mut c_void) -> c_int = stub.function("cuCtxSetCurrent");
            assert_eq!(set(context), 0);
        }
        Self { stub, cuda }
    }

    fn alloc(&self, len: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the type is that of the stub.
        unsafe {
            let alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int = self.stub.function("cuMemAlloc_v2");
            assert_eq!(alloc(&raw mut address, len), 0);
        }
        address
    }

    fn register(&self, device: &Device, address: u64, len: usize) -> Result<GpuRegion, Error> {
        // SAFETY: the tests never free what they registered.
        unsafe { device.register_gpu_with(&self.cuda, address, len) }
    }
}

fn emu(iova: Iova) -> Emu {
    let config = EmuConfig { iova, ..EmuConfig::default() };
    Emu::new(config.with_namespaces(1, 16 << 20, 512).stepped()).unwrap()
}

fn open(emu: &Emu) -> Device {
    Device::with_emu(emu.clone(), Options::default(), None).unwrap()
}

fn of_gpu(error: Error) -> GpuError {
    match error {
        Error::Memory(MemError::Gpu(error)) => *error,
        other => panic!("{other}"),
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 / 7) as u8).collect()
}

#[test]
fn a_device_reads_and_writes_gpu_memory_through_its_dmabuf() {
    for iova in [Iova::Contiguous, Iova::Scattered { seed: 11 }] {
        let (gpu, emu) = (Gpu::new(), emu(iova));
        let device = open(&emu);
        let mapped = emu.live_mappings();
        // From the middle of a page, so that the DMA-buf begins before the memory.
        let region = gpu.register(&device, gpu.alloc(1 << 20) + 516, 300 << 10).unwrap();
        assert!(region.path().starts_with("direct: GPU memory through a DMA-buf"), "{}", region.path());
        assert!(emu.live_mappings() > mapped);
        let direct = region.direct().unwrap();
        let namespace = device.namespace().unwrap();
        let sent = pattern(256 << 10);
        direct.copy_in(0, &sent).unwrap();
        namespace.write(direct, 0..sent.len(), Lba(8)).unwrap();
        direct.copy_in(0, &vec![0; sent.len()]).unwrap();
        namespace.read(direct, 512..512 + sent.len(), Lba(8)).unwrap();
        let mut back = vec![0; sent.len()];
        region.memory().copy_out(512, &mut back).unwrap();
        assert!(back == sent, "the bytes came back changed");
        assert!(emu.violations().is_empty());
        region.release().unwrap();
        assert_eq!(emu.live_mappings(), mapped, "and the device is given nothing any more");
    }
}

#[test]
fn a_region_is_busy_while_it_is_exported() {
    let gpu = Gpu::new();
    let device = open(&emu(Iova::Contiguous));
    let region = gpu.register(&device, gpu.alloc(8192), 8192).unwrap();
    let (one, two) = (region.export_dmabuf().unwrap(), region.direct().unwrap().export_dmabuf().unwrap());
    let (region, error) = region.release().unwrap_err();
    assert!(matches!(error, Error::Exported { uses: 2 }), "{error}");
    drop(one);
    let (region, error) = region.release().unwrap_err();
    assert!(matches!(error, Error::Exported { uses: 1 }), "{error}");
    // It works on meanwhile.
    device.namespace().unwrap().write(region.direct().unwrap(), 0..512, Lba(0)).unwrap();
    let fd = two.into_fd();
    region.release().unwrap();
    assert!(fd.as_fd().try_clone_to_owned().is_ok());
}

#[test]
fn a_dmabuf_that_the_device_can_not_be_given_is_staged_with_that_reason_and_still_exported() {
    let (gpu, emu) = (Gpu::new(), emu(Iova::Contiguous));
    let device = open(&emu);
    let address = gpu.alloc(8192);
    gpu.stub.set("unmappable=1");
    let region = gpu.register(&device, address, 8192).unwrap();
    assert!(region.direct().is_none());
    let Some(WhyStaged::Backend { reason }) = region.why_staged() else { panic!("{}", region.path()) };
    assert!(reason.contains("can't be mapped into this process: "), "{reason}");
    assert!(region.path().starts_with("staged: the SSD can't be given the DMA-buf: "), "{}", region.path());
    let export = region.export_dmabuf().unwrap();
    let (region, error) = region.release().unwrap_err();
    assert!(matches!(error, Error::Exported { uses: 1 }), "{error}");
    drop(export);
    region.memory().copy_in(0, b"by the copy engine").unwrap();
    region.release().unwrap();
}

#[test]
fn memory_without_a_dmabuf_is_staged_with_its_reason() {
    let gpu = Gpu::new();
    let device = open(&emu(Iova::Contiguous));
    gpu.stub.set("rdma_attribute=0");
    let region = gpu.register(&device, gpu.alloc(4096), 4096).unwrap();
    assert_eq!(region.why_staged(), Some(&WhyStaged::NotRdmaCapable));
    assert_eq!((region.len_bytes(), region.gpu().len_bytes()), (4096, 4096));
    let Err(Error::Memory(MemError::Staged(why))) = region.export_dmabuf() else {
        panic!("it has a DMA-buf")
    };
    assert_eq!(*why, WhyStaged::NotRdmaCapable);
    region.release().unwrap();
}

#[test]
fn what_is_no_gpu_memory_is_refused() {
    let gpu = Gpu::new();
    let device = open(&emu(Iova::Contiguous));
    let address = gpu.alloc(4096);
    let misaligned = gpu.register(&device, address + 2, 4).unwrap_err();
    assert!(matches!(misaligned, Error::Memory(MemError::Misaligned { .. })), "{misaligned}");
    let beyond = gpu.register(&device, address, 8192).unwrap_err();
    assert!(matches!(of_gpu(beyond), GpuError::Range { .. }));
    let host = gpu.register(&device, 0x1000, 4).unwrap_err();
    assert!(matches!(of_gpu(host), GpuError::NotGpu { .. }));
}

#[test]
fn without_any_driver_the_reasons_of_both_are_told() {
    let device = open(&emu(Iova::Contiguous));
    // SAFETY: no memory is registered: there is no driver that would know it, or none knows the address.
    let error = unsafe { device.register_gpu(0x1000, 4096) }.unwrap_err();
    match of_gpu(error) {
        GpuError::NoDriver { cuda, hip } => {
            assert!(cuda.contains("libcuda.so.1"), "{cuda}");
            assert!(hip.contains("libamdhip64.so"), "{hip}");
        }
        // On a machine with a GPU.
        GpuError::NotGpu { address: 0x1000, .. } => {}
        other => panic!("{other}"),
    }
}
