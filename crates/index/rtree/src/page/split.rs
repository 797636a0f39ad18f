//! The division of a full page into two halves, as in the R*-tree (Beckmann and others, 4.2).

use super::{Boxes, Order, ordered};
use crate::Rect;

/// One half of a page that is split.
#[derive(Debug)]
pub(crate) struct Half<const D: usize> {
    pub(crate) slots: Vec<usize>,
    pub(crate) cover: Rect<D>,
}

/// The least share of the entries that a half gets, as in the R*-tree.
const LEAST_SHARE: f64 = 0.4;

/// Divides the entries of a page of at least two.
///
/// 1. For each axis, sort the entries by their low and by their high coordinates. Each sort gives
///    distributions: the first `k` entries, and the others.
/// 2. Choose the axis with the least sum of the margins of all distributions.
/// 3. Of this axis, choose the distribution with the least overlap, then with the least area.
///
/// Equal coordinates are in the order of the slots, so that the same page always has the same
/// halves.
pub(crate) fn plan<const D: usize>(boxes: Boxes<'_, D>) -> [Half<D>; 2] {
    let count = boxes.count();
    assert!(count >= 2, "a page of {count} entries has no halves");
    let rects: Vec<Rect<D>> = boxes.iter().collect();
    let mut sorts = Sorts {
        rects: &rects,
        least: ((count as f64 * LEAST_SHARE) as usize).clamp(1, count / 2),
        order: Order::of(count),
        behind: vec![Rect::NOTHING; count + 1],
    };
    let mut best: Option<Axis> = None;
    for axis in 0..D {
        let next = sorts.distributions(axis);
        if best.as_ref().is_none_or(|best| next.margin < best.margin) {
            best = Some(next);
        }
    }
    let Some(Axis { by, at, .. }) = best else { unreachable!("there is an axis") };
    sorts.sort(by);
    [0..at, at..count].map(|half| {
        let slots: Vec<usize> = sorts.order.numbers(half).collect();
        let cover = slots.iter().fold(Rect::NOTHING, |so_far, &slot| so_far.union(&rects[slot]));
        Half { slots, cover }
    })
}

/// The coordinate by which entries are sorted.
#[derive(Clone, Copy)]
struct By {
    axis: usize,
    high: bool,
}

/// The best distribution of one axis.
struct Axis {
    /// The sum of the margins of all distributions.
    margin: f64,
    by: By,
    /// The size of the first half.
    at: usize,
}

/// The entries of a page, sorted one way after the other.
struct Sorts<'a, const D: usize> {
    rects: &'a [Rect<D>],
    /// The fewest entries of a half.
    least: usize,
    order: Order,
    /// Entry `k`: the union of the last entries from `k` on.
    behind: Vec<Rect<D>>,
}

impl<const D: usize> Sorts<'_, D> {
    fn sort(&mut self, by: By) {
        let key = |slot: usize| {
            let rect = &self.rects[slot];
            ordered(if by.high { rect.high() } else { rect.low() }[by.axis])
        };
        self.order.sort(0..self.rects.len(), key);
    }

    fn distributions(&mut self, axis: usize) -> Axis {
        let count = self.rects.len();
        let mut margin = 0.0;
        let mut best: Option<((f64, f64), By, usize)> = None;
        for high in [false, true] {
            let by = By { axis, high };
            self.sort(by);
            let mut union = Rect::NOTHING;
            let (places, slots) = (self.behind[..count].iter_mut(), self.order.numbers(0..count));
            for (behind, slot) in places.rev().zip(slots.rev()) {
                union = union.union(&self.rects[slot]);
                *behind = union;
            }
            let mut front = Rect::NOTHING;
            for (slot, k) in self.order.numbers(0..count - self.least).zip(1..) {
                front = front.union(&self.rects[slot]);
                if k < self.least {
                    continue;
                }
                let behind = &self.behind[k];
                margin += front.margin() + behind.margin();
                let cost = (front.overlap(behind), front.area() + behind.area());
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, by, k));
                }
            }
        }
        let Some((_, by, at)) = best else { unreachable!("there is a distribution") };
        Axis { margin, by, at }
    }
}
