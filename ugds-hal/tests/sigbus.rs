//! The handler of SIGBUS beside one that was there before. One test, since handlers belong to the process.
//!
//! UNSAFETY: installs a handler, and accesses memory that is gone.

#![allow(unsafe_code)]

use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use ugds_hal::vfio::sigbus::Guard;

static OLDER_HANDLER_SAW: AtomicUsize = AtomicUsize::new(0);

/// Notes where, and puts a page of zeroes there.
extern "C" fn older(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid structure.
    let address = unsafe { (*info).si_addr() }.addr();
    OLDER_HANDLER_SAW.store(address, Ordering::Relaxed);
    let page = NonZeroUsize::new(address & !(PAGE - 1));
    // SAFETY: the page is the test's, and its file is gone.
    let mended = unsafe {
        mmap_anonymous(page, SIZE, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED)
    };
    assert!(mended.is_ok());
}

/// A mapped page whose file was cut short.
fn gone() -> NonNull<u32> {
    let file = File::from(memfd_create("gone", MFdFlags::empty()).unwrap());
    file.set_len(PAGE as u64).unwrap();
    // SAFETY: a new mapping.
    let page = unsafe { mmap(None, SIZE, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &file, 0) }.unwrap();
    file.set_len(0).unwrap();
    page.cast()
}

#[test]
fn what_is_watched_reads_as_ones_and_the_rest_goes_to_the_older_handler() {
    let action = SigAction::new(SigHandler::SigAction(older), SaFlags::SA_SIGINFO, SigSet::empty());
    // SAFETY: the handler maps memory and stores a number.
    unsafe { sigaction(Signal::SIGBUS, &action) }.unwrap();
    let (watched, unwatched, dropped) = (gone(), gone(), gone());
    // SAFETY: the test's own mapping, reached by volatile accesses.
    let guard = unsafe { Guard::new(watched.addr().get(), PAGE) }.unwrap();
    // SAFETY: as above.
    drop(unsafe { Guard::new(dropped.addr().get(), PAGE) }.unwrap());
    for (page, value, saw) in
        [(watched, u32::MAX, 0), (unwatched, 0, unwatched.addr().get()), (dropped, 0, dropped.addr().get())]
    {
        // SAFETY: mapped; the access faults, and one of the handlers mends it.
        assert_eq!(unsafe { page.read_volatile() }, value);
        assert_eq!(OLDER_HANDLER_SAW.load(Ordering::Relaxed), saw);
    }
    drop(guard);
    for page in [watched, unwatched, dropped] {
        // SAFETY: mapped by the test.
        unsafe { munmap(page.cast(), PAGE) }.unwrap();
    }
}

const PAGE: usize = 4096;
const SIZE: NonZeroUsize = NonZeroUsize::new(PAGE).unwrap();
