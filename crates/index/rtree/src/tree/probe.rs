//! The probe of a search for the nearest entries: a look at the one leaf at the point.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;
use smallvec::SmallVec;

use super::RTree;
use crate::Rect;
use crate::page::{LEVEL_MAX, Page, Relation};
use crate::rect::less;

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// The square of a distance within which there are `count` entries, as far as the leaf at the
    /// point tells. Infinity if the leaf has fewer, or if a page on the way is not here.
    pub(super) fn probe(&self, point: &[f64; D], count: usize) -> f64 {
        let (mut addr, mut hint) = (self.root, &self.hints.root);
        for _ in 0..=LEVEL_MAX {
            let step = self.try_page(addr, hint, |page, hints| {
                if page.level() == 0 {
                    return ControlFlow::Break(nth_distance(page, point, count));
                }
                let Some(slot) = child_at(page, point) else {
                    return ControlFlow::Break(f64::INFINITY);
                };
                let hint = hints.get(slot).unwrap_or(&self.hints.other);
                ControlFlow::Continue((page.child(slot), hint))
            });
            match step {
                Ok(ControlFlow::Continue(child)) => (addr, hint) = child,
                Ok(ControlFlow::Break(distance)) => return distance,
                Err(_) => break,
            }
            self.memory.prefetch(hint, 0..self.layout.ids_end());
        }
        f64::INFINITY
    }
}

/// The child to which a probe goes: the smallest box with the point, or else the nearest box.
/// `None` if there is no child.
fn child_at<const D: usize>(page: &Page<'_, D>, point: &[f64; D]) -> Option<usize> {
    let boxes = page.boxes();
    let (mut chosen, mut least) = (None, f64::INFINITY);
    boxes.select(Relation::Contains, &Rect::from_parts(*point, *point), |slot| {
        let area = boxes.rect(slot).area();
        if chosen.is_none() || area < least {
            (chosen, least) = (Some(slot), area);
        }
    });
    if chosen.is_none() {
        for (slot, rect) in boxes.iter().enumerate() {
            let distance = rect.distance_squared(point);
            if chosen.is_none() || distance < least {
                (chosen, least) = (Some(slot), distance);
            }
        }
    }
    chosen
}

/// The square of a distance within which a leaf has `count` entries that do not move. Infinity if
/// it has fewer.
fn nth_distance<const D: usize>(page: &Page<'_, D>, point: &[f64; D], count: usize) -> f64 {
    // As many entries of the leaf are probably near the point. Otherwise all are looked at.
    let share = page.cover().area() * count as f64 / page.count() as f64;
    let reach = 1.5 * if D == 2 { share.sqrt() } else { share.powf(1.0 / D as f64) };
    let near = Rect::from_parts(point.map(|at| at - reach), point.map(|at| at + reach));
    let nth = nth_distance_in(&near, page, point, count);
    if nth.is_finite() { nth } else { nth_distance_in(&Rect::EVERYTHING, page, point, count) }
}

/// The same for the entries that meet `window`.
fn nth_distance_in<const D: usize>(
    window: &Rect<D>,
    page: &Page<'_, D>,
    point: &[f64; D],
    count: usize,
) -> f64 {
    let (boxes, has_records) = (page.boxes(), page.record_count() > 0);
    let mut distances = SmallVec::<[f64; 64]>::new();
    boxes.select(Relation::Intersects, window, |slot| {
        if !has_records || page.record_of(slot).is_none() {
            distances.push(boxes.rect(slot).distance_squared(point));
        }
    });
    match count {
        _ if count > distances.len() => f64::INFINITY,
        1 => distances.iter().copied().fold(f64::INFINITY, less),
        _ => *distances.select_nth_unstable_by(count - 1, f64::total_cmp).1,
    }
}
