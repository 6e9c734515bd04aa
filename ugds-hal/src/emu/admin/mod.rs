//! The admin command set.

mod abort;
mod dbbuf;
mod features;
mod format;
mod identify;
mod logs;
mod queues;

use super::lane::{Lane, Reply};
use super::model::Core;
use super::nvm::HostBuffer;
use nvme_proto::admin::Opcode;
use nvme_proto::sgl::Direction;
use nvme_proto::status::{command, generic};
use nvme_proto::{Psdt, Sqe, Status};

/// What an admin command is executed with: the admin lane, which is held.
pub(super) struct Context<'a> {
    core: &'a Core,
    lane: &'a mut Lane,
    sqe: &'a Sqe,
}

/// Executes an admin command.
pub(super) fn execute(core: &Core, lane: &mut Lane, sqe: &Sqe) -> Reply {
    let mut context = Context { core, lane, sqe };
    if sqe.opcode == Opcode::ASYNC_EVENT_REQUEST.0 {
        return context.request_event();
    }
    Reply::Done(context.execute())
}

impl Context<'_> {
    fn execute(&mut self) -> Result<u64, Status> {
        let opcode = Opcode(self.sqe.opcode);
        if !is_supported(self.core, opcode) {
            return Err(generic::INVALID_OPCODE);
        }
        self.check_flags()?;
        match opcode {
            Opcode::DELETE_SQ => self.delete_submission(),
            Opcode::CREATE_SQ => self.create_submission(),
            Opcode::DELETE_CQ => self.delete_completion(),
            Opcode::CREATE_CQ => self.create_completion(),
            Opcode::GET_LOG_PAGE => self.get_log_page(),
            Opcode::IDENTIFY => self.identify(),
            Opcode::ABORT => return Ok(self.abort()),
            Opcode::SET_FEATURES => return self.set_features(),
            Opcode::GET_FEATURES => return self.get_features(),
            Opcode::DOORBELL_BUFFER_CONFIG => self.configure_doorbell_buffers(),
            Opcode::FORMAT_NVM => self.format(),
            _ => self.sanitize(),
        }?;
        Ok(0)
    }

    /// Admin commands are never fused, and on a local bus they use PRPs whatever `SGLS` says.
    fn check_flags(&self) -> Result<(), Status> {
        let plain = self.sqe.fuse() == 0 && self.sqe.psdt() == Some(Psdt::Prp);
        if plain { Ok(()) } else { Err(generic::INVALID_FIELD) }
    }

    /// An event request waits; an event that is there already completes it right after.
    fn request_event(&self) -> Reply {
        let accepted = self.check_flags().and_then(|()| {
            let fits = self.core.state().events.request(self.sqe.cid());
            if fits { Ok(()) } else { Err(command::AER_LIMIT_EXCEEDED) }
        });
        match accepted {
            Ok(()) => Reply::Later,
            Err(status) => Reply::Done(Err(status)),
        }
    }

    /// Writes the command's data.
    fn write_data(&self, data: &[u8]) -> Result<(), Status> {
        let mut pieces = Vec::new();
        let (core, page, len) = (self.core, self.lane.page, data.len() as u64);
        HostBuffer::new(core, page, self.sqe, len, Direction::ToHost, &mut pieces)?.put(data)
    }

    /// Reads the command's data.
    fn read_data(&self, data: &mut [u8]) -> Result<(), Status> {
        let mut pieces = Vec::new();
        let (core, page, len) = (self.core, self.lane.page, data.len() as u64);
        HostBuffer::new(core, page, self.sqe, len, Direction::FromHost, &mut pieces)?.get(data)
    }
}

/// Whether there is that admin command.
fn is_supported(core: &Core, opcode: Opcode) -> bool {
    SUPPORTED.contains(&opcode) || (opcode == Opcode::DOORBELL_BUFFER_CONFIG && core.config.dbbuf)
}

const SUPPORTED: [Opcode; 12] = [
    Opcode::DELETE_SQ,
    Opcode::CREATE_SQ,
    Opcode::GET_LOG_PAGE,
    Opcode::DELETE_CQ,
    Opcode::CREATE_CQ,
    Opcode::IDENTIFY,
    Opcode::ABORT,
    Opcode::SET_FEATURES,
    Opcode::GET_FEATURES,
    Opcode::ASYNC_EVENT_REQUEST,
    Opcode::FORMAT_NVM,
    Opcode::SANITIZE,
];

/// `ACL` of Identify Controller, 0's based.
pub(super) const ACL_Z: u8 = 3;
