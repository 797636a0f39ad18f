//! [`Pieces`]: written bytes of one line that are not visible yet.

use std::ops::Range;

use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::Words;

/// A piece of a line: its offset in the payload, and its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset - self.offset..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// The combined bytes of several writes to one line: pieces in order of their offsets, none of
/// which overlaps or touches another.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pieces(Vec<Piece>);

impl Pieces {
    /// The pieces are in order, not empty, and do not touch each other.
    fn check(&self) {
        assert!(self.0.iter().all(|piece| !piece.bytes.is_empty()), "an empty piece");
        assert!(
            self.0.windows(2).all(|pair| pair[0].end() < pair[1].offset),
            "two pieces touch each other"
        );
    }

    /// Adds a later write. Returns the number of bytes by which the pieces grew.
    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        let end = offset + bytes.len();
        let first = self.0.partition_point(|piece| piece.end() < offset);
        let last = self.0.partition_point(|piece| piece.offset <= end);
        let before = self.len();
        strict_assert!(first <= last, "the pieces are out of order");
        match &mut self.0[first..last] {
            [] => self.0.insert(first, Piece { offset, bytes: bytes.to_vec() }),
            [one] if one.offset <= offset && end <= one.end() => one.put(offset, bytes),
            touched => {
                let start = offset.min(touched[0].offset);
                let stop = end.max(touched[touched.len() - 1].end());
                let mut whole = Piece { offset: start, bytes: vec![0; stop - start] };
                touched.iter().for_each(|piece| whole.put(piece.offset, &piece.bytes));
                whole.put(offset, bytes);
                self.0.splice(first..last, [whole]);
            }
        }
        strict_check!(self);
        self.len() - before
    }

    /// The total number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.bytes.len()).sum()
    }

    /// Whether the pieces contain every byte of the range.
    pub(crate) fn cover(&self, range: &Range<usize>) -> bool {
        // Pieces do not touch, so one piece must contain the range.
        self.0.iter().any(|piece| piece.offset <= range.start && range.end <= piece.end())
    }

    /// Copies the bytes that the pieces contain, from `offset` on, over those in `to`.
    pub(crate) fn overlay(&self, offset: usize, to: &mut [u8]) {
        for piece in &self.0 {
            let start = piece.offset.max(offset);
            let end = piece.end().min(offset + to.len());
            if start < end {
                let from = &piece.bytes[start - piece.offset..end - piece.offset];
                strict_assert!(end <= piece.end() && end - offset <= to.len());
                to[start - offset..end - offset].copy_from_slice(from);
            }
        }
    }

    /// Writes all pieces into a line's payload, and reports the changed ranges. The caller has the
    /// latch.
    pub(crate) fn store(&self, payload: Words<'_>, mut changed: impl FnMut(Range<usize>)) {
        for piece in &self.0 {
            payload.write_bytes(piece.offset, &piece.bytes);
            strict_assert!(!piece.bytes.is_empty(), "an empty piece");
            changed(piece.offset..piece.end());
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Piece> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: usize = 48;

    proptest! {
        /// Compares with a byte array in which each written byte is marked.
        #[test]
        fn pieces_are_the_bytes_that_were_written(
            writes in prop::collection::vec((0..LINE, 0..12usize, any::<u8>()), 1..12),
            asked in (0..LINE, 0..LINE),
        ) {
            let mut pieces = Pieces::default();
            let mut plain = [None; LINE];
            for (offset, len, value) in writes {
                let bytes = vec![value; len.min(LINE - offset)];
                let grown = pieces.put(offset, &bytes);
                let before = plain.iter().flatten().count();
                plain[offset..offset + bytes.len()].fill(Some(value));
                prop_assert_eq!(grown, plain.iter().flatten().count() - before);
            }
            let mut seen = [0xEE; LINE];
            pieces.overlay(0, &mut seen);
            prop_assert_eq!(seen, plain.map(|byte| byte.unwrap_or(0xEE)));
            for pair in pieces.0.windows(2) {
                prop_assert!(pair[0].end() < pair[1].offset, "{pieces:?}");
            }
            let range = asked.0.min(asked.1)..asked.0.max(asked.1);
            if !range.is_empty() {
                let covered = plain[range.clone()].iter().all(Option::is_some);
                prop_assert_eq!(pieces.cover(&range), covered);
                let mut part = vec![0xEE; range.len()];
                pieces.overlay(range.start, &mut part);
                prop_assert_eq!(&part[..], &seen[range]);
            }
        }
    }
}
