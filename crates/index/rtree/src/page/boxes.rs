//! [`Boxes`]: the boxes of a page, as columns.
//!
//! The columns stay in shared memory, where [`bits_between`] compares several numbers at a time. A
//! copy of them would cost more than the comparisons.

use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_verbs::{COLUMN_MAX, WORD, bits_between};

use super::Link;
use crate::Rect;
use crate::rect::{less, more};

/// The relation of an entry's box to the box of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    /// Both have a common point.
    Intersects,
    /// The entry is inside the query.
    Inside,
    /// The entry contains the query.
    Contains,
}

/// The column of the low coordinates of an axis. That of the high ones follows. The last axis is
/// first: queries test it first.
#[inline]
pub(super) fn low_column<const D: usize>(axis: usize) -> usize {
    2 * (D - 1 - axis)
}

/// The boxes of the entries of a page, and where they lead. They may be torn until the read
/// validates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boxes<'a, const D: usize> {
    // All columns have the same length.
    low: [&'a [AtomicU64]; D],
    high: [&'a [AtomicU64]; D],
    /// Ids of a leaf, children of an inner page.
    ids: &'a [AtomicU64],
    /// The links of an inner page.
    links: &'a [AtomicU64],
}

#[inline]
fn number(word: &AtomicU64) -> f64 {
    f64::from_bits(word.load(Ordering::Relaxed))
}

/// The boxes and ids of a leaf in a copy of its columns.
#[inline]
pub(crate) fn copied<const D: usize>(
    columns: &[u8],
    count: usize,
) -> impl Iterator<Item = (Rect<D>, u64)> {
    let (words, _) = columns.as_chunks::<WORD>();
    let cap = words.len() / (2 * D + 1);
    let count = count.min(cap);
    let column = move |column: usize| &words[column * cap..][..count];
    let low: [_; D] = std::array::from_fn(|d| column(low_column::<D>(d)));
    let high: [_; D] = std::array::from_fn(|d| column(low_column::<D>(d) + 1));
    let ids = column(2 * D);
    (0..count).map(move |slot| {
        let rect = Rect::from_parts(
            std::array::from_fn(|d| f64::from_le_bytes(low[d][slot])),
            std::array::from_fn(|d| f64::from_le_bytes(high[d][slot])),
        );
        (rect, u64::from_le_bytes(ids[slot]))
    })
}

impl<'a, const D: usize> Boxes<'a, D> {
    /// The first `count` entries of columns of `cap` words each; none if `words` is shorter. The
    /// last column of an inner page is that of the links.
    #[inline]
    pub(super) fn new(
        words: &'a [AtomicU64],
        is_inner: bool,
        (cap, count): (usize, usize),
    ) -> Boxes<'a, D> {
        let columns = 2 * D + if is_inner { 2 } else { 1 };
        let whole = count <= cap && words.len() >= cap * columns;
        let count = if whole { count } else { 0 };
        let column = |column: usize| &words[column * cap..][..count];
        Boxes {
            low: std::array::from_fn(|d| column(low_column::<D>(d))),
            high: std::array::from_fn(|d| column(low_column::<D>(d) + 1)),
            ids: column(2 * D),
            links: if is_inner { column(2 * D + 1) } else { &[] },
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }

    /// The id of a leaf's entry, or the bits of a child's address.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    pub(crate) fn id(&self, slot: usize) -> u64 {
        self.ids[slot].load(Ordering::Relaxed)
    }

    /// The box of an entry.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    pub(crate) fn rect(&self, slot: usize) -> Rect<D> {
        Rect::from_parts(
            std::array::from_fn(|d| number(&self.low[d][slot])),
            std::array::from_fn(|d| number(&self.high[d][slot])),
        )
    }

    /// What an entry of an inner page says of its child.
    #[inline]
    pub(crate) fn link(&self, slot: usize) -> Link {
        // A page that changes its level meanwhile has no links.
        Link::from_bits(self.links.get(slot).map_or(0, |link| link.load(Ordering::Relaxed)))
    }

    /// All boxes with their ids.
    #[inline]
    pub(crate) fn with_ids(&self) -> impl Iterator<Item = (Rect<D>, u64)> + use<'a, D> {
        self.iter().zip(self.ids).map(|(rect, id)| (rect, id.load(Ordering::Relaxed)))
    }

    /// All boxes.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Rect<D>> + use<'a, D> {
        let count = self.count();
        // In this form the compiler sees that no index is out of bounds.
        let (low, high) = (self.low.map(|one| &one[..count]), self.high.map(|one| &one[..count]));
        (0..count).map(move |slot| {
            Rect::from_parts(
                std::array::from_fn(|d| number(&low[d][slot])),
                std::array::from_fn(|d| number(&high[d][slot])),
            )
        })
    }

    /// The union of all boxes.
    pub(crate) fn union(&self) -> Rect<D> {
        let fold = |column: &[AtomicU64], start: f64, best: fn(f64, f64) -> f64| {
            column.iter().fold(start, |so_far, next| best(so_far, number(next)))
        };
        Rect::from_parts(
            std::array::from_fn(|d| fold(self.low[d], f64::INFINITY, less)),
            std::array::from_fn(|d| fold(self.high[d], f64::NEG_INFINITY, more)),
        )
    }

    /// Calls `found` with the slots of all entries with this relation to `query`, in order.
    #[inline]
    pub(crate) fn select(&self, relation: Relation, query: &Rect<D>, mut found: impl FnMut(usize)) {
        // An entry is selected if on each axis the first column is at most the first limit, and the
        // second column at least the second one.
        let (first, second, most, least) = match relation {
            Relation::Intersects => (self.low, self.high, query.high(), query.low()),
            Relation::Inside => (self.high, self.low, query.high(), query.low()),
            Relation::Contains => (self.low, self.high, query.low(), query.high()),
        };
        let count = self.count();
        for group in (0..count).step_by(COLUMN_MAX) {
            let part = group..count.min(group + COLUMN_MAX);
            let bits = |d: usize| {
                bits_between(&first[d][part.clone()], most[d], &second[d][part.clone()], least[d])
            };
            let mut bits = (0..D).rev().fold(u64::MAX, |left, d| {
                // One axis alone often excludes all of a page that overlaps its neighbours.
                if left == 0 { 0 } else { left & bits(d) }
            });
            while bits != 0 {
                found(group + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}
