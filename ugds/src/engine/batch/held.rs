//! The memory that the requests of a batch move: held once, however many requests move it.

use crate::region::Region;
use std::sync::Arc;
use ugds_mem::Mapped;

/// Regions by the index of their mapping, each with the number of requests that move it. A region that none moves is
/// let go of, so that it can be released.
#[derive(Debug, Default)]
pub(super) struct Held {
    places: Vec<Option<Place>>,
}

#[derive(Debug)]
struct Place {
    region: Region,
    uses: u32,
}

impl Held {
    /// Holds a region for one more request, and returns its index.
    #[inline]
    pub(super) fn hold(&mut self, region: &Region) -> u32 {
        let index = region.mapped().index();
        match self.places.get_mut(index as usize) {
            // The index is the mapping's alone for as long as the mapping lives, which is held here.
            Some(Some(place)) => place.uses += 1,
            _ => self.hold_first(region, index),
        }
        index
    }

    #[cold]
    fn hold_first(&mut self, region: &Region, index: u32) {
        let index = index as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        self.places[index] = Some(Place { region: region.clone(), uses: 1 });
    }

    /// The region with that index, which is held.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Region> {
        match self.places.get(index as usize) {
            Some(Some(place)) => Some(&place.region),
            _ => None,
        }
    }

    /// Its mapping.
    #[inline(always)]
    pub(super) fn mapped(&self, index: u32) -> Option<&Arc<Mapped>> {
        self.get(index).map(Region::mapped)
    }

    /// Lets go of a region for one request.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        if let Some(Some(place)) = self.places.get_mut(index as usize) {
            place.uses -= 1;
            if place.uses == 0 {
                self.let_go(index);
            }
        }
    }

    #[inline(never)]
    fn let_go(&mut self, index: u32) {
        self.places[index as usize] = None;
    }
}
