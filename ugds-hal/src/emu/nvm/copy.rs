//! Copy.

use super::{Context, HostBuffer, MCL, MSRC_Z, MSSRL, Scratch};
use crate::emu::namespace::{FaultOn, NamespaceState};
use crate::emu::store::{Durability, MediumError};
use nvme_proto::Status;
use nvme_proto::nvm::{Copy, CopyRange};
use nvme_proto::sgl::Direction;
use nvme_proto::status::{command, generic};
use zerocopy::{FromZeros, IntoBytes};

impl Context<'_> {
    pub(super) fn copy(&self, scratch: &mut Scratch) -> Result<(), Status> {
        let copy = Copy::from_sqe(self.sqe);
        let namespace = self.namespace()?;
        if copy.format != 0 {
            return Err(generic::INVALID_FIELD);
        }
        if copy.nr_z > MSRC_Z {
            return Err(command::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        let Scratch { data, pieces, .. } = scratch;
        let mut ranges = [CopyRange::new_zeroed(); 256];
        let ranges = &mut ranges[..copy.ranges() as usize];
        let len = size_of_val(ranges) as u64;
        HostBuffer::new(self.core, self.page, self.sqe, len, Direction::FromHost, pieces)?
            .get(ranges.as_mut_bytes())?;
        let state = namespace.read();
        let blocks = self.check_copy(&state, &copy, ranges)?;
        // Everything is read before anything is written, so that ranges may overlap.
        let shift = state.format().data_shift;
        data.resize((blocks << shift) as usize, 0);
        let store = self.core.namespaces.store();
        let mut done = 0;
        for range in ranges.iter() {
            let len = (range.blocks().get() as usize) << shift;
            let offset = namespace.base + (range.slba().0 << shift);
            store.read(offset, &mut data[done..done + len]).map_err(MediumError::status)?;
            done += len;
        }
        let how = if copy.flags.fua() { Durability::Through } else { Durability::Cached };
        let offset = namespace.base + (copy.destination.0 << shift);
        store.write(offset, &data[..done], how).map_err(MediumError::status)?;
        drop(state);
        namespace.heal(copy.destination.0, blocks);
        Ok(())
    }

    /// Checks the limits and the ranges, and returns the number of blocks in all.
    fn check_copy(&self, state: &NamespaceState, copy: &Copy, ranges: &[CopyRange]) -> Result<u64, Status> {
        let sizes = || ranges.iter().map(|range| u64::from(range.blocks().get()));
        let total: u64 = sizes().sum();
        if sizes().any(|blocks| blocks > u64::from(MSSRL)) || total > u64::from(MCL) {
            return Err(command::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        self.check_writable(state)?;
        if state.format().metadata_bytes != 0 {
            return Err(generic::INVALID_FIELD);
        }
        let inside = |range: &CopyRange| state.contains(range.slba().0, range.blocks().get().into());
        if !ranges.iter().all(inside) || !state.contains(copy.destination.0, total) {
            return Err(generic::LBA_OUT_OF_RANGE);
        }
        for range in ranges {
            self.check_media(state, FaultOn::Reads, range.slba().0, range.blocks().get().into())?;
        }
        self.check_media(state, FaultOn::Writes, copy.destination.0, total)?;
        Ok(total)
    }
}
