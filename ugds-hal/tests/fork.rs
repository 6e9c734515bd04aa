//! A child is told from its parent.
//!
//! UNSAFETY: forks.

#![allow(unsafe_code)]

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use ugds_hal::Process;
use ugds_hal::emu::{Emu, EmuConfig};

#[test]
fn a_child_is_another_process_and_may_drop_what_it_inherited() {
    let process = Process::this();
    assert!(process.is_current());
    let emu = Emu::new(EmuConfig::default()).unwrap();
    // SAFETY: the child only compares numbers and drops what it inherited.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            drop(emu);
            let told = !process.is_current() && Process::this().is_current() && Process::this() != process;
            std::process::exit(if told { 0 } else { 1 });
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
            assert!(process.is_current());
        }
    }
}
