//! The commands in flight of those requests that have more than one, or that move no data.

use nvme_proto::Cid;
use ugds_hal::Instant;
use ugds_sched::{Piece, Placement};

/// A command in flight.
#[derive(Debug)]
pub(super) struct Airborne {
    pub(super) entry: u32,
    pub(super) placement: Placement,
    pub(super) piece: Piece,
    pub(super) cid: Cid,
    pub(super) since: Instant,
}

/// As many commands as a batch may have in flight this way. Its tokens are unlike those of entries.
#[derive(Debug)]
pub(super) struct Pieces {
    places: Box<[Option<Airborne>]>,
    free: Vec<u32>,
}

impl Pieces {
    pub(super) fn new() -> Self {
        Self { places: (0..PIECES).map(|_| None).collect(), free: (0..PIECES as u32).rev().collect() }
    }

    /// The token of the next command, if there is room for one.
    #[inline]
    pub(super) fn next_token(&self) -> Option<u32> {
        self.free.last().map(|place| place | PIECE)
    }

    /// Keeps the command that was launched with [`next_token`](Self::next_token).
    #[inline]
    pub(super) fn launch(&mut self, airborne: Airborne) {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(airborne);
        }
    }

    /// Takes the command with that token out, if the token is of that kind and the command is in flight.
    #[inline]
    pub(super) fn land(&mut self, token: u32) -> Option<Airborne> {
        let place = token & !PIECE;
        let airborne = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(airborne)
    }

    /// Those in flight, with their tokens.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Airborne)> {
        self.places.iter().zip(PIECE..).filter_map(|(place, token)| Some((token, place.as_ref()?)))
    }
}

/// Whether a token is that of such a command, and not of an entry.
#[inline]
pub(super) fn is_piece(token: u32) -> bool {
    token & PIECE != 0
}

const PIECE: u32 = 1 << 31;
/// At 128 KiB each that is 32 MiB in flight: more than any device needs to be busy.
pub(super) const PIECES: usize = 256;
