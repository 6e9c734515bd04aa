//! Read, Write, Compare and Verify.

use super::{CHUNK_BYTES, Context, HostBuffer, Moves, Scratch};
use crate::emu::namespace::{FaultOn, Namespace, NamespaceState};
use crate::emu::stats;
use crate::emu::store::{Durability, MediumError};
use nvme_proto::nvm::ReadWrite;
use nvme_proto::sgl::{Direction, Piece};
use nvme_proto::status::{generic, media};
use nvme_proto::{BusAddr, Status};
use std::sync::Arc;

impl Context<'_> {
    pub(super) fn read(&self, scratch: &mut Scratch) -> Result<(), Status> {
        let command = ReadWrite::from_sqe(self.sqe);
        let namespace = self.namespace()?;
        let state = namespace.read();
        self.check(&state, &command, Moves::Data)?;
        let Scratch { data, pieces, .. } = scratch;
        let mut transfer = self.transfer(namespace, &state, &command, Direction::ToHost, pieces)?;
        self.check_media(&state, FaultOn::Reads, command.slba.0, command.blocks.get().into())?;
        if command.flags.fua() {
            // What is read has to come from the medium, so it has to get there first.
            self.core.namespaces.store().flush().map_err(MediumError::status)?;
        }
        transfer.each_chunk(data, |transfer, chunk, blocks| {
            transfer.load(chunk, blocks)?;
            transfer.put(chunk, blocks)
        })?;
        let usage = &self.core.subsystem.usage;
        stats::add(&usage.reads, 1);
        stats::add(&usage.bytes_read, transfer.data_bytes());
        stats::add(&self.core.counters.bytes_to_host, transfer.data_bytes());
        Ok(())
    }

    pub(super) fn write(&self, scratch: &mut Scratch) -> Result<(), Status> {
        let command = ReadWrite::from_sqe(self.sqe);
        let namespace = self.namespace()?;
        let state = namespace.read();
        self.check(&state, &command, Moves::Data)?;
        self.check_writable(&state)?;
        let Scratch { data, pieces, .. } = scratch;
        let mut transfer = self.transfer(namespace, &state, &command, Direction::FromHost, pieces)?;
        self.check_media(&state, FaultOn::Writes, command.slba.0, command.blocks.get().into())?;
        let how = if command.flags.fua() { Durability::Through } else { Durability::Cached };
        transfer.each_chunk(data, |transfer, chunk, blocks| {
            transfer.get(chunk, blocks)?;
            transfer.store(chunk, blocks, how)
        })?;
        let usage = &self.core.subsystem.usage;
        stats::add(&usage.writes, 1);
        stats::add(&usage.bytes_written, transfer.data_bytes());
        stats::add(&self.core.counters.bytes_from_host, transfer.data_bytes());
        let healed = state.uncorrectable.overlaps(command.slba.0, command.slba.0 + transfer.blocks);
        drop(state);
        if healed {
            namespace.heal(command.slba.0, command.blocks.get().into());
        }
        Ok(())
    }

    pub(super) fn compare(&self, scratch: &mut Scratch) -> Result<(), Status> {
        let command = ReadWrite::from_sqe(self.sqe);
        let namespace = self.namespace()?;
        let state = namespace.read();
        self.check(&state, &command, Moves::Data)?;
        let Scratch { data, other, pieces } = scratch;
        let mut transfer = self.transfer(namespace, &state, &command, Direction::FromHost, pieces)?;
        self.check_media(&state, FaultOn::Reads, command.slba.0, command.blocks.get().into())?;
        stats::add(&self.core.subsystem.usage.reads, 1);
        transfer.each_chunk(data, |transfer, chunk, blocks| {
            transfer.get(chunk, blocks)?;
            other.resize(chunk.len(), 0);
            transfer.load(other, blocks)?;
            if chunk == other { Ok(()) } else { Err(media::COMPARE_FAILURE) }
        })?;
        stats::add(&self.core.counters.bytes_from_host, transfer.data_bytes());
        Ok(())
    }

    pub(super) fn verify(&self, scratch: &mut Scratch) -> Result<(), Status> {
        let command = ReadWrite::from_sqe(self.sqe);
        let namespace = self.namespace()?;
        let state = namespace.read();
        self.check(&state, &command, Moves::Nothing)?;
        self.check_media(&state, FaultOn::Reads, command.slba.0, command.blocks.get().into())?;
        let mut transfer = Transfer::without_host(self, namespace, &state, &command);
        transfer.each_chunk(&mut scratch.data, |transfer, chunk, blocks| transfer.load(chunk, blocks))
    }

    pub(super) fn namespace(&self) -> Result<&Arc<Namespace>, Status> {
        let found = self.core.namespaces.get(self.sqe.nsid()).filter(|namespace| namespace.read().attached);
        found.ok_or(generic::INVALID_NAMESPACE_OR_FORMAT)
    }

    fn transfer<'a>(
        &'a self,
        namespace: &'a Namespace,
        state: &NamespaceState,
        command: &ReadWrite,
        direction: Direction,
        pieces: &'a mut Vec<Piece>,
    ) -> Result<Transfer<'a>, Status> {
        let mut transfer = Transfer::without_host(self, namespace, state, command);
        let len = transfer.blocks * (transfer.block_bytes + transfer.interleaved);
        let host = HostBuffer::new(self.core, self.page, self.sqe, len, direction, pieces)?;
        transfer.host = Some(host);
        let mptr = self.sqe.mptr.get();
        if transfer.separate != 0 && mptr & 3 != 0 {
            return Err(generic::INVALID_FIELD);
        }
        transfer.metadata_at = mptr;
        Ok(transfer)
    }
}

