//! The commands of a port that have been staged and not completed, by their identifiers.

use super::About;
use crate::Instant;
use nvme_proto::Cid;

/// A command between its staging and its completion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    pub(super) about: About,
    /// Nothing until the device is told.
    pub(super) rung_at: Option<Instant>,
}

/// As many flights as a ring has entries. A flight lies at the place that the low bits of its identifier say. Where two
/// say the same, which no queue of ours does, the newer one lies in a list that is searched.
#[derive(Debug)]
pub(super) struct Flights {
    places: Box<[Option<(Cid, Flight)>]>,
    mask: usize,
    others: Vec<(Cid, Flight)>,
}

impl Flights {
    pub(super) fn new(entries: u16) -> Self {
        let places = usize::from(entries).next_power_of_two();
        Self {
            places: vec![None; places].into(),
            mask: places - 1,
            others: Vec::with_capacity(OTHERS.min(places)),
        }
    }

    /// Notes a command. One that had the same identifier is forgotten: its completion got lost.
    #[inline]
    pub(super) fn insert(&mut self, cid: Cid, flight: Flight) {
        if !self.others.is_empty() {
            self.others.retain(|(other, _)| *other != cid);
        }
        let place = &mut self.places[usize::from(cid.0) & self.mask];
        match place {
            Some((other, _)) if *other != cid => self.insert_elsewhere(cid, flight),
            _ => *place = Some((cid, flight)),
        }
    }

    #[inline]
    pub(super) fn find(&mut self, cid: Cid) -> Option<&mut Flight> {
        match &mut self.places[usize::from(cid.0) & self.mask] {
            Some((own, flight)) if *own == cid => Some(flight),
            _ => self.others.iter_mut().find(|(other, _)| *other == cid).map(|(_, flight)| flight),
        }
    }

    /// Takes a command out that the device was told about.
    #[inline]
    pub(super) fn take_rung(&mut self, cid: Cid) -> Option<(About, Instant)> {
        let place = &mut self.places[usize::from(cid.0) & self.mask];
        match *place {
            Some((own, flight)) if own == cid => {
                let rung_at = flight.rung_at?;
                *place = None;
                Some((flight.about, rung_at))
            }
            _ => self.take_elsewhere(cid),
        }
    }

    #[cold]
    fn insert_elsewhere(&mut self, cid: Cid, flight: Flight) {
        if self.others.len() == self.others.capacity() {
            // The oldest, since whatever completed was taken out.
            self.others.remove(0);
        }
        self.others.push((cid, flight));
    }

    #[cold]
    fn take_elsewhere(&mut self, cid: Cid) -> Option<(About, Instant)> {
        let at = self.others.iter().position(|(other, _)| *other == cid)?;
        let rung_at = self.others[at].1.rung_at?;
        Some((self.others.remove(at).1.about, rung_at))
    }
}

/// More than any sensible numbering needs.
const OTHERS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn rung(at: u64) -> Flight {
        Flight { rung_at: Some(Instant(at)), about: About::default() }
    }

    proptest! {
        /// Identifiers from a small set, so that places are shared and identifiers are used again.
        #[test]
        fn flights_agree_with_a_map(steps in prop::collection::vec((0u16..24, any::<bool>()), 0..200)) {
            let (mut flights, mut map) = (Flights::new(8), BTreeMap::new());
            for (at, (cid, insert)) in (0..).zip(steps) {
                let cid = Cid(cid);
                // As many as the ring may have outstanding.
                if insert && (map.contains_key(&cid) || map.len() < 7) {
                    flights.insert(cid, rung(at));
                    map.insert(cid, at);
                } else if !insert {
                    let taken = flights.take_rung(cid).map(|(_, at)| at.0);
                    prop_assert_eq!(taken, map.remove(&cid));
                }
            }
        }
    }

    #[test]
    fn what_the_device_was_not_told_about_is_not_taken() {
        let mut flights = Flights::new(4);
        for cid in [1, 5] {
            flights.insert(Cid(cid), Flight::default());
            assert!(flights.take_rung(Cid(cid)).is_none());
            flights.find(Cid(cid)).unwrap().rung_at = Some(Instant(7));
            assert!(flights.take_rung(Cid(cid)).is_some());
        }
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let mut flights = Flights::new(2);
        (0..8).for_each(|n| flights.insert(Cid(n * 2), rung(n.into())));
        assert!(flights.take_rung(Cid(0)).is_some() && flights.take_rung(Cid(14)).is_some());
        assert!(flights.take_rung(Cid(2)).is_none());
    }
}
