//! The admin queue: one command at a time, waited for.

use super::ControllerError;
use crate::{Generations, QueuePair, Wedge};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use nvme_proto::admin::{Identify, LogId};
use nvme_proto::event::Event;
use nvme_proto::{PageSize, Qid, Status};
use ugds_hal::{
    Admin, AdminError, Backend, Completion, Direction, Dma, Layout, PortSpec, QueueCommand, Stopped, poll,
};
use ugds_mem::{Io, Mapped, MemError, Transfer};
use zerocopy::{FromBytes, IntoBytes};

/// The admin queue of one controller, with a buffer for the data of its commands.
pub(super) struct AdminQueue<B: Backend> {
    backend: Arc<B>,
    pair: QueuePair<B::Port>,
    buffer: Dma,
    mapped: Arc<Mapped>,
    timeout: Duration,
    /// Asynchronous events that came while something else was waited for.
    events: Vec<Event>,
}

impl<B: Backend> AdminQueue<B> {
    /// Opens the admin queue of a disabled controller.
    ///
    /// The data of admin commands is always told by PRPs, whatever the controller says about SGLs.
    pub(super) fn open(
        backend: &Arc<B>,
        page: PageSize,
        timeout: Duration,
        generations: Generations,
    ) -> Result<Self, ControllerError> {
        let align_bytes = usize::try_from(page.bytes()).unwrap_or(usize::MAX);
        let layout = Layout { len_bytes: BUFFER_BYTES, align_bytes, direction: Direction::Both };
        let buffer = backend.memory(layout)?;
        let mapped = Mapped::of_page(&buffer)?;
        let spec =
            PortSpec { qid: Qid::ADMIN, entries: ENTRIES, page, completion: Completion::Poll, shadow: None };
        // A disabled controller does not look at its queues, so nothing is left of one that could not be opened.
        let port = backend.open_port(&spec, None).map_err(|failed| failed.error)?;
        let pair = QueuePair::new(port, Qid::ADMIN, backend.traits().era().next(), generations);
        Ok(Self { backend: Arc::clone(backend), pair, buffer, mapped, timeout, events: Vec::new() })
    }

    /// Executes a command and returns DW0 of its completion.
    pub(super) fn run(&mut self, io: &Io<'_>) -> Result<u32, AdminError> {
        self.run_within(io, self.timeout)
    }

    /// The same with a limit of its own.
    pub(super) fn run_within(&mut self, io: &Io<'_>, limit: Duration) -> Result<u32, AdminError> {
        let opcode = io.command().sqe().opcode;
        let _ticket = self.pair.submit(io, COMMAND).map_err(|error| unusable(opcode, &error))?;
        self.pair.ring();
        let backend = Arc::clone(&self.backend);
        let mut looks = 0u32;
        let done = poll(backend.clock(), limit, || {
            looks += 1;
            if looks.is_multiple_of(LOOKS_PER_CHECK) {
                Wedge::check(&*backend).map_err(|wedge| unusable(opcode, &self.pair.wedge(wedge)))?;
            }
            self.reap(opcode)
        })?;
        match done {
            None => Err(self.late(opcode, limit)),
            Some((status, result)) if status.is_success() => Ok(result),
            Some((status, _)) => Err(AdminError::Status { opcode, status }),
        }
    }

    /// Makes one pass, keeps the events, and returns status and result of the command if it ended.
    fn reap(&mut self, opcode: u8) -> Result<Option<(Status, u32)>, AdminError> {
        let (mut command, events) = (None, &mut self.events);
        let passed = self.pair.reap(|done| match (done.cookie, done.status()) {
            (COMMAND, status) => command = Some((status, done.result() as u32)),
            (_, status) if status.is_success() => events.push(Event::from_result(done.result() as u32)),
            // A request that failed, because there are too many, is not made again.
            _ => {}
        });
        match passed {
            Ok(_) => Ok(command),
            Err(wedge) => Err(unusable(opcode, &wedge)),
        }
    }

    /// Gives the controller `count` requests that it completes when something happens.
    pub(super) fn listen(&mut self, count: u32) -> Result<(), AdminError> {
        let request = Io::async_event_request();
        let opcode = request.command().sqe().opcode;
        for _ in 0..count {
            let _ticket = self.pair.submit(&request, EVENT).map_err(|error| unusable(opcode, &error))?;
        }
        self.pair.ring();
        Ok(())
    }

    /// The events that came since the last time.
    pub(super) fn take_events(&mut self) -> Result<Vec<Event>, AdminError> {
        self.reap(nvme_proto::admin::Opcode::ASYNC_EVENT_REQUEST.0)?;
        Ok(core::mem::take(&mut self.events))
    }

    /// Fetches the start of a log page. `None` when the controller does not have it.
    pub(super) fn log<T: FromBytes + IntoBytes>(
        &mut self,
        lid: LogId,
    ) -> Result<Option<Box<T>>, ControllerError> {
        match self.fetch(|transfer| Io::log_page(lid, transfer)) {
            Err(ControllerError::Admin(AdminError::Status { .. })) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Fetches an Identify structure.
    pub(super) fn identify<T: FromBytes + IntoBytes>(
        &mut self,
        identify: &Identify,
    ) -> Result<Box<T>, ControllerError> {
        self.fetch(|transfer| Io::identify(identify, transfer))
    }

    fn fetch<T: FromBytes + IntoBytes>(
        &mut self,
        command: impl FnOnce(Transfer<'_>) -> Result<Io<'_>, MemError>,
    ) -> Result<Box<T>, ControllerError> {
        const { assert!(size_of::<T>() <= BUFFER_BYTES) };
        let mapped = Arc::clone(&self.mapped);
        // What the controller leaves out must not be the last command's data.
        self.buffer.shared().fill(0, size_of::<T>(), 0).map_err(MemError::from)?;
        let transfer = mapped.transfer(0, size_of::<T>() as u32, Direction::DeviceWrites)?;
        self.run(&command(transfer)?)?;
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
    fn execute(&mut self, command: &QueueCommand) -> Result<u32, AdminError> {
        self.run(&Io::of_queue(command))
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

/// The names of what is outstanding here: one command, and requests for events.
const COMMAND: u64 = 0;
const EVENT: u64 = 1;
/// Looks at the queue for each look at the controller itself.
const LOOKS_PER_CHECK: u32 = 256;
/// One command at a time leaves room for async event requests.
const ENTRIES: u16 = 32;
/// The largest structure that any admin command here fetches.
const BUFFER_BYTES: usize = 4096;
