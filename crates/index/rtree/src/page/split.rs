//! The division of a full page into two halves, as in the R*-tree (Beckmann and others, 4.2).

use super::Boxes;
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
pub(crate) fn plan<const D: usize>(boxes: Boxes<'_, D>) -> [Half<D>; 2] {
    let count = boxes.count();
    assert!(count >= 2, "a page of {count} entries has no halves");
    let least = ((count as f64 * LEAST_SHARE) as usize).clamp(1, count / 2);
    let rects: Vec<Rect<D>> = boxes.iter().collect();
    let mut best: Option<Axis> = None;
    for axis in 0..D {
        let next = distributions(&rects, axis, least);
        if best.as_ref().is_none_or(|best| next.margin < best.margin) {
            best = Some(next);
        }
    }
    let Some(Axis { order, at, .. }) = best else { unreachable!("there is an axis") };
    let (left, right) = order.split_at(at);
    [left, right].map(|slots| {
        let cover = slots.iter().fold(Rect::NOTHING, |so_far, &slot| so_far.union(&rects[slot]));
        Half { slots: slots.to_vec(), cover }
    })
}

/// The distributions of one axis.
struct Axis {
    /// The sum of the margins of all distributions.
    margin: f64,
    /// The order of the best distribution, and the size of its first half.
    order: Vec<usize>,
    at: usize,
}

fn distributions<const D: usize>(rects: &[Rect<D>], axis: usize, least: usize) -> Axis {
    let count = rects.len();
    let mut margin = 0.0;
    let mut best: Option<((f64, f64), Vec<usize>, usize)> = None;
    for by_high in [false, true] {
        let mut order: Vec<usize> = (0..count).collect();
        let key = |slot: usize| {
            let (low, high) = (rects[slot].low()[axis], rects[slot].high()[axis]);
            if by_high { (high, low) } else { (low, high) }
        };
        // The slot makes the order total, so that the same page always has the same halves.
        order.sort_unstable_by(|&a, &b| {
            let (x, y) = (key(a), key(b));
            x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1)).then(a.cmp(&b))
        });
        // Entry `k`: the union of the last entries from `k` on.
        let mut behind = vec![Rect::NOTHING; count + 1];
        for k in (0..count).rev() {
            behind[k] = behind[k + 1].union(&rects[order[k]]);
        }
        let mut front = Rect::NOTHING;
        for k in 1..=count - least {
            front = front.union(&rects[order[k - 1]]);
            if k < least {
                continue;
            }
            margin += front.margin() + behind[k].margin();
            let cost = (front.overlap(&behind[k]), front.area() + behind[k].area());
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, order.clone(), k));
            }
        }
    }
    let Some((_, order, at)) = best else { unreachable!("there is a distribution") };
    Axis { margin, order, at }
}