impl Namespace {
    /// Blocks that were written can be read again.
    pub(super) fn heal(&self, first: u64, blocks: u64) {
        self.write().uncorrectable.remove(first, first + blocks);
    }
}

/// The way of some blocks between the medium and the host.
struct Transfer<'a> {
    context: &'a Context<'a>,
    namespace: &'a Namespace,
    host: Option<HostBuffer<'a>>,
    /// The next block.
    lba: u64,
    blocks: u64,
    /// Bytes of data in a block.
    block_bytes: u64,
    /// Metadata bytes of a block, between the blocks of the host's buffer.
    interleaved: u64,
    /// Metadata bytes of a block, in a buffer of their own.
    separate: u64,
    metadata_at: u64,
}

impl<'a> Transfer<'a> {
    fn without_host(
        context: &'a Context<'a>,
        namespace: &'a Namespace,
        state: &NamespaceState,
        command: &ReadWrite,
    ) -> Self {
        let metadata = u64::from(state.format().metadata_bytes);
        let interleaved = state.interleaved_bytes();
        Self {
            context,
            namespace,
            host: None,
            lba: command.slba.0,
            blocks: command.blocks.get().into(),
            block_bytes: state.format().data_bytes(),
            interleaved,
            separate: metadata - interleaved,
            metadata_at: 0,
        }
    }

    fn data_bytes(&self) -> u64 {
        self.blocks * self.block_bytes
    }

    /// Calls `f` for each run of blocks with a buffer for their data; metadata stands behind the data.
    fn each_chunk(
        &mut self,
        buffer: &mut Vec<u8>,
        mut f: impl FnMut(&mut Self, &mut [u8], u64) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let block = self.block_bytes + self.interleaved + self.separate;
        let mut left = self.blocks;
        while left != 0 {
            let blocks = left.min((CHUNK_BYTES / self.block_bytes).max(1));
            let len = (blocks * block) as usize;
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            f(self, &mut buffer[..len], blocks)?;
            self.lba += blocks;
            self.metadata_at += blocks * self.separate;
            left -= blocks;
        }
        Ok(())
    }

    fn split<'b>(&self, chunk: &'b mut [u8], blocks: u64) -> (&'b mut [u8], &'b mut [u8]) {
        chunk.split_at_mut((blocks * self.block_bytes) as usize)
    }

    fn metadata_offset(&self) -> u64 {
        self.lba * (self.interleaved + self.separate)
    }

    /// From the medium.
    fn load(&self, chunk: &mut [u8], blocks: u64) -> Result<(), Status> {
        let (data, metadata) = self.split(chunk, blocks);
        let offset = self.namespace.base + self.lba * self.block_bytes;
        self.context.core.namespaces.store().read(offset, data).map_err(MediumError::status)?;
        if !metadata.is_empty() {
            self.namespace.metadata.read(self.metadata_offset(), metadata);
        }
        Ok(())
    }

    /// To the medium.
    fn store(&self, chunk: &mut [u8], blocks: u64, how: Durability) -> Result<(), Status> {
        let (data, metadata) = self.split(chunk, blocks);
        let offset = self.namespace.base + self.lba * self.block_bytes;
        self.context.core.namespaces.store().write(offset, data, how).map_err(MediumError::status)?;
        if !metadata.is_empty() {
            self.namespace.metadata.write(self.metadata_offset(), metadata);
        }
        Ok(())
    }

    /// To the host.
    fn put(&mut self, chunk: &mut [u8], blocks: u64) -> Result<(), Status> {
        let (data, metadata) = self.split(chunk, blocks);
        let Some(host) = &mut self.host else { return Ok(()) };
        if self.interleaved != 0 {
            let metadata = metadata.chunks_exact(self.interleaved as usize);
            return data.chunks_exact(self.block_bytes as usize).zip(metadata).try_for_each(
                |(data, metadata)| {
                    host.put(data)?;
                    host.put(metadata)
                },
            );
        }
        host.put(data)?;
        let piece = Piece::Data { addr: BusAddr(self.metadata_at), len_bytes: metadata.len() as u64 };
        HostBuffer::metadata(self.context.core, &piece).put(metadata)
    }

    /// From the host.
    fn get(&mut self, chunk: &mut [u8], blocks: u64) -> Result<(), Status> {
        let (data, metadata) = self.split(chunk, blocks);
        let Some(host) = &mut self.host else { return Ok(()) };
        if self.interleaved != 0 {
            let metadata = metadata.chunks_exact_mut(self.interleaved as usize);
            let data = data.chunks_exact_mut(self.block_bytes as usize);
            return data.zip(metadata).try_for_each(|(data, metadata)| {
                host.get(data)?;
                host.get(metadata)
            });
        }
        host.get(data)?;
        let piece = Piece::Data { addr: BusAddr(self.metadata_at), len_bytes: metadata.len() as u64 };
        HostBuffer::metadata(self.context.core, &piece).get(metadata)
    }
}
