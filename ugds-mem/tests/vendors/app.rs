//! An application with a GPU: it makes the context, and allocates.

use crate::stubs::Stub;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use ugds_mem::cuda::Cuda;
use ugds_mem::gpu::{GpuError, How, Registration, Vendor};

/// The driver's stand-in with a context that is current on this thread.
pub(crate) struct App {
    pub(crate) stub: Stub,
    pub(crate) cuda: Arc<dyn Vendor>,
    pub(crate) context: *mut c_void,
}

impl App {
    pub(crate) fn new() -> Self {
        Self::with(Stub::cuda(&[]))
    }

    pub(crate) fn with(stub: Stub) -> Self {
        let cuda = Cuda::load_from(stub.folder()).unwrap();
        let mut context = null_mut();
        // SAFETY: the types are those of the stub.
        unsafe {
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                stub.function("cuDevicePrimaryCtxRetain");
            assert_eq!(retain(&raw mut context, 0), 0);
        }
        let app = Self { stub, cuda, context };
        app.enter();
        app
    }

    pub(crate) fn enter(&self) {
        self.set_current(self.context);
    }

    pub(crate) fn leave(&self) {
        self.set_current(null_mut());
    }

    fn set_current(&self, context: *mut c_void) {
        // SAFETY: the type is that of the stub.
        unsafe {
            let set: unsafe extern "C" fn(*mut c_void) -> c_int = self.stub.function("cuCtxSetCurrent");
            assert_eq!(set(context), 0);
        }
    }

    /// `cuMemAlloc`.
    pub(crate) fn alloc(&self, len: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the type is that of the stub.
        unsafe {
            let alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int = self.stub.function("cuMemAlloc_v2");
            assert_eq!(alloc(&raw mut address, len), 0);
        }
        address
    }

    /// `cuMemAllocManaged`.
    pub(crate) fn managed(&self, len: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the type is that of the stub.
        unsafe {
            let alloc: unsafe extern "C" fn(*mut u64, usize, u32) -> c_int =
                self.stub.function("cuMemAllocManaged");
            assert_eq!(alloc(&raw mut address, len, 1), 0);
        }
        address
    }

    /// `cuMemAllocAsync`.
    pub(crate) fn pool(&self, len: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the type is that of the stub.
        unsafe {
            let alloc: unsafe extern "C" fn(*mut u64, usize, *mut c_void) -> c_int =
                self.stub.function("cuMemAllocAsync");
            assert_eq!(alloc(&raw mut address, len, null_mut()), 0);
        }
        address
    }

    /// `cuMemFree`.
    pub(crate) fn free(&self, address: u64) {
        // SAFETY: the type is that of the stub.
        unsafe {
            let free: unsafe extern "C" fn(u64) -> c_int = self.stub.function("cuMemFree_v2");
            assert_eq!(free(address), 0);
        }
    }

    pub(crate) fn register(&self, address: u64, len: usize) -> Result<Arc<Registration>, GpuError> {
        // SAFETY: the tests free what they registered after its last use, or never.
        unsafe { Registration::new(&self.cuda, address, len, How::Best) }
    }

    /// Registers new memory.
    pub(crate) fn memory(&self, len: usize) -> Arc<Registration> {
        self.register(self.alloc(len), len).unwrap()
    }
}

/// What GPU memory of a stub holds: it is memory of this process.
pub(crate) fn peek(address: u64, len: usize) -> Vec<u8> {
    // SAFETY: the tests look at memory that is allocated, when no copy is under way.
    unsafe { std::slice::from_raw_parts(address as *const u8, len) }.to_vec()
}

/// The error of whatever can't be shown when it succeeds.
pub(crate) fn error_of<T, E>(result: Result<T, E>) -> E {
    match result {
        Ok(_) => panic!("it was to fail"),
        Err(error) => error,
    }
}
