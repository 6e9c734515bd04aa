//! Commands on blocks without their data: Write Zeroes, Write Uncorrectable, Dataset Management.

use super::{Context, HostBuffer, Moves, Scratch};
use crate::emu::namespace::{FaultOn, Namespace, NamespaceState};
use crate::emu::store::MediumError;
use nvme_proto::Status;
use nvme_proto::nvm::{DatasetManagement, DsmAttributes, DsmRange, ReadWrite};
use nvme_proto::sgl::Direction;
use nvme_proto::status::generic;
use zerocopy::{FromZeros, IntoBytes};

impl Context<'_> {
    pub(super) fn write_zeroes(&self) -> Result<(), Status> {
        let command = ReadWrite::from_sqe(self.sqe);
        let (first, blocks) = (command.slba.0, u64::from(command.blocks.get()));
        let namespace = self.namespace()?;
        let state = namespace.read();
        self.check(&state, &command, Moves::Nothing)?;
        self.check_writable(&state)?;
        self.check_media(&state, FaultOn::Writes, first, blocks)?;
        self.zero(namespace, &state, first, blocks)?;
        drop(state);
        namespace.heal(first, blocks);
        Ok(())
    }

    pub(super) fn write_uncorrectable(&self) -> Result<(), Status> {
        let command = ReadWrite::from_sqe(self.sqe);
        let namespace = self.namespace()?;
        let mut state = namespace.write();
        self.check(&state, &command, Moves::Nothing)?;
        self.check_writable(&state)?;
        let first = command.slba.0;
        state.uncorrectable.insert(first, first + u64::from(command.blocks.get()));
        Ok(())
    }

    pub(super) fn dataset_management(&self, scratch: &mut Scratch) -> Result<(), Status> {
        let command = DatasetManagement::from_sqe(self.sqe);
        let namespace = self.namespace()?;
        let mut ranges = [DsmRange::new_zeroed(); 256];
        let ranges = &mut ranges[..command.ranges() as usize];
        let len = size_of_val(ranges) as u64;
        HostBuffer::new(self.core, self.page, self.sqe, len, Direction::FromHost, &mut scratch.pieces)?
            .get(ranges.as_mut_bytes())?;
        // Everything else is a hint.
        if !command.attributes.contains(DsmAttributes::DEALLOCATE) {
            return Ok(());
        }
        let state = namespace.read();
        self.check_writable(&state)?;
        if ranges.iter().any(|range| !state.contains(range.slba.get(), range.blocks.get().into())) {
            return Err(generic::LBA_OUT_OF_RANGE);
        }
        for range in ranges.iter() {
            self.zero(namespace, &state, range.slba.get(), range.blocks.get().into())?;
        }
        drop(state);
        for range in ranges.iter() {
            namespace.heal(range.slba.get(), range.blocks.get().into());
        }
        Ok(())
    }

    fn zero(
        &self,
        namespace: &Namespace,
        state: &NamespaceState,
        first: u64,
        blocks: u64,
    ) -> Result<(), Status> {
        let format = state.format();
        let (offset, len) = (first << format.data_shift, blocks << format.data_shift);
        self.core.namespaces.store().zero(namespace.base + offset, len).map_err(MediumError::status)?;
        let metadata = u64::from(format.metadata_bytes);
        namespace.metadata.zero(first * metadata, blocks * metadata);
        Ok(())
    }
}
