//! The memory that the requests of a batch move: held once, however many requests move it.

use crate::region::Region;
use std::sync::Arc;
use ugds_mem::Mapped;

/// Regions by the index of their mapping, each with the number of requests that move it. A region that none moves is
/// let go of, so that it can be released.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// One less than the requests that move it, so that both ends show in the carry.
    uses: Vec<u32>,
    /// As many: those that somebody moves.
    regions: Vec<Option<Region>>,
}

impl Held {
    /// Holds a region for one more request, and returns its index.
    #[inline(always)]
    pub(super) fn hold(&mut self, region: &Region) -> u32 {
        let index = region.mapped().index();
        match self.uses.get_mut(index as usize) {
            Some(uses) => {
                *uses = uses.wrapping_add(1);
                // Else: the index is the mapping's alone for as long as the mapping lives, which is held here.
                if *uses == 0 {
                    self.hold_first(region, index);
                }
            }
            None => self.hold_new(region, index),
        }
        index
    }

    #[cold]
    #[inline(never)]
    fn hold_new(&mut self, region: &Region, index: u32) {
        self.uses.resize(index as usize + 1, UNUSED);
        self.regions.resize(index as usize + 1, None);
        self.uses[index as usize] = 0;
        self.hold_first(region, index);
    }

    #[inline(never)]
    fn hold_first(&mut self, region: &Region, index: u32) {
        self.regions[index as usize] = Some(region.clone());
    }

    /// The region with that index, which is held.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Region> {
        self.regions.get(index as usize)?.as_ref()
    }

    /// Its mapping.
    #[inline(always)]
    pub(super) fn mapped(&self, index: u32) -> Option<&Arc<Mapped>> {
        self.get(index).map(Region::mapped)
    }

    /// Lets go of a region for one request.
    #[inline(always)]
    pub(super) fn release(&mut self, index: u32) {
        if let Some(uses) = self.uses.get_mut(index as usize) {
            let was_last = *uses == 0;
            *uses = uses.wrapping_sub(1);
            if was_last {
                self.let_go(index);
            }
        }
    }

    #[inline(never)]
    fn let_go(&mut self, index: u32) {
        self.regions[index as usize] = None;
    }
}

const UNUSED: u32 = u32::MAX;
