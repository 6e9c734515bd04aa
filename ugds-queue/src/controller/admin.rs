//! The admin queue: one command at a time, waited for.

use super::ControllerError;
use crate::{QueuePair, Wedge};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use nvme_proto::admin::Identify;
use nvme_proto::{PageSize, Qid};
use ugds_hal::{
    Admin, AdminError, Backend, Clock, Command, Completion, Direction, Dma, Layout, PortSpec, Stopped,
};
use ugds_mem::{Io, Mapped, MemError};
use zerocopy::{FromBytes, IntoBytes};

/// The admin queue of one controller, with a buffer for the data of its commands.
pub(super) struct AdminQueue<B: Backend> {
    backend: Arc<B>,
    pair: QueuePair<B::Port>,
    buffer: Dma,
    mapped: Arc<Mapped>,
    timeout: Duration,
}

impl<B: Backend> AdminQueue<B> {
    /// Opens the admin queue of a disabled controller.
    ///
    /// The data of admin commands is always told by PRPs, whatever the controller says about SGLs.
    pub(super) fn open(
        backend: &Arc<B>,
        page: PageSize,
        timeout: Duration,
        generations: bool,
    ) -> Result<Self, ControllerError> {
        let align_bytes = usize::try_from(page.bytes()).unwrap_or(usize::MAX);
        let layout = Layout { len_bytes: BUFFER_BYTES, align_bytes, direction: Direction::Both };
        let buffer = backend.memory(layout)?;
        let mapped = Mapped::of_page(&buffer)?;
        let spec =
            PortSpec { qid: Qid::ADMIN, entries: ENTRIES, page, completion: Completion::Poll, shadow: None };
        let port = backend.open_port(&spec, None)?;
        let pair = QueuePair::new(port, Qid::ADMIN, backend.traits().era().next(), generations);
        Ok(Self { backend: Arc::clone(backend), pair, buffer, mapped, timeout })
    }

    /// Executes a command and returns DW0 of its completion.
    pub(super) fn run(&mut self, io: &Io<'_>) -> Result<u32, AdminError> {
        self.run_within(io, self.timeout)
    }

    /// The same with a limit of its own.
    pub(super) fn run_within(&mut self, io: &Io<'_>, limit: Duration) -> Result<u32, AdminError> {
        let opcode = io.command().sqe().opcode;
        let _ticket = self.pair.submit(io, 0).map_err(|error| unusable(opcode, &error))?;
        self.pair.ring();
        let clock = self.backend.clock();
        let deadline = clock.now().after(limit);
        let mut attempt = 0;
        loop {
            let completed = self.pair.reap().map_err(|wedge| unusable(opcode, &wedge))?;
            if let Some(done) = completed.first() {
                return if done.status.is_success() {
                    Ok(done.result as u32)
                } else {
                    Err(AdminError::Status { opcode, status: done.status })
                };
            }
            if clock.now() >= deadline {
                return Err(self.late(opcode, limit));
            }
            if attempt % LOOKS_PER_CHECK == LOOKS_PER_CHECK - 1 {
                Wedge::check(&*self.backend).map_err(|wedge| unusable(opcode, &self.pair.wedge(wedge)))?;
            }
            clock.relax(attempt);
            attempt = attempt.saturating_add(1);
        }
    }

    /// Fetches an Identify structure.
    pub(super) fn identify<T: FromBytes + IntoBytes>(
        &mut self,
        identify: &Identify,
    ) -> Result<Box<T>, ControllerError> {
        const { assert!(size_of::<T>() == BUFFER_BYTES) };
        let mapped = Arc::clone(&self.mapped);
        // What the controller leaves out must not be the last command's data.
        self.buffer.shared().fill(0, BUFFER_BYTES, 0).map_err(MemError::from)?;
        let transfer = mapped.transfer(0, BUFFER_BYTES as u32, Direction::DeviceWrites)?;
        self.run(&Io::identify(identify, transfer)?)?;
        let mut data = Box::new(T::new_zeroed());
        self.buffer.shared().copy_out(0, data.as_mut_bytes()).map_err(MemError::from)?;
        Ok(data)
    }

    /// Frees everything. The proof shows that the controller has let go of it.
    pub(super) fn close(self, proof: &Stopped) {
        // Another device's proof leaks the queue, which is what an unproved stop deserves.
        if let Ok(port) = self.pair.abandon(proof) {
            // Without an admin queue to ask, closing the admin queue can't fail.
            let _ = self.backend.close_port(port, None);
        }
    }

    #[cold]
    fn late(&mut self, opcode: u8, limit: Duration) -> AdminError {
        let waited_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.pair.wedge(Wedge::Timeout { qid: Qid::ADMIN, waited_ms });
        AdminError::Timeout { opcode, waited_ms }
    }
}

impl<B: Backend> Admin for AdminQueue<B> {
    fn execute(&mut self, command: &Command<'_>) -> Result<u32, AdminError> {
        self.run(&Io::from_command(*command))
    }
}

impl<B: Backend> fmt::Debug for AdminQueue<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminQueue").field("pair", &self.pair).finish_non_exhaustive()
    }
}

#[cold]
fn unusable(opcode: u8, error: &dyn core::error::Error) -> AdminError {
    AdminError::Unusable { opcode, reason: error.to_string() }
}

/// Looks at the queue for each look at the controller itself.
const LOOKS_PER_CHECK: u32 = 256;
/// One command at a time leaves room for async event requests.
const ENTRIES: u16 = 32;
/// The largest structure that any admin command here fetches.
const BUFFER_BYTES: usize = 4096;
