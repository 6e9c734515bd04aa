//! Registered regions by address.

use crate::region::WeakRegion;
use crate::{Region, Token};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use spin::RwLock;

/// Finds registered regions by an address in them.
///
/// Registrations may overlap, and the same address may be registered many times: small allocations share pages. Each
/// is a region of its own with its own [`Token`]. The registry keeps no region alive.
#[derive(Debug, Default)]
pub struct Registry {
    regions: RwLock<BTreeMap<(usize, Token), Entry>>,
}

#[derive(Debug)]
struct Entry {
    len_bytes: usize,
    region: WeakRegion,
}

impl Registry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a region, and forgets those that are gone.
    pub fn insert(&self, region: &Region) {
        let mut regions = self.regions.write();
        regions.retain(|_, entry| entry.region.is_alive());
        let entry = Entry { len_bytes: region.len_bytes(), region: region.downgrade() };
        regions.insert((region.address(), region.token()), entry);
    }

    /// Removes a region. `false` when it was not there.
    pub fn remove(&self, region: &Region) -> bool {
        self.regions.write().remove(&(region.address(), region.token())).is_some()
    }

    /// The region registered last among those that start exactly at `address`.
    #[must_use]
    pub fn starting_at(&self, address: usize) -> Option<Region> {
        let regions = self.regions.read();
        regions
            .range((address, Token::MIN)..=(address, Token::MAX))
            .rev()
            .find_map(|(_, entry)| entry.region.upgrade())
    }

    /// Every region that holds all of `len_bytes` at `address`, in order of their starts.
    #[must_use]
    pub fn covering(&self, address: usize, len_bytes: usize) -> Vec<Region> {
        let Some(end) = address.checked_add(len_bytes) else {
            return Vec::new();
        };
        let regions = self.regions.read();
        regions
            .range(..=(address, Token::MAX))
            .filter(|((start, _), entry)| start.saturating_add(entry.len_bytes) >= end)
            .filter_map(|(_, entry)| entry.region.upgrade())
            .collect()
    }

    /// The region with this token, if it is still registered.
    #[must_use]
    pub fn by_token(&self, token: Token) -> Option<Region> {
        let regions = self.regions.read();
        regions.iter().find(|((_, known), _)| *known == token).and_then(|(_, entry)| entry.region.upgrade())
    }
}
