//! Neighbouring pieces become one copy: each costs more than a microsecond, however small.

use super::Piece;

/// The pieces, those that continue one another in the chunk and on the GPU made one.
pub(super) fn merged(pieces: &[Piece]) -> impl Iterator<Item = Piece> + '_ {
    let mut rest = pieces;
    core::iter::from_fn(move || {
        let (first, mut tail) = rest.split_first()?;
        let mut whole = *first;
        while let Some((next, behind)) = tail.split_first()
            && continues(&whole, next)
        {
            whole.len_bytes += next.len_bytes;
            tail = behind;
        }
        rest = tail;
        Some(whole)
    })
    .filter(|piece| piece.len_bytes > 0)
}

fn continues(whole: &Piece, next: &Piece) -> bool {
    whole.chunk_offset + whole.len_bytes == next.chunk_offset && whole.offset + whole.len_bytes == next.offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn piece(chunk_offset: usize, offset: usize, len_bytes: usize) -> Piece {
        Piece { chunk_offset, offset, len_bytes }
    }

    #[test]
    fn only_what_continues_in_both_places_is_merged() {
        let pieces =
            [piece(0, 100, 8), piece(8, 108, 8), piece(16, 200, 8), piece(32, 208, 8), piece(40, 216, 0)];
        let merged: Vec<Piece> = merged(&pieces).collect();
        assert_eq!(merged, [piece(0, 100, 16), piece(16, 200, 8), piece(32, 208, 8)]);
    }

    proptest! {
        #[test]
        fn merging_changes_no_byte(pieces in proptest::collection::vec((0usize..4, 0usize..4, 0usize..3), 0..40)) {
            let pieces: Vec<Piece> = pieces.into_iter().map(|(at, to, len)| piece(at, to, len)).collect();
            let bytes = |pieces: &mut dyn Iterator<Item = Piece>| {
                let mut bytes = Vec::new();
                for piece in pieces {
                    bytes.extend((0..piece.len_bytes).map(|i| (piece.chunk_offset + i, piece.offset + i)));
                }
                bytes
            };
            prop_assert_eq!(bytes(&mut merged(&pieces)), bytes(&mut pieces.iter().copied()));
        }
    }
}
