//! A device that is removed while it is mapped.
//!
//! The kernel answers an access to a BAR that is gone with SIGBUS, which ends the process. The handler here puts a
//! page of ones where the access went, so that it reads as hardware reads a missing device, and every wait in this
//! library ends at that. A fault anywhere else goes to the handler that was there before.
//!
//! UNSAFETY: installs a signal handler, which may do only what is safe in a signal: it reads atomics and maps memory.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

/// Keeps one mapped BAR under the handler's watch.
#[derive(Debug)]
pub struct Guard {
    slot: &'static Range,
}

/// A watched range. Free while `start` is 0.
#[derive(Debug)]
struct Range {
    start: AtomicUsize,
    len: AtomicUsize,
}

static RANGES: [Range; 64] = [const { Range { start: AtomicUsize::new(0), len: AtomicUsize::new(0) } }; 64];
/// The descriptor of a page of ones, -1 before there is one.
static ONES: AtomicI32 = AtomicI32::new(-1);
/// The handler that was there before ours.
static BEFORE: OnceLock<SigAction> = OnceLock::new();

impl Guard {
    /// Watches `len` bytes from `start` on, and installs the handler if it is not there yet. `None` when that is not
    /// possible, or 64 ranges are watched already: then a removed device ends the process, as without the handler.
    ///
    /// # Safety
    ///
    /// The range is one mapping of device registers, which is reached by volatile accesses only, until the guard is
    /// dropped.
    #[must_use]
    pub unsafe fn new(start: usize, len: usize) -> Option<Self> {
        install()?;
        let slot = RANGES.iter().find(|range| {
            // AcqRel: whoever takes the slot owns its length.
            range.start.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        slot.len.store(len, Ordering::Relaxed);
        // Release: a handler that sees the start sees the length.
        slot.start.store(start, Ordering::Release);
        Some(Self { slot })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Release: the next owner sees everything that we did with the slot.
        self.slot.start.store(0, Ordering::Release);
    }
}

impl Range {
    fn holds(&self, address: usize) -> bool {
        // Acquire: pairs with `Guard::new`.
        let start = self.start.load(Ordering::Acquire);
        start > CLAIMED && address >= start && address - start < self.len.load(Ordering::Relaxed)
    }
}

/// Installs the handler once for the process.
fn install() -> Option<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    INSTALLED
        .get_or_init(|| {
            let Some(page) = page_of_ones() else { return false };
            ONES.store(page.as_raw_fd(), Ordering::Release);
            // The handler needs it as long as the process lives.
            std::mem::forget(page);
            let flags = SaFlags::SA_SIGINFO | SaFlags::SA_NODEFER | SaFlags::SA_ONSTACK;
            let action = SigAction::new(SigHandler::SigAction(on_sigbus), flags, SigSet::empty());
            // SAFETY: the handler does only what is allowed in a signal.
            match unsafe { sigaction(Signal::SIGBUS, &action) } {
                Ok(before) => BEFORE.set(before).is_ok(),
                Err(_) => false,
            }
        })
        .then_some(())
}

fn page_of_ones() -> Option<File> {
    let fd = memfd_create("ugds-ones", MFdFlags::MFD_CLOEXEC).ok()?;
    let mut file = File::from(fd);
    file.write_all(&[0xff; PAGE]).ok()?;
    Some(file)
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid structure to an SA_SIGINFO handler.
    let info_of_kernel = unsafe { &*info };
    // Only faults, which the kernel marks by a positive code, carry an address.
    let fault = info_of_kernel.si_code > 0;
    // SAFETY: the structure of a fault has that field; of another signal it is not used.
    let address = unsafe { info_of_kernel.si_addr() }.addr();
    if fault && RANGES.iter().any(|range| range.holds(address)) && put_ones(address) {
        return;
    }
    pass_on(signal, info, context, fault);
}

/// Replaces the page around `address` by one of ones. A store to it stays in this process.
fn put_ones(address: usize) -> bool {
    let fd = ONES.load(Ordering::Acquire);
    let (Some(page), Some(length)) = (NonZeroUsize::new(address & !(PAGE - 1)), NonZeroUsize::new(PAGE))
    else {
        return false;
    };
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: the descriptor is never closed once it is there.
    let ones = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: the page belongs to a watched BAR mapping, whose own access just failed; nothing else is there.
    unsafe { mmap(Some(page), length, protection, MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED, ones, 0) }
        .is_ok()
}

/// Does what would have happened without this handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void, fault: bool) {
    match BEFORE.get().map(SigAction::handler) {
        Some(SigHandler::SigAction(handler)) => handler(signal, info, context),
        Some(SigHandler::Handler(handler)) => handler(signal),
        Some(SigHandler::SigIgn) if !fault => {}
        // A fault can't be ignored: it would only happen again.
        Some(SigHandler::SigIgn | SigHandler::SigDfl) | None => {
            let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
            // SAFETY: restoring the default runs no code of ours.
            let _ = unsafe { sigaction(Signal::SIGBUS, &default) };
            // A fault happens again by itself and ends the process; a signal that was sent has to be sent again.
            if !fault {
                let _ = raise(Signal::SIGBUS);
            }
        }
    }
}

const PAGE: usize = 4096;
/// Marks a slot that is being filled. No mapping starts at address 1.
const CLAIMED: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::mman::munmap;

    /// A mapping of a file that is cut short behaves like a BAR whose device is removed.
    #[test]
    fn an_access_to_what_is_gone_reads_as_ones() {
        let file = File::from(memfd_create("bar", MFdFlags::empty()).unwrap());
        file.set_len(2 * PAGE as u64).unwrap();
        let length = NonZeroUsize::new(2 * PAGE).unwrap();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping.
        let base = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) }.unwrap();
        // SAFETY: the test's own mapping, reached by volatile accesses.
        let guard = unsafe { Guard::new(base.addr().get(), 2 * PAGE) }.unwrap();
        let register = base.cast::<u32>();
        // SAFETY: mapped.
        assert_eq!(unsafe { register.read_volatile() }, 0);
        file.set_len(0).unwrap();
        // SAFETY: mapped; the access faults, and the handler mends it.
        assert_eq!(unsafe { register.read_volatile() }, u32::MAX);
        // SAFETY: as above, on the second page, by a store.
        unsafe { register.byte_add(PAGE + 8).write_volatile(1) };
        // SAFETY: as above.
        assert_eq!(unsafe { register.byte_add(PAGE + 4).read_volatile() }, u32::MAX);
        drop(guard);
        // SAFETY: what was mapped.
        unsafe { munmap(base, 2 * PAGE) }.unwrap();
    }

    #[test]
    fn only_watched_addresses_are_ours() {
        // SAFETY: nothing accesses that range.
        let guard = unsafe { Guard::new(0x7000_0000, 0x2000) }.unwrap();
        let watched = |address| RANGES.iter().any(|range| range.holds(address));
        assert!(watched(0x7000_0000) && watched(0x7000_1fff));
        assert!(!watched(0x6fff_ffff) && !watched(0x7000_2000));
        drop(guard);
        assert!(!watched(0x7000_0000));
    }
}
