//! [`Boxes`]: the boxes of a page, as columns.
//!
//! The columns stay in shared memory: a copy would let loops use vector instructions, but costs
//! more than these save. A test looks at one axis of all entries, and at the other axes of the few
//! that are left.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Link;
use crate::Rect;

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

/// The entries that one word of bits can select.
const GROUP: usize = u64::BITS as usize;

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
        let count = self.count();
        // In this form the compiler sees that no index is out of bounds.
        let (low, high) = (self.low.map(|one| &one[..count]), self.high.map(|one| &one[..count]));
        let ids = &self.ids[..count];
        (0..count).map(move |slot| {
            let rect = Rect::from_parts(
                std::array::from_fn(|d| number(&low[d][slot])),
                std::array::from_fn(|d| number(&high[d][slot])),
            );
            (rect, ids[slot].load(Ordering::Relaxed))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Rect<D>> + use<'a, D> {
        let boxes = *self;
        (0..self.count()).map(move |slot| boxes.rect(slot))
    }

    /// The union of all boxes.
    pub(crate) fn union(&self) -> Rect<D> {
        let fold = |column: &[AtomicU64], start: f64, best: fn(f64, f64) -> f64| {
            column.iter().fold(start, |so_far, next| best(so_far, number(next)))
        };
        Rect::from_parts(
            std::array::from_fn(|d| fold(self.low[d], f64::INFINITY, f64::min)),
            std::array::from_fn(|d| fold(self.high[d], f64::NEG_INFINITY, f64::max)),
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
        let (first, second) = (first.map(|one| &one[..count]), second.map(|one| &one[..count]));
        // The entries of a page that a bulk load filled are in the order of the last axis, so those
        // that are left are neighbours.
        let last = D - 1;
        let groups = first[last].chunks(GROUP).zip(second[last].chunks(GROUP));
        for (group, (ones, others)) in groups.enumerate() {
            let mut bits = 0_u64;
            // From the end on: a shift by one place is cheaper than one by a number.
            for (a, b) in ones.iter().zip(others).rev() {
                bits =
                    bits << 1 | u64::from((number(a) <= most[last]) & (number(b) >= least[last]));
            }
            // No branch depends on the other axes, which no processor can predict.
            let (mut left, mut lefts) = ([0_u8; GROUP], 0);
            while bits != 0 {
                let entry = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let slot = (group * GROUP + entry).min(count - 1);
                left[lefts % GROUP] = entry as u8;
                let is_left = (0..last).fold(true, |is_left, d| {
                    is_left
                        & (number(&first[d][slot]) <= most[d])
                        & (number(&second[d][slot]) >= least[d])
                });
                lefts += usize::from(is_left);
            }
            left[..lefts.min(GROUP)]
                .iter()
                .for_each(|entry| found(group * GROUP + usize::from(*entry)));
        }
    }
}
