//! [`Range`]: the bounds and the direction of a scan.

use std::ops::Bound;

/// The bounds, direction and limit of a scan.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The lower bound.
    pub from: Bound<&'a [u8]>,
    /// The upper bound.
    pub to: Bound<&'a [u8]>,
    /// Whether the scan runs from the upper bound down.
    pub descending: bool,
    /// The maximum number of rows.
    pub limit: usize,
}

impl<'a> Range<'a> {
    /// All rows, ascending.
    pub fn all() -> Range<'a> {
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        Range { from, to, descending: false, limit: usize::MAX }
    }

    /// The rows from `from` (included) to `to` (excluded), ascending.
    pub fn between(from: &'a [u8], to: &'a [u8]) -> Range<'a> {
        Range { from: Bound::Included(from), to: Bound::Excluded(to), ..Range::all() }
    }

    /// The same rows, descending.
    #[must_use]
    pub fn descending(self) -> Range<'a> {
        Range { descending: true, ..self }
    }

    /// At most `limit` rows.
    #[must_use]
    pub fn limit(self, limit: usize) -> Range<'a> {
        Range { limit, ..self }
    }

    pub(super) fn has_left(&self, key: &[u8]) -> bool {
        let (above, below) = match (self.from, self.to) {
            (from, to) if self.descending => (false, is_below(key, from) || is_above(key, to)),
            (_, to) => (is_above(key, to), false),
        };
        above || below
    }

    pub(super) fn holds(&self, key: &[u8]) -> bool {
        !is_below(key, self.from) && !is_above(key, self.to)
    }
}

fn is_below(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Unbounded => false,
        Bound::Included(from) => key < from,
        Bound::Excluded(from) => key <= from,
    }
}

fn is_above(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Unbounded => false,
        Bound::Included(to) => key > to,
        Bound::Excluded(to) => key >= to,
    }
}
